//! Entries of a thread that expire by themselves, seconds after they are written.

use super::place::{Handles, VALUE_BYTES};
use crate::rng::Rng;
use flagstone::{Database, Moment, Prefix, Space};
use flagstone_base::hash::remix;
use std::collections::VecDeque;
use std::time::Duration;

/// The time from the put of an entry to its expiry.
const LIFETIME: Duration = Duration::from_secs(10);

/// The entries of a thread that may be alive.
pub(super) struct Sessions {
    thread: u64,
    /// The number and the expiry of each, the oldest first. Numbers follow one another.
    alive: VecDeque<(u64, Moment)>,
    next: u64,
}

/// An entry to be put.
pub(super) struct SessionEntry {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    pub(super) expiry: Moment,
}

impl Sessions {
    pub(super) const fn new(thread: u64) -> Self {
        Self { thread, alive: VecDeque::new(), next: 0 }
    }

    /// Returns the next entry, which is put now.
    pub(super) fn begin(&mut self, now: Moment) -> SessionEntry {
        let (at, expiry) = (self.next, now.after(LIFETIME));
        self.next += 1;
        self.alive.push_back((at, expiry));
        SessionEntry { key: self.key(at), value: self.value(at), expiry }
    }

    /// Forgets the entries that have expired. Returns their bytes.
    pub(super) fn end(&mut self, now: Moment) -> usize {
        let mut bytes = 0;
        while let Some(&(at, expiry)) = self.alive.front()
            && expiry <= now
        {
            bytes += self.key(at).len() + self.value_len(at);
            self.alive.pop_front();
        }
        bytes
    }

    /// Reads all entries of the thread and compares them. Those that expire meanwhile may be there
    /// or not.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn look(&self, db: &Database, handles: &Handles) -> Result<(), String> {
        let mut expected = self.alive.iter().peekable();
        let before = db.now();
        for entry in handles.sessions.scan(Prefix(format!("t{}/", self.thread))) {
            let (key, value) = entry.map_err(|error| format!("{error:?}"))?;
            // Those that the scan has left out.
            while let Some((at, expiry)) = expected.peek()
                && self.key(*at).as_bytes() != &key[..]
            {
                self.check_gone(*at, *expiry, db.now())?;
                expected.next();
            }
            let Some((at, expiry)) = expected.next() else {
                return Err(format!("session {}: it was never put", key.escape_ascii()));
            };
            if *expiry <= before {
                return Err(format!("session {at} until {expiry}: it is there at {before}"));
            }
            if value[..] != self.value(*at) {
                return Err(format!("session {at}: its value differs"));
            }
        }
        expected.try_for_each(|(at, expiry)| self.check_gone(*at, *expiry, db.now()))
    }

    fn check_gone(&self, at: u64, expiry: Moment, now: Moment) -> Result<(), String> {
        if expiry <= now {
            Ok(())
        } else {
            Err(format!("session {at} of thread {}, until {expiry}: gone", self.thread))
        }
    }

    fn key(&self, at: u64) -> String {
        format!("t{}/{at:012x}", self.thread)
    }

    fn value_len(&self, at: u64) -> usize {
        (VALUE_BYTES / 2 + remix(self.thread << 48 ^ at) % VALUE_BYTES) as usize
    }

    fn value(&self, at: u64) -> Vec<u8> {
        Rng::new(remix(self.thread << 48 ^ at)).bytes(self.value_len(at))
    }
}
