//! What an engine does for a workload, and what it is given.

use super::Stillness;
use crate::record::EventKind;
use crate::sample::ProcessSample;
use flagstone::Durability;
use std::path::PathBuf;
use std::time::Instant;

/// Errors of any engine.
pub type EngineError = Box<dyn std::error::Error + Send + Sync>;

/// What a call answers.
pub type Outcome<T> = Result<T, EngineError>;

/// What every engine is given. Engines without a knob for something ignore it, and say so in
/// [`Engine::tuning`].
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOptions {
    /// The directory of the store; made if there is none.
    pub dir: PathBuf,
    /// Bytes of memtables and caches together.
    pub memory_bytes: u64,
    /// Bytes of one memtable, where it is not left to the engine.
    pub memtable_bytes: Option<u64>,
    /// Bytes of a block of a table, where it is not left to the engine.
    pub block_bytes: Option<usize>,
    /// Bits of filter a key, where it is not left to the engine.
    pub filter_bits: Option<u8>,
    /// Blocks that are not in the cache are read past the page cache of the system.
    pub direct_reads: bool,
    /// How many times what is alive the store may take, where it is not left to the engine and it has such an option.
    pub space_amplification_max: Option<f64>,
    /// Entries carry checks against changes in memory, where the engine can.
    pub entry_checks: bool,
    /// Hash partitions.
    pub partitions: u16,
    /// What a write promises.
    pub durability: Durability,
}

/// A store of keys and values, called by many threads at once.
pub trait Engine: Send + Sync {
    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// What the engine says.
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()>;

    /// Hands the value of `key` to `found`, uncopied where the engine can; false when there is none.
    ///
    /// # Errors
    /// What the engine says.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Removes `key`, blindly.
    ///
    /// # Errors
    /// What the engine says.
    fn delete(&self, key: &[u8]) -> Outcome<()>;

    /// Removes `key` and tells whether it was there. Unless an engine has a call for it, a get and a
    /// delete, between which others may come.
    ///
    /// # Errors
    /// What the engine says.
    fn remove(&self, key: &[u8]) -> Outcome<bool> {
        let found = self.get(key, &mut |_| {})?;
        if found {
            self.delete(key)?;
        }
        Ok(found)
    }

    /// Hands at most `limit` entries from `from` on to `each`, in the order of their keys; answers how
    /// many.
    ///
    /// # Errors
    /// What the engine says.
    fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8]))
    -> Outcome<usize>;

    /// Writes out what is in memory alone; nothing, unless an engine has such.
    ///
    /// # Errors
    /// What the engine says.
    fn flush(&self) -> Outcome<()> {
        Ok(())
    }

    /// Merges everything that can be merged, and waits for it; a flush, unless an engine merges.
    ///
    /// # Errors
    /// What the engine says.
    fn compact(&self) -> Outcome<()> {
        self.flush()
    }

    /// Waits for the work that goes on in the background, starting none: five minutes at most. Unless an
    /// engine can wait, until memtables and levels have kept their sizes for two seconds, and the process has written
    /// nothing: a long compaction changes no level before its end.
    ///
    /// # Errors
    /// What the engine says.
    fn settle(&self) -> Outcome<()> {
        let _out_of_time = Stillness::USUAL.wait(|| {
            let gauges = self.gauges();
            (gauges.memtable_bytes, gauges.level_bytes, ProcessSample::now().write_bytes)
        });
        Ok(())
    }

    /// Sizes and counters as of now; none, unless an engine tells them.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    /// What ended since it was asked last; nothing, where the engine tells nothing.
    fn take_events(&self) -> Vec<EngineEvent> {
        Vec::new()
    }

    /// `name version`, as in `rocksdb 11.8.1`.
    fn version(&self) -> String;

    /// The choices made for it beyond the options, for the report; empty, unless there are any.
    fn tuning(&self) -> String {
        String::new()
    }

    /// Ends it; what it was given is in its files, if it has any.
    ///
    /// # Errors
    /// What the engine says.
    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

/// Opens a store, or opens it again.
pub type OpenEngine<'a> = &'a (dyn Fn(&EngineOptions) -> Outcome<Box<dyn Engine>> + Sync);

/// Sizes and counters of an engine; what it does not tell is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Bytes of memtables.
    pub memtable_bytes: Option<u64>,
    /// Bytes by level from L0 down.
    pub level_bytes: Vec<u64>,
    /// Blocks found in the cache since it was opened.
    pub cache_hits: Option<u64>,
    /// Blocks read from files since it was opened.
    pub cache_misses: Option<u64>,
    /// Bytes written to the log since it was opened.
    pub wal_write_bytes: Option<u64>,
    /// Syncs of the log since it was opened.
    pub wal_syncs: Option<u64>,
    /// Seconds that writers stood still since it was opened.
    pub stalled_s: Option<f64>,
}

/// Something an engine did on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineEvent {
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// What it is about.
    pub kind: EventKind,
    /// Bytes written by it.
    pub bytes: u64,
    /// More, for humans.
    pub what: String,
}

/// A durability as options spell it: `none`, `buffered`, `interval:100ms`, `group`, `each`.
pub fn durability_name(durability: Durability) -> String {
    match durability {
        Durability::None => "none".into(),
        Durability::Buffered => "buffered".into(),
        Durability::Interval(interval) => format!("interval:{}ms", interval.as_millis()),
        Durability::Group => "group".into(),
        Durability::Each => "each".into(),
    }
}
