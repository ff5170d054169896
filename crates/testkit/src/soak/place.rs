//! The settings, names and amounts of data that parent and child share.

use flagstone::{Collection, Database, Keyspace, KeyspaceOptions, Options, Result, Routing};
use std::path::Path;
use std::time::Duration;

/// The settings of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The time of the work, without filling before and rest after.
    pub time: Duration,
    /// The approximate bytes of live data.
    pub live_bytes: u64,
    /// The memory budget of the database.
    pub memory_budget: u64,
    /// The number of threads that write and read.
    pub threads: u64,
    /// The operations a second of all threads. 0 means without a limit.
    pub ops_per_second: u64,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(600),
            live_bytes: 256 << 20,
            memory_budget: 64 << 20,
            threads: 2,
            ops_per_second: 0,
            seed: 0,
        }
    }
}

impl Setting {
    /// Returns the settings as words of a command line.
    pub(super) fn words(&self) -> Vec<String> {
        let Self { time, live_bytes, memory_budget, threads, ops_per_second, seed } = self;
        let numbers =
            [time.as_secs(), *live_bytes, *memory_budget, *threads, *ops_per_second, *seed];
        numbers.map(|number| number.to_string()).to_vec()
    }

    /// Reads the words that `Setting::words` returns.
    pub fn of(words: &[&str]) -> Option<Self> {
        let numbers: Vec<u64> =
            words.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [seconds, live_bytes, memory_budget, threads, ops_per_second, seed] = numbers[..]
        else {
            return None;
        };
        let time = Duration::from_secs(seconds);
        Some(Self { time, live_bytes, memory_budget, threads, ops_per_second, seed })
    }

    /// Returns the amount of live data of each kind in each thread.
    pub(super) fn amounts(&self) -> Amounts {
        let share = self.live_bytes / self.threads;
        let entries = |percent: u64, bytes: u64| (share / 100 * percent / bytes).max(64);
        Amounts {
            slots: entries(60, VALUE_BYTES),
            queue: entries(15, VALUE_BYTES),
            bucket: entries(15, VALUE_BYTES) / BUCKETS + 1,
            documents: entries(9, DOCUMENT_BYTES),
        }
    }

    /// Returns the options of every life.
    pub(super) fn options(&self) -> Options {
        Options::new().memory_budget(self.memory_budget)
    }
}

/// The approximate bytes of a value.
pub(super) const VALUE_BYTES: u64 = 1000;
/// The approximate bytes of a document.
pub(super) const DOCUMENT_BYTES: u64 = 400;
/// The live buckets of a series. Older ones are deleted as ranges.
pub(super) const BUCKETS: u64 = 16;
/// The number of sums of a thread.
pub(super) const SUMS: u64 = 64;

/// The amount of live data of each kind in a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amounts {
    /// Slots that are overwritten at random. One in 16 is absent at any time.
    pub(super) slots: u64,
    /// Entries between the two ends of the queue.
    pub(super) queue: u64,
    /// Entries of a bucket of the series.
    pub(super) bucket: u64,
    /// Documents. One in 16 is absent at any time.
    pub(super) documents: u64,
}

/// The handles of all keyspaces and collections.
pub(super) struct Handles {
    pub(super) slots: Keyspace,
    pub(super) queue: Keyspace,
    pub(super) series: Keyspace,
    pub(super) sums: Keyspace,
    pub(super) documents: Collection,
    /// Entries that expire.
    pub(super) sessions: Keyspace,
}

/// Opens the database of a life.
pub(super) fn open(dir: &Path, options: Options) -> Result<(Database, Handles)> {
    let db = Database::builder(dir).options(options).open()?;
    let hashed = |partitions| KeyspaceOptions::new().routing(Routing::Hash(partitions));
    let sums = hashed(2).fold("add-i64/1");
    let handles = Handles {
        slots: db.space("slots").options(hashed(4)).keyspace()?,
        queue: db.space("queue").options(hashed(2)).keyspace()?,
        series: db.space("series").options(hashed(1)).keyspace()?,
        sums: db.space("sums").options(sums).keyspace()?,
        documents: db.space("documents").options(hashed(2)).collection()?,
        sessions: db.space("sessions").options(hashed(2)).keyspace()?,
    };
    Ok((db, handles))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_told_the_whole_setting() {
        let setting = Setting { ops_per_second: 7, seed: u64::MAX, ..Setting::default() };
        let words = setting.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(Setting::of(&words), Some(setting));
        assert_eq!(Setting::of(&words[1..]), None);
    }
}
