//! The time of the server, as drivers of replica sets and sharded clusters follow it: each commit
//! has a time, in the order of the commits, and has the same after a restart.
//!
//! ```text
//! SeqNo   ..  7  [8: mark of second 100]  9  10   [11: mark of second 101]  12
//! time              (100, 1)        (100, 2) (100, 3)   (101, 1)         (101, 2)
//! ```
//! A mark is an entry of the keyspace [`CHANGES`], written with the first write of a second. So a
//! time is found by the number of a commit (its SeqNo), and a commit by its time.

use crate::failure::{Code, Failure, Outcome};
use flagstone::{Database, Keyspace, Scan, Space};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The keyspace of what the server adds to the changes of clients, for those who read changes.
pub(crate) const CHANGES: &str = "admin.system.changes";

/// What the keys of marks begin with; the second follows.
const MARK: u8 = b't';

/// Old marks are removed after this many new ones.
const PRUNE_EVERY: u32 = 1024;

/// How far times may be ahead of the machine's clock: marks of two starts in one second are.
const DRIFT_SECONDS: u32 = 10;

/// A time: a second since 1970, and a number within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time {
    pub(crate) seconds: u32,
    pub(crate) increment: u32,
}

impl Time {
    /// Returns it as BSON has it.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.seconds) << 32 | u64::from(self.increment)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({}, {})", self.seconds, self.increment)
    }
}

/// From which write on commits have a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    seconds: u32,
    /// The SeqNo of the mark.
    pub(crate) seqno: u64,
    /// The milliseconds since 1970 when it was written; `None` before the first mark.
    pub(crate) millis: Option<i64>,
}

impl Mark {
    /// What commits before the first mark have.
    pub(crate) const NONE: Self = Self { seconds: 1, seqno: 0, millis: None };

    /// Returns the time of a write at the mark or after it.
    pub(crate) fn time(&self, seqno: u64) -> Time {
        let increment = seqno.saturating_sub(self.seqno).saturating_add(1);
        let increment = u32::try_from(increment).unwrap_or(u32::MAX);
        Time { seconds: self.seconds, increment }
    }

    /// Returns the mark that a key and a value of [`CHANGES`] are.
    pub(crate) fn of_entry(key: &[u8], value: &[u8], seqno: u64) -> Option<Self> {
        let (MARK, seconds) = key.split_first().map(|(first, rest)| (*first, rest))? else {
            return None;
        };
        let seconds = u32::from_be_bytes(*seconds.first_chunk()?);
        let millis = value.first_chunk().map(|millis| i64::from_be_bytes(*millis));
        Some(Self { seconds, seqno, millis })
    }
}

fn key(seconds: u32) -> Vec<u8> {
    let mut key = vec![MARK];
    key.extend_from_slice(&seconds.to_be_bytes());
    key
}

/// Tells the time.
pub(crate) struct Clock {
    last: Mutex<Mark>,
    /// The second whose mark was written.
    marked: AtomicU32,
    /// How many marks were written. Held by the thread that writes one.
    written: Mutex<u32>,
}

impl Clock {
    /// Goes on with the last mark of a database.
    pub(crate) fn open(db: &Database) -> flagstone::Result<Self> {
        let last = match marks(db)? {
            Some(marks) => newest(&marks, u32::MAX)?,
            None => None,
        };
        let last = last.unwrap_or(Mark { seconds: now().0, seqno: visible(db), millis: None });
        Ok(Self { last: Mutex::new(last), marked: AtomicU32::default(), written: Mutex::default() })
    }

    fn last(&self) -> Mark {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of the newest commit that reads see.
    pub(crate) fn time(&self, db: &Database) -> Time {
        // In this order: what is committed meanwhile may have a later time than it gets here.
        let last = self.last();
        last.time(visible(db))
    }

    /// Lets what is written from here on have the present second. Who comes while another thread
    /// writes its mark waits for that: what it writes before could have a time of long ago.
    pub(crate) fn mark(&self, db: &Database) {
        let (seconds, millis) = now();
        let is_marked = || seconds <= self.marked.load(Ordering::Acquire);
        if is_marked() {
            return;
        }
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if is_marked() {
            return;
        }
        // If there is no room for it, writes have the second before.
        let _unmarked = self.put(db, seconds, millis);
        self.marked.store(seconds, Ordering::Release);
        if written.is_multiple_of(PRUNE_EVERY) {
            let _later = prune(db);
        }
        *written = written.wrapping_add(1);
    }

    /// Writes a mark. Only one thread does.
    fn put(&self, db: &Database, seconds: u32, millis: i64) -> flagstone::Result<()> {
        let last = self.last();
        let seconds = seconds.max(last.seconds.saturating_add(1));
        let millis = millis.max(last.millis.unwrap_or(millis));
        let (marks, key) = (db.keyspace(CHANGES)?, key(seconds));
        marks.put(&key, millis.to_be_bytes())?;
        if let Some((version, _)) = marks.get_versioned(&key)? {
            let mark = Mark { seconds, seqno: version.seqno().get(), millis: Some(millis) };
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = mark;
        }
        Ok(())
    }

    /// Checks that everything up to a time that the client knows of is visible. It is, unless the
    /// client has it from elsewhere, or a power cut has taken back what was not synced.
    ///
    /// # Errors
    /// InvalidOptions if the time has not come.
    pub(crate) fn reach(&self, db: &Database, asked: Time) -> Outcome {
        if asked <= self.time(db) {
            return Ok(());
        }
        if asked.seconds <= now().0.saturating_add(DRIFT_SECONDS) {
            let _alone = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            if asked > self.time(db) {
                self.put(db, asked.seconds.saturating_add(1), now().1)?;
            }
        }
        let time = self.time(db);
        if asked <= time {
            return Ok(());
        }
        let text = format!("readConcern.afterClusterTime: expected at most {time}, found {asked}");
        Err(Failure::new(Code::InvalidOptions, text))
    }
}

/// Returns the present second and millisecond.
fn now() -> (u32, i64) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
    (seconds, i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the SeqNo of the newest write that reads see.
fn visible(db: &Database) -> u64 {
    flagstone::internal::visible(db).get()
}

fn marks(db: &Database) -> flagstone::Result<Option<Keyspace>> {
    db.space(CHANGES).existing().keyspace()
}

/// Returns the mark of the first entry of a scan.
fn first(marks: &Keyspace, mut entries: Scan<'_, Keyspace>) -> flagstone::Result<Option<Mark>> {
    let Some((key, _)) = entries.next().transpose()? else { return Ok(None) };
    let Some((version, value)) = marks.get_versioned(&key)? else { return Ok(None) };
    Ok(Mark::of_entry(&key, &value, version.seqno().get()))
}

/// Returns the newest mark up to a second.
fn newest(marks: &Keyspace, seconds: u32) -> flagstone::Result<Option<Mark>> {
    first(marks, marks.scan(key(0)..=key(seconds)).rev())
}

/// Returns the newest mark up to a SeqNo. SeqNos ascend with seconds, so it is found by bisection.
fn newest_before(marks: &Keyspace, seqno: u64) -> flagstone::Result<Option<Mark>> {
    let Some(last) = newest(marks, u32::MAX)? else { return Ok(None) };
    if last.seqno <= seqno {
        return Ok(Some(last));
    }
    // The first second whose mark is later.
    let (mut low, mut high) = (0, u32::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        match newest(marks, middle)? {
            Some(mark) if mark.seqno > seqno => high = middle,
            _ => low = middle + 1,
        }
    }
    low.checked_sub(1).map_or(Ok(None), |second| newest(marks, second))
}

/// Returns the mark that writes after this one have.
pub(crate) fn mark_at(db: &Database, seqno: u64) -> flagstone::Result<Mark> {
    let Some(marks) = marks(db)? else { return Ok(Mark::NONE) };
    Ok(newest_before(&marks, seqno)?.unwrap_or(Mark::NONE))
}

/// Returns the mark from which on commits may have `time`: that of its second, or the newest one
/// before. Times before the first mark belong to [`Mark::NONE`] if commits without a mark have
/// them, else to the first mark. `None` if there is no commit of such a time yet.
pub(crate) fn mark_of(db: &Database, time: Time) -> flagstone::Result<Option<Mark>> {
    let marks = marks(db)?;
    let before = marks.as_ref().map(|marks| newest(marks, time.seconds)).transpose()?.flatten();
    if before.is_some() || time.seconds <= Mark::NONE.seconds {
        return Ok(Some(before.unwrap_or(Mark::NONE)));
    }
    let Some(marks) = marks else { return Ok(None) };
    first(&marks, marks.scan(key(0)..=key(u32::MAX)))
}

impl Mark {
    /// Returns the largest SeqNo that the first write of this time, or of a later one, may have.
    pub(crate) fn seqno_of(&self, time: Time) -> u64 {
        let increment = if time.seconds == self.seconds { time.increment } else { 1 };
        self.seqno.saturating_add(u64::from(increment)).saturating_sub(1)
    }
}

/// Removes the marks whose commits no reader finds.
fn prune(db: &Database) -> flagstone::Result<()> {
    let Some(marks) = marks(db)? else { return Ok(()) };
    let oldest = db.stats().changes.map_or(u64::MAX, |changes| changes.oldest_seqno);
    if let Some(first) = newest_before(&marks, oldest)? {
        marks.delete_range(key(0)..key(first.seconds))?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    /// To find a mark, all later ones were read.
    #[test]
    fn each_write_has_the_mark_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let other = db.keyspace("other").unwrap();
        let write = || {
            other.put("a", "").unwrap();
            visible(&db)
        };
        let mut expected = vec![(write(), Mark::NONE)];
        let marks = db.keyspace(CHANGES).unwrap();
        for seconds in [0, 1, 7, 8, 1000, 1001, u32::MAX - 1, u32::MAX] {
            marks.put(key(seconds), 5_i64.to_be_bytes()).unwrap();
            let mark = Mark { seconds, seqno: visible(&db), millis: Some(5) };
            expected.extend([(mark.seqno, mark), (write(), mark), (write(), mark)]);
        }
        for (seqno, mark) in expected {
            assert_eq!(mark_at(&db, seqno).unwrap(), mark, "{seqno}");
            if mark != Mark::NONE {
                let time = mark.time(seqno);
                assert_eq!(mark_of(&db, time).unwrap(), Some(mark));
                assert_eq!(mark.seqno_of(time), seqno);
            }
        }
    }

    /// Of writers that came at once, one wrote the mark and the others did not wait for it: they
    /// had the time of the mark before, which may be of long ago.
    #[test]
    fn no_write_of_those_that_come_at_once_is_before_the_mark() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        for _round in 0..200 {
            let (clock, start) = (Clock::open(&db).unwrap(), std::sync::Barrier::new(4));
            let before = clock.last();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        clock.mark(&db);
                        let now = clock.last();
                        assert!(now.seconds > before.seconds, "{before:?}, {now:?}");
                    });
                }
            });
        }
    }
}
