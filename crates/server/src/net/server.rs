//! Accepts connections, and ends them.

use super::address::Address;
use super::connection::AcceptedConnection;
use super::counters::Counters;
use super::handler::Handler;
use super::listener::Listener;
use super::log::Log;
use super::options::ServeOptions;
use super::refusal::Refusal;
use super::shared::Shared;
use super::socket::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The stack of a connection. Only what is touched takes memory; at 2 MiB and more the system may
/// give each a huge page. The deepest conditions around the deepest expression take 2.3 MiB in
/// debug builds, whose frames are larger.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 4 << 20 } else { 1536 << 10 };
/// How many connections above the limit are told so at a time. More are closed.
const REFUSED_MAX: usize = 64;
/// How long commands have to end that are told so when the server stops.
const LAST: Duration = Duration::from_secs(1);
/// How long accepting pauses when the system has no descriptors or memory.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A server that listens.
pub struct Server<H: Handler> {
    shared: Arc<Shared<H>>,
    addresses: Vec<Address>,
    accepting: Mutex<Option<Accepting>>,
}

/// The thread that accepts, and what wakes it.
struct Accepting {
    thread: JoinHandle<()>,
    wake: UnixStream,
}

impl<H: Handler> Server<H> {
    /// Begins to listen. Until [`Server::ready`] clients are asked to come again.
    ///
    /// # Errors
    /// If the files of TLS cannot be read, or the system has no thread.
    pub fn start(
        listeners: Vec<Listener>,
        options: ServeOptions,
        log: Arc<Log>,
    ) -> io::Result<Self> {
        #[cfg(feature = "tls")]
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        #[cfg(not(feature = "tls"))]
        let scheme = "http";
        let shared = Arc::new(Shared::new(options, log).map_err(io::Error::other)?);
        let addresses: Vec<_> =
            listeners.iter().map(|listener| listener.address().clone()).collect();
        for address in &addresses {
            let mut fields = vec![("address", address.to_string().into())];
            if let Some(page) = address.page(scheme) {
                fields.push(("page", page.into()));
            }
            shared.log.info("listening", &fields);
        }
        let (wake, woken) = UnixStream::pair()?;
        let accepts =
            Accepts { shared: Arc::clone(&shared), listeners, woken, is_failing: false, next: 1 };
        let thread = Builder::new().name("accept".to_owned()).spawn(move || accepts.run())?;
        #[cfg(target_os = "linux")]
        {
            // It ends within a tick of the stop.
            let shared = Arc::clone(&shared);
            Builder::new().name("silent".to_owned()).spawn(move || {
                let start = |work| start(&shared, work);
                shared.parking.run(|| shared.is_stopping(), start);
            })?;
        }
        let accepting = Mutex::new(Some(Accepting { thread, wake }));
        Ok(Self { shared, addresses, accepting })
    }

    /// Lets `handler` answer from now on.
    pub fn ready(&self, handler: Arc<H>) {
        if self.shared.handler.set(handler).is_ok() {
            self.shared.log.info("ready", &[]);
        }
    }

    /// Returns the addresses, with the ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns what has happened to connections.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.shared.counters)
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.shared.len()
    }

    /// Reads certificates again, for new connections.
    ///
    /// # Errors
    /// If they cannot be read; the old ones stay.
    pub fn reload(&self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.shared.tls {
            tls.reload().map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Stops: lets commands that run end within `grace`, tells clients that come meanwhile so, and
    /// closes all connections. What has not ended is told to end. Returns how many commands that
    /// were.
    pub fn stop(&self, grace: Duration) -> usize {
        let accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.set_stopping();
        if accepting.is_some() {
            self.shared.log.info("stopping", &[("connections", self.connections().into())]);
        }
        let handler = self.shared.handler.get();
        if let Some(handler) = handler {
            handler.stop();
        }
        self.shared.shutdown(Shutdown::Read);
        let left = self.shared.wait(grace);
        if let Some(handler) = handler.filter(|_| left > 0) {
            handler.stop_at_once();
            // They look often whether they are to end.
            self.shared.wait(grace.min(LAST));
        }
        self.shared.set_stopped();
        if let Some(Accepting { thread, mut wake }) = accepting {
            let _woken = wake.write_all(&[1]);
            // Its panic was printed.
            let _ended = thread.join();
        }
        self.shared.shutdown(Shutdown::Both);
        left
    }
}

impl<H: Handler> Drop for Server<H> {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl<H: Handler> fmt::Debug for Server<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.addresses)
    }
}

/// What the accepting thread has.
struct Accepts<H: Handler> {
    shared: Arc<Shared<H>>,
    listeners: Vec<Listener>,
    woken: UnixStream,
    /// The last accept failed.
    is_failing: bool,
    /// The number of the next connection.
    next: u64,
}

impl<H: Handler> Accepts<H> {
    fn run(mut self) {
        while !self.shared.has_stopped() {
            if self.shared.is_stopping() {
                // Those wait for the next process.
                self.listeners.retain(|listener| !listener.is_inherited());
            }
            let woken = PollFd::new(&self.woken, PollFlags::IN);
            let listeners = self.listeners.iter();
            let listeners = listeners.map(|listener| PollFd::new(listener, PollFlags::IN));
            let mut fds: Vec<_> = std::iter::once(woken).chain(listeners).collect();
            // An interruption, or want of memory: the next round sees what there is.
            let _seen = poll(&mut fds, None);
            let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let ready = is_ready.iter().skip(1).enumerate().filter(|(_, is_ready)| **is_ready);
            for at in ready.map(|(at, _)| at).collect::<Vec<_>>() {
                // Another process takes what waits there.
                if !(self.shared.is_stopping() && self.listeners[at].is_inherited()) {
                    self.accept(at);
                }
            }
        }
    }

    /// Accepts the clients that wait at a listener, some at a time.
    fn accept(&mut self, at: usize) {
        for _ in 0..64 {
            match self.listeners[at].accept() {
                Ok((socket, address)) => {
                    self.is_failing = false;
                    self.admit(socket, address);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client is gone already, or the system has no room for it.
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    self.shared.counters.failed_accepts.add();
                    if !self.is_failing {
                        let fields = [("error", error.to_string().into())];
                        self.shared.log.warn("cannot accept", &fields);
                    }
                    self.is_failing = true;
                    let mut fds = [PollFd::new(&self.woken, PollFlags::IN)];
                    let _paused = poll(&mut fds, Some(&PAUSE));
                    return;
                }
            }
        }
    }

    /// Decides on a client, and starts its thread.
    fn admit(&mut self, socket: Socket, address: Address) {
        let shared = &self.shared;
        shared.counters.accepted.add();
        // Those that are refused take no place of others while they are told so.
        let refused = shared.refused();
        let served = shared.len().saturating_sub(refused);
        let verdict = if served >= shared.limits.connections {
            shared.counters.refused_connections.add();
            Err(Refusal::too_many(&shared.limits))
        } else {
            match shared.handler.get() {
                _ if shared.is_stopping() => Err(Refusal::stopping()),
                None => {
                    shared.counters.refused_not_ready.add();
                    Err(Refusal::not_ready())
                }
                Some(handler) if !address.is_local() && !handler.admits_remote() => {
                    shared.counters.refused_remote.add();
                    Err(Refusal::remote())
                }
                Some(handler) => Ok(Arc::clone(handler)),
            }
        };
        let most = shared.limits.connections.saturating_add(REFUSED_MAX);
        if verdict.is_err() && served + refused >= most {
            return;
        }
        let (id, socket) = (self.next, Arc::new(socket));
        self.next += 1;
        shared.enter(id, &socket, verdict.is_err());
        let (shared, opened) = (Arc::clone(shared), Instant::now());
        let connection = AcceptedConnection { shared, id, socket, address, verdict, opened };
        // Without a thread it is dropped, that is, closed.
        let _closed = start(&self.shared, Box::new(move || connection.run()));
    }
}

/// Starts a thread of a connection. If the system has none, the work is returned.
fn start<H>(shared: &Shared<H>, work: ThreadWork) -> Result<(), ThreadWork> {
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<ThreadWork>>| {
        work.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let theirs = Arc::clone(&work);
    let thread = Builder::new().name("connection".to_owned()).stack_size(STACK_BYTES);
    let Err(error) = thread.spawn(move || take(&theirs).map_or((), |work| work())) else {
        return Ok(());
    };
    shared.counters.failed_threads.add();
    let fields = [("error", error.to_string().into())];
    shared.log.warn("cannot start the thread of a connection", &fields);
    take(&work).map_or(Ok(()), Err)
}

/// What a thread does.
type ThreadWork = Box<dyn FnOnce() + Send>;

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | NotConnected)
}
