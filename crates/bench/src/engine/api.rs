//! The interface between workloads and engines.

use super::comments::CommentStore;
use super::outcome::Outcome;
use crate::options::{Isolation, StoreOptions};
use crate::record::EventKind;
use crate::sample::ProcessSample;
use std::time::{Duration, Instant};

/// The reads and writes of a transaction, which sees its own writes.
pub trait Transaction {
    /// As [`Engine::get`].
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Sets `key` to `value` when the transaction is committed.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()>;
}

/// What a transaction does. It is called again after a conflict.
pub type Body<'b> = &'b mut dyn FnMut(&mut dyn Transaction) -> Outcome<()>;

/// Entries in the order of their keys.
pub type Sorted<'e> = &'e mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>;

/// A store of keys and values, called by many threads at once.
pub trait Engine: Send + Sync {
    /// Sets `key` to `value`.
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()>;

    /// Passes the value of `key` to `found`, without a copy where the engine can. Returns false if
    /// there is none.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Removes `key` without reading it.
    fn delete(&self, key: &[u8]) -> Outcome<()>;

    /// Removes `key` and returns whether it was there. Unless the engine has a call for it, this is
    /// a get and a delete, and other writes may come between them.
    fn remove(&self, key: &[u8]) -> Outcome<bool> {
        let found = self.get(key, &mut |_| {})?;
        if found {
            self.delete(key)?;
        }
        Ok(found)
    }

    /// Passes at most `limit` entries, starting at `from` and in the order of their keys, to
    /// `each`. Returns their number.
    fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8]))
    -> Outcome<usize>;

    /// Sets `key` to the last key in the order of the keys. Returns false if there is none. An
    /// error unless the engine reads backwards here.
    fn last(&self, _key: &mut Vec<u8>) -> Outcome<bool> {
        Err(format!("{} does not read backwards here", self.version()).into())
    }

    /// Holds all entries as they are now, until the value is dropped. An error unless the engine
    /// has snapshots here.
    fn snapshot(&self) -> Outcome<Box<dyn Send + '_>> {
        Err(format!("{} has no snapshots here", self.version()).into())
    }

    /// Runs `body` in a transaction and commits it, again after each conflict. Returns the number
    /// of tries. The store was opened for transactions. An error unless the engine has them.
    fn transact(&self, _isolation: Isolation, _body: Body<'_>) -> Outcome<u64> {
        Err(format!("{} has no transactions here", self.version()).into())
    }

    /// Adds sorted entries past the log, all or none. An error unless the engine can.
    fn ingest(&self, _entries: Sorted<'_>) -> Outcome<()> {
        Err(format!("{} has no ingest here", self.version()).into())
    }

    /// Writes out data that is only in memory.
    fn flush(&self) -> Outcome<()> {
        Ok(())
    }

    /// Merges everything that can be merged, and waits for it. A flush, unless the engine merges.
    fn compact(&self) -> Outcome<()> {
        self.flush()
    }

    /// Waits at most five minutes for background work, and starts none. Unless the engine can wait,
    /// this waits until for two seconds memtables and levels keep their sizes and the process
    /// writes nothing: a long compaction changes no level before its end.
    fn settle(&self) -> Outcome<()> {
        let _out_of_time = Stillness::USUAL.wait(|| {
            let gauges = self.gauges();
            (gauges.memtable_bytes, gauges.level_bytes, ProcessSample::now().write_bytes)
        });
        Ok(())
    }

    /// The comments of the store, if the engine can index documents or is told how.
    fn comments(&self) -> Option<&dyn CommentStore> {
        None
    }

    /// The sizes and counters that the engine reports.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    /// The events since the last call.
    fn take_events(&self) -> Vec<EngineEvent> {
        Vec::new()
    }

    /// `name version`, as in `rocksdb 11.8.1`.
    fn version(&self) -> String;

    /// The choices made for this engine beyond the options, for the report.
    fn tuning(&self) -> String {
        String::new()
    }

    /// Closes the store.
    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

/// Opens a store.
pub type OpenEngine<'a> = &'a (dyn Fn(&StoreOptions) -> Outcome<Box<dyn Engine>> + Sync);

/// Sizes as of now, and counters since the store was opened. What an engine does not report is
/// absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    pub memtable_bytes: Option<u64>,
    /// Bytes by level, from L0 down.
    pub level_bytes: Vec<u64>,
    /// Blocks found in the cache.
    pub cache_hits: Option<u64>,
    /// Blocks read from files.
    pub cache_misses: Option<u64>,
    /// Bytes written to the log.
    pub wal_write_bytes: Option<u64>,
    /// Syncs of the log.
    pub wal_syncs: Option<u64>,
    /// Seconds for which writers were stopped, added up over threads.
    pub stalled_s: Option<f64>,
}

/// Something an engine did on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineEvent {
    pub began: Instant,
    pub ended: Instant,
    pub kind: EventKind,
    /// Bytes written by it.
    pub bytes: u64,
    /// More, for people.
    pub what: String,
}

/// The rule by which a changing value counts as settled.
#[derive(Clone, Copy, Debug)]
pub struct Stillness {
    /// The time between two samples.
    pub step: Duration,
    /// The time for which nothing must change.
    pub still: Duration,
    /// The time after which the wait is given up.
    pub most: Duration,
}

impl Stillness {
    /// Two seconds without a change, within five minutes; ten samples a second.
    pub const USUAL: Self = Self {
        step: Duration::from_millis(100),
        still: Duration::from_secs(2),
        most: Duration::from_secs(300),
    };

    /// Waits until `sample` returns the same value for long enough. Returns false if time ran out
    /// before.
    pub fn wait<T: PartialEq>(&self, mut sample: impl FnMut() -> T) -> bool {
        let began = Instant::now();
        let (mut seen, mut since) = (sample(), began);
        loop {
            let now = Instant::now();
            if now - since >= self.still {
                return true;
            }
            if now - began >= self.most {
                return false;
            }
            std::thread::sleep(self.step);
            let next = sample();
            if next != seen {
                (seen, since) = (next, Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Stillness = Stillness {
        step: Duration::from_millis(1),
        still: Duration::from_millis(20),
        most: Duration::from_millis(500),
    };

    #[test]
    fn a_wait_ends_when_nothing_changes_or_time_runs_out() {
        let mut samples = 0_u32;
        assert!(QUICK.wait(|| {
            samples += 1;
            samples.min(10)
        }));
        assert!(samples > 10, "{samples}");
        let mut restless = 0_u32;
        assert!(!QUICK.wait(|| {
            restless += 1;
            restless
        }));
    }
}
