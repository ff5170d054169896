//! Limits of memory that all clients share: one for long messages, from their headers to their
//! answers, one for parsed commands, and one for long replies until they are sent.
//!
//! A message gets room for its whole length before it is read, so that no two clients wait for each
//! other with half a message. Nothing is allocated by that length. One whose length is not known
//! gets room as it comes; of those that hold a part, only one waits for more. Parsed values have
//! room of their own: a client that waits for it holds a whole message, and who has it waits for
//! no message.
//!
//! Messages that hold no room get it in the order in which they came: otherwise short ones would
//! take all that becomes free before a long one does. A message that holds a part of its room goes
//! first, since the others may wait for that part.

use flagstone::internal::env::os;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest pause between two looks whether to wait on.
const TICK: Duration = Duration::from_millis(250);

/// What of each message does not count, so that short ones touch nothing that others share.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// Room that all clients share.
#[derive(Debug)]
pub(crate) struct Room {
    used: Mutex<Used>,
    freed: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    /// The bytes of open cursors.
    kept: usize,
    /// Whether a message that holds a part waits for more.
    is_waited: bool,
    /// The numbers of those that hold nothing and wait, in the order in which they came.
    queue: VecDeque<u64>,
    next: u64,
}

/// The room of one message or command, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    of: Arc<Room>,
    bytes: usize,
    /// Whether a cursor has it.
    is_kept: bool,
}

impl Room {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { used: Mutex::default(), freed: Condvar::new(), most })
    }

    /// Takes the room of a message, and waits for it until `deadline` or as long as `goes_on`.
    /// `None`: there was none.
    pub(crate) fn take(
        self: &Arc<Self>,
        len: usize,
        deadline: Instant,
        goes_on: impl Fn() -> bool,
    ) -> Option<Held> {
        let mut held = self.begin();
        held.grow(len, deadline, goes_on).then_some(held)
    }

    /// Begins to hold room, with none.
    pub(crate) fn begin(self: &Arc<Self>) -> Held {
        Held { of: Arc::clone(self), bytes: 0, is_kept: false }
    }

    /// Returns how much room there is in all, in bytes.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Returns the bytes of messages or commands, and those of open cursors.
    pub(crate) fn held(&self) -> (usize, usize) {
        let used = self.used();
        (used.bytes, used.kept)
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// As [`Room::take`], for a message that has become this long. Returns false if there was no
    /// room.
    pub(crate) fn grow(
        &mut self,
        len: usize,
        deadline: Instant,
        goes_on: impl Fn() -> bool,
    ) -> bool {
        let bytes = len.saturating_sub(FREE_BYTES);
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            return true;
        };
        if bytes > self.of.most {
            return false;
        }
        let holds = self.bytes > 0;
        let mut used = self.of.used();
        let fits = |used: &Used| used.bytes + more <= self.of.most;
        let mut has_room = fits(&used) && (holds || used.queue.is_empty());
        if !has_room {
            // Two that hold a part could wait for each other.
            if holds && used.is_waited {
                return false;
            }
            let place = used.next;
            if holds {
                used.is_waited = true;
            } else {
                used.next += 1;
                used.queue.push_back(place);
            }
            while !has_room {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || !goes_on() {
                    break;
                }
                let waited = self.of.freed.wait_timeout(used, left.min(TICK));
                used = waited.unwrap_or_else(PoisonError::into_inner).0;
                has_room = fits(&used) && (holds || used.queue.front() == Some(&place));
            }
            if holds {
                used.is_waited = false;
            } else {
                used.queue.retain(|waiting| *waiting != place);
                // The next one may have room as well.
                self.of.freed.notify_all();
            }
        }
        if has_room {
            used.bytes += more;
            self.bytes = bytes;
        }
        has_room
    }

    /// Begins to hold room of the same kind, with none.
    pub(crate) fn other(&self) -> Self {
        self.of.begin()
    }

    /// Returns how much room there is in all, in bytes.
    pub(crate) fn most(&self) -> usize {
        self.of.most()
    }

    /// Gives the room back, and takes as much of that of cursors. Returns false if that has none.
    ///
    /// Cursors have as much room again as commands, so that no command waits for cursors that
    /// nobody reads from: all together take at most twice [`Room::most`]. No cursor waits for
    /// others: they may all be of the one client that waits.
    fn keep(&mut self) -> bool {
        let mut used = self.of.used();
        if used.kept + self.bytes > self.of.most {
            return false;
        }
        used.kept += self.bytes;
        used.bytes -= self.bytes;
        self.is_kept = true;
        drop(used);
        self.of.freed.notify_all();
        true
    }

    /// Takes `len` bytes of the room of cursors. Returns false if there is too little, or if this
    /// holds some already.
    pub(crate) fn keep_bytes(&mut self, len: usize) -> bool {
        let bytes = len.saturating_sub(FREE_BYTES);
        let mut used = self.of.used();
        let has_room = self.bytes == 0 && used.kept + bytes <= self.of.most;
        if has_room {
            used.kept += bytes;
            (self.bytes, self.is_kept) = (bytes, true);
        }
        has_room
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut used = self.of.used();
            if self.is_kept {
                used.kept -= self.bytes;
            } else {
                used.bytes -= self.bytes;
                drop(used);
                self.of.freed.notify_all();
            }
        }
    }
}

/// The room of the values that a command was parsed into. It is dropped after them.
#[derive(Debug)]
pub(crate) struct Parsed(pub(crate) Held);

impl Parsed {
    /// Gives the room to a cursor, which holds the values when its command has ended.
    ///
    /// # Errors
    /// The bytes for which cursors have no room left.
    pub(crate) fn keep(&mut self) -> Result<(), usize> {
        if self.0.keep() { Ok(()) } else { Err(self.0.bytes) }
    }
}

/// The allocator keeps what was freed in small pieces: several times the room, in the arenas of
/// many threads.
impl Drop for Parsed {
    fn drop(&mut self) {
        os::freed(self.0.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_share_room_and_wait_for_it() {
        let room = Room::new(1000);
        let soon = || Instant::now() + Duration::from_millis(1);
        let take = |len| room.take(FREE_BYTES + len, soon(), || true);
        let first = take(700);
        assert!(first.is_some() && take(300).is_some() && take(301).is_none());
        assert!(take(1001).is_none(), "it never has room");
        let short = room.take(FREE_BYTES, soon(), || true);
        assert!(short.is_some());
        assert!(room.take(FREE_BYTES + 900, Instant::now() + TICK * 60, || false).is_none());
        std::thread::scope(|threads| {
            let late = Instant::now() + Duration::from_secs(60);
            let room = &room;
            let wait = move || room.take(FREE_BYTES + 900, late, || true).is_some();
            let waits = threads.spawn(wait);
            drop(first);
            assert!(waits.join().unwrap());
        });
        drop(short);
        assert_eq!(room.used().bytes, 0);
    }

    /// Short messages took what became free, and a long one that had come before them waited until
    /// its time was over.
    #[test]
    fn room_is_given_in_the_order_in_which_it_was_asked_for() {
        let room = Room::new(1000);
        let late = Instant::now() + Duration::from_secs(60);
        let waiting = || room.used().queue.len();
        let mut first = room.take(FREE_BYTES + 900, late, || true).unwrap();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|threads| {
            let (room, order) = (&room, &order);
            for (number, len) in [(0, 1000), (1, 50), (2, 50)] {
                threads.spawn(move || {
                    let held = room.take(FREE_BYTES + len, late, || true).unwrap();
                    order.lock().unwrap().push(number);
                    drop(held);
                });
                while waiting() <= number {
                    std::thread::yield_now();
                }
            }
            // There is room for this one, and it comes last. One of a message that is half there
            // does not wait for those.
            assert!(room.take(FREE_BYTES + 50, Instant::now(), || true).is_none());
            assert!(first.grow(FREE_BYTES + 1000, Instant::now(), || true));
            // Who gives up lets the next one in.
            assert!(room.take(FREE_BYTES + 50, late, || false).is_none());
            assert_eq!((waiting(), order.lock().unwrap().len()), (3, 0));
            drop(first);
        });
        assert_eq!(order.into_inner().unwrap()[0], 0);
        assert_eq!((waiting(), room.used().bytes), (0, 0));
    }

    #[test]
    fn what_cursors_keep_is_no_room_of_commands() {
        let room = Room::new(1000);
        let take = |len| room.take(FREE_BYTES + len, Instant::now(), || true);
        let (mut first, mut second) = (take(700).unwrap(), take(300).unwrap());
        assert!(first.keep() && take(701).is_none());
        let mut third = take(700).unwrap();
        assert!(!third.keep() && second.keep() && !third.keep());
        drop(first);
        assert!(third.keep() && take(1000).is_some());
        drop((second, third));
        let used = room.used();
        assert_eq!((used.bytes, used.kept), (0, 0));
    }

    #[test]
    fn a_message_grows_and_one_that_holds_a_part_waits_alone() {
        let room = Room::new(1000);
        let soon = || Instant::now() + Duration::from_millis(1);
        let begin = || room.begin();
        let (mut first, mut second, mut third) = (begin(), begin(), begin());
        assert!(first.grow(FREE_BYTES, soon(), || true) && room.used().bytes == 0);
        for held in [&mut first, &mut second] {
            assert!(held.grow(FREE_BYTES + 400, soon(), || true));
        }
        assert!(third.grow(FREE_BYTES + 100, soon(), || true));
        assert!(!first.grow(FREE_BYTES + 1001, soon(), || true), "it never has room");
        assert!(!first.grow(FREE_BYTES + 600, soon(), || true) && !room.used().is_waited);
        std::thread::scope(|threads| {
            let late = Instant::now() + Duration::from_secs(60);
            let (room, second) = (&room, &mut second);
            let waits = threads.spawn(move || first.grow(FREE_BYTES + 600, late, || true));
            while !room.used().is_waited {
                std::thread::yield_now();
            }
            // At once, though it could wait for long.
            assert!(!second.grow(FREE_BYTES + 700, late, || true));
            drop(third);
            assert!(waits.join().unwrap());
            assert!(second.grow(FREE_BYTES + 700, late, || true));
        });
        drop(second);
        assert_eq!(room.used().bytes, 0);
    }
}
