//! Silent connections, which have no thread: one waits for all of them.

use super::socket::{Socket, TICK};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time between two tries to wake a connection for which the system has no thread.
const RETRY: Duration = Duration::from_millis(50);

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

/// Continues a connection that is woken.
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
pub(super) struct ParkingSlot<'p> {
    parked: MutexGuard<'p, HashMap<u64, Parked>>,
    id: u64,
    socket: &'p Arc<Socket>,
}

impl ParkingSlot<'_> {
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

    /// Begins to wait for a connection; [`ParkingSlot::park`] says what goes on with it. `None` if
    /// the server stops, or the system has no memory for it.
    pub(super) fn place<'p>(
        &'p self,
        id: u64,
        socket: &'p Arc<Socket>,
        is_stopping: impl Fn() -> bool,
    ) -> Option<ParkingSlot<'p>> {
        let parked = self.parked();
        // Once all are woken because the server stops, nobody waits any more.
        if is_stopping() {
            return None;
        }
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        epoll::add(&self.epoll, socket, EventData::new_u64(id), flags).ok()?;
        Some(ParkingSlot { parked, id, socket })
    }

    /// Takes a connection that is to be woken.
    fn take(&self, id: u64) -> Option<Resume> {
        let parked = self.parked().remove(&id)?;
        // The socket may be closed already, which has removed it.
        let _gone = epoll::delete(&self.epoll, &parked.socket);
        Some(parked.resume)
    }

    /// Wakes connections until the server stops. `start` runs what goes on with one that is
    /// readable, in another thread, or returns it: then it is tried again.
    pub(super) fn run(
        &self,
        is_stopping: impl Fn() -> bool,
        start: impl Fn(Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn FnOnce() + Send>>,
    ) {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let (mut events, mut looked) = ([none; EVENTS], Instant::now());
        let mut waiting: VecDeque<Box<dyn FnOnce() + Send>> = VecDeque::new();
        loop {
            let tick = if waiting.is_empty() { TICK } else { RETRY };
            let (tv_sec, tv_nsec) = (tick.as_secs() as i64, tick.subsec_nanos().into());
            let tick = Timespec { tv_sec, tv_nsec };
            // An interruption: the next round sees what there is.
            let count = epoll::wait(&self.epoll, &mut events[..], Some(&tick)).unwrap_or(0);
            if is_stopping() {
                break;
            }
            for event in &events[..count] {
                if let Some(resume) = self.take(event.data.u64()) {
                    waiting.push_back(Box::new(move || resume(Woken::Readable)));
                }
            }
            while let Some(next) = waiting.pop_front() {
                if let Err(next) = start(next) {
                    waiting.push_front(next);
                    break;
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
        // Those see that the server stops.
        waiting.into_iter().for_each(|next| next());
        let all = std::mem::take(&mut *self.parked());
        for (_, parked) in all {
            (parked.resume)(Woken::Stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A connection that had something to say was closed when the system had no thread for it.
    #[test]
    fn a_connection_waits_for_a_thread() {
        let parking = Parking::new().unwrap();
        let woken = Arc::new(AtomicUsize::new(0));
        let mut clients = Vec::new();
        for id in 0..3 {
            let (mut client, socket) = UnixStream::pair().unwrap();
            client.write_all(b"x").unwrap();
            clients.push(client);
            let (socket, woken) = (Arc::new(Socket::Unix(socket)), Arc::clone(&woken));
            let place = parking.place(id, &socket, || false).unwrap();
            place.park(
                None,
                Box::new(move |why| {
                    assert_eq!(why, Woken::Readable);
                    woken.fetch_add(1, Ordering::Relaxed);
                }),
            );
        }
        let tries = Cell::new(0);
        let start = |work: Box<dyn FnOnce() + Send>| {
            tries.set(tries.get() + 1);
            if tries.get() <= 3 {
                return Err(work);
            }
            work();
            Ok(())
        };
        parking.run(|| woken.load(Ordering::Relaxed) == 3, start);
        assert_eq!((tries.get(), woken.load(Ordering::Relaxed)), (6, 3));
    }
}
