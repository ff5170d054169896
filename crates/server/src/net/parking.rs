//! Silent connections, which have no thread: one waits for all of them.

use super::socket::{Socket, TICK};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many connections are woken at a time.
const EVENTS: usize = 256;

/// Why a connection is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// There is something to read, or the client has closed it.
    Readable,
    /// Its time is over.
    Late,
    /// The server stops.
    Stopped,
}

/// What goes on with a connection that is woken.
pub(super) type Resume = Box<dyn FnOnce(Woken) + Send>;

struct Parked {
    socket: Arc<Socket>,
    deadline: Option<Instant>,
    resume: Resume,
}

/// The silent connections.
pub(super) struct Parking {
    epoll: OwnedFd,
    parked: Mutex<HashMap<u64, Parked>>,
}

/// A place for a silent connection. Who wakes it waits until it is taken.
pub(super) struct Place<'p> {
    parked: MutexGuard<'p, HashMap<u64, Parked>>,
    id: u64,
    socket: &'p Arc<Socket>,
}

impl Place<'_> {
    /// Calls `resume` when there is something to read, and at `deadline`.
    pub(super) fn park(mut self, deadline: Option<Instant>, resume: Resume) {
        let socket = Arc::clone(self.socket);
        self.parked.insert(self.id, Parked { socket, deadline, resume });
    }
}

impl Parking {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, parked: Mutex::default() })
    }

    fn parked(&self) -> MutexGuard<'_, HashMap<u64, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait for a connection; [`Place::park`] says what goes on with it. `None` if the
    /// server stops, or the system has no memory for it.
    pub(super) fn place<'p>(
        &'p self,
        id: u64,
        socket: &'p Arc<Socket>,
        is_stopping: impl Fn() -> bool,
    ) -> Option<Place<'p>> {
        let parked = self.parked();
        // Once all are woken because the server stops, nobody waits any more.
        if is_stopping() {
            return None;
        }
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        epoll::add(&self.epoll, socket, EventData::new_u64(id), flags).ok()?;
        Some(Place { parked, id, socket })
    }

    /// Takes a connection that is to be woken.
    fn take(&self, id: u64) -> Option<Resume> {
        let parked = self.parked().remove(&id)?;
        // The socket may be closed already, which has removed it.
        let _gone = epoll::delete(&self.epoll, &parked.socket);
        Some(parked.resume)
    }

    /// Wakes connections until the server stops. `start` runs what goes on with one that is
    /// readable, in another thread.
    pub(super) fn run(
        &self,
        is_stopping: impl Fn() -> bool,
        start: impl Fn(Box<dyn FnOnce() + Send>),
    ) {
        let tick = Timespec { tv_sec: TICK.as_secs() as i64, tv_nsec: 0 };
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let (mut events, mut looked) = ([none; EVENTS], Instant::now());
        loop {
            // An interruption: the next round sees what there is.
            let count = epoll::wait(&self.epoll, &mut events[..], Some(&tick)).unwrap_or(0);
            if is_stopping() {
                break;
            }
            for event in &events[..count] {
                if let Some(resume) = self.take(event.data.u64()) {
                    start(Box::new(move || resume(Woken::Readable)));
                }
            }
            let now = Instant::now();
            if now.duration_since(looked) >= TICK {
                looked = now;
                let is_late = |parked: &Parked| parked.deadline.is_some_and(|end| now >= end);
                let late: Vec<u64> = {
                    let parked = self.parked();
                    parked.iter().filter(|(_, parked)| is_late(parked)).map(|(id, _)| *id).collect()
                };
                for resume in late.into_iter().filter_map(|id| self.take(id)) {
                    resume(Woken::Late);
                }
            }
        }
        let all = std::mem::take(&mut *self.parked());
        for (_, parked) in all {
            (parked.resume)(Woken::Stopped);
        }
    }
}
