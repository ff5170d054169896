//! The memory of long messages of all clients, from their headers to their answers.
//!
//! A message gets room for its whole length before it is read, so that no two clients wait for each
//! other with half a message. Nothing is allocated by that length.

use super::socket::TICK;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// What of each message does not count, so that short ones touch nothing that others share.
const FREE_BYTES: usize = 64 << 10;

/// The room for long messages.
#[derive(Debug)]
pub(super) struct Room {
    used: Mutex<usize>,
    freed: Condvar,
    most: usize,
}

/// The room of one message, until it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    of: Arc<Room>,
    bytes: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { used: Mutex::default(), freed: Condvar::new(), most })
    }

    /// Takes the room of a message, and waits for it until `deadline` or as long as `goes_on`.
    /// `None`: there was none.
    pub(super) fn take(
        self: &Arc<Self>,
        len: usize,
        deadline: Instant,
        goes_on: impl Fn() -> bool,
    ) -> Option<Held> {
        let bytes = len.saturating_sub(FREE_BYTES);
        let held = || Held { of: Arc::clone(self), bytes };
        if bytes == 0 {
            return Some(held());
        }
        if bytes > self.most {
            return None;
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used + bytes > self.most {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !goes_on() {
                return None;
            }
            let waited = self.freed.wait_timeout(used, left.min(TICK));
            used = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *used += bytes;
        Some(held())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            *self.of.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
            self.of.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
        assert_eq!(*room.used.lock().unwrap(), 0);
    }
}
