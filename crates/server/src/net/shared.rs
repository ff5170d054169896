//! What the connections of a server share.

use super::address::Address;
use super::counters::Counters;
use super::handler::Handler;
use super::limits::Limits;
use super::log::Log;
use super::options::ServeOptions;
#[cfg(target_os = "linux")]
use super::parking::Parking;
use super::refusal::Refusal;
use super::socket::Socket;
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::command::About;
use crate::room::{Held, Room};
use flagstone::Value;
use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What the connections of a server share.
pub(super) struct Shared<H> {
    pub(super) limits: Limits,
    pub(super) messages: Arc<Room>,
    pub(super) slow: Option<Duration>,
    pub(super) http_hosts: Vec<String>,
    pub(super) log: Arc<Log>,
    pub(super) counters: Arc<Counters>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Tls>,
    /// What answers, once the database is ready.
    pub(super) handler: OnceLock<Arc<H>>,
    is_stopping: AtomicBool,
    has_stopped: AtomicBool,
    /// The open connections, and which of them are refused and only told so.
    open: Mutex<HashMap<u64, (Arc<Socket>, bool)>>,
    refused: AtomicUsize,
    /// Told when a connection has ended.
    ended: Condvar,
    /// Silent connections.
    #[cfg(target_os = "linux")]
    pub(super) parking: Parking,
}

impl<H> Shared<H> {
    pub(super) fn new(options: ServeOptions, log: Arc<Log>) -> Result<Self, String> {
        Ok(Self {
            #[cfg(feature = "tls")]
            tls: options.tls.as_ref().map(Tls::open).transpose()?,
            messages: Room::new(options.limits.messages),
            limits: options.limits,
            slow: options.slow,
            http_hosts: options.http_hosts,
            log,
            counters: Arc::default(),
            handler: OnceLock::new(),
            is_stopping: AtomicBool::new(false),
            has_stopped: AtomicBool::new(false),
            open: Mutex::default(),
            refused: AtomicUsize::new(0),
            ended: Condvar::new(),
            #[cfg(target_os = "linux")]
            parking: Parking::new().map_err(|error| format!("epoll: {error}"))?,
        })
    }

    /// Makes room in `held` for `len` bytes of what a client sends, and waits for it until
    /// `deadline`. The wait is that of the client, if it is known.
    ///
    /// # Errors
    /// What the client is told.
    pub(super) fn make_room(
        &self,
        held: &mut Held,
        len: usize,
        deadline: Instant,
        of: Option<(&H, &H::Client)>,
    ) -> Result<(), Refusal>
    where
        H: Handler,
    {
        if held.grow(len, Instant::now(), || true) {
            return Ok(());
        }
        let mut has_room = false;
        let mut wait = |goes_on: &dyn Fn() -> bool| {
            has_room = held.grow(len, deadline, || goes_on() && !self.is_stopping());
        };
        let is_killed = match of {
            Some((handler, client)) => handler.wait(client, &mut wait),
            None => {
                wait(&|| true);
                false
            }
        };
        if has_room {
            return Ok(());
        }
        if self.is_stopping() {
            return Err(Refusal::stopping());
        }
        self.counters.refused_messages.add();
        Err(if is_killed { Refusal::killed() } else { Refusal::full(&self.limits) })
    }

    /// Logs a command or request that was slow, without what it carries.
    pub(super) fn note_slow(&self, connection: u64, took: Duration, about: Option<About>) {
        self.counters.slow_commands.add();
        let millis = Value::from(took.as_millis() as u64);
        let mut fields = vec![("connection", Value::from(connection)), ("millis", millis)];
        if let Some(About { command, database, collection }) = about {
            fields.push(("command", command.into()));
            fields.push(("database", database.into()));
            fields.extend(collection.map(|collection| ("collection", collection.into())));
        }
        self.log.warn("slow command", &fields);
    }

    /// Counts and logs that a client has not logged in with what it has sent.
    pub(super) fn note_failed_login(&self, connection: u64, peer: &Address, user: String) {
        self.counters.failed_logins.add();
        let (connection, peer) = (Value::from(connection), Value::from(peer.to_string()));
        let fields = [("connection", connection), ("peer", peer), ("user", user.into())];
        self.log.warn("login failed", &fields);
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, (Arc<Socket>, bool)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(super) fn set_stopping(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Returns whether nobody is accepted any more.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped.load(Ordering::Acquire)
    }

    pub(super) fn set_stopped(&self) {
        self.has_stopped.store(true, Ordering::Release);
    }

    /// Returns the number of open connections.
    pub(super) fn len(&self) -> usize {
        self.open().len()
    }

    /// Returns how many of the open connections are refused.
    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::Acquire)
    }

    /// Notes an open connection.
    pub(super) fn enter(&self, id: u64, socket: &Arc<Socket>, is_refused: bool) {
        let mut open = self.open();
        open.insert(id, (Arc::clone(socket), is_refused));
        self.refused.fetch_add(usize::from(is_refused), Ordering::AcqRel);
    }

    /// Notes the end of a connection.
    pub(super) fn leave(&self, id: u64) {
        let mut open = self.open();
        let left = open.remove(&id);
        let was_refused = left.as_ref().is_some_and(|(_, is_refused)| *is_refused);
        self.refused.fetch_sub(usize::from(was_refused), Ordering::AcqRel);
        drop(open);
        self.ended.notify_all();
    }

    /// Ends reading, writing or both of all connections.
    pub(super) fn shutdown(&self, how: Shutdown) {
        for (socket, _) in self.open().values() {
            socket.shutdown(how);
        }
    }

    /// Waits until all connections have ended but those that are refused, at most `time`. Returns
    /// how many have not.
    pub(super) fn wait(&self, time: Duration) -> usize {
        let deadline = Instant::now() + time;
        let mut open = self.open();
        loop {
            let served = open.len().saturating_sub(self.refused());
            let left = deadline.saturating_duration_since(Instant::now());
            if served == 0 || left.is_zero() {
                return served;
            }
            open = self.ended.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
