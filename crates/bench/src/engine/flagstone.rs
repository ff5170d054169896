//! flagstone, seen as an engine: one keyspace, and a collection of comments if that is asked for.

use super::collection::Comments;
use super::{Body, CommentStore, Engine, EngineEvent, Gauges, Outcome, Sorted, Transaction};
use crate::options::{Isolation, Routed, StoreOptions};
use crate::record::EventKind;
use flagstone::admin::{Event, Listener};
use flagstone::report::Stats;
use flagstone::{
    Compression, Database, Keyspace, KeyspaceOptions, Options, Space, TransactionOptions,
};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Collects the events of a database until they are taken; at most 100,000 of them.
#[derive(Debug, Default)]
pub struct EventLog {
    events: Mutex<Vec<EngineEvent>>,
}

const EVENTS_MAX: usize = 100_000;

impl EventLog {
    /// The events since the last call.
    pub fn take(&self) -> Vec<EngineEvent> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<EngineEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, kind: EventKind, took: Duration, bytes: u64, what: String) {
        let ended = Instant::now();
        let began = ended.checked_sub(took).unwrap_or(ended);
        let mut events = self.lock();
        if events.len() < EVENTS_MAX {
            events.push(EngineEvent { began, ended, kind, bytes, what });
        }
    }
}

impl Listener for EventLog {
    fn event(&self, event: &Event) {
        match event {
            Event::FlushFinished { partition, tables, bytes, took, .. } => {
                let what = format!("partition {partition} to {tables} tables");
                self.add(EventKind::Flush, *took, *bytes, what);
            }
            Event::CompactionFinished { partition, removed, added, bytes, took, .. } => {
                let what = format!("partition {partition}, {removed} tables to {added}");
                self.add(EventKind::Compaction, *took, *bytes, what);
            }
            Event::StallFinished { cause, took } => {
                self.add(EventKind::Stall, *took, 0, format!("{cause:?}"));
            }
            Event::BackgroundFailed { .. } | Event::Poisoned { .. } => {
                self.add(EventKind::Phase, Duration::ZERO, 0, event.to_string());
            }
            _ => {}
        }
    }
}

/// The gauges of a database.
pub fn gauges_of(stats: &Stats) -> Gauges {
    let mut level_bytes: Vec<u64> = Vec::new();
    for level in stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels) {
        let at = usize::from(level.level);
        if level_bytes.len() <= at {
            level_bytes.resize(at + 1, 0);
        }
        level_bytes[at] += level.bytes;
    }
    Gauges {
        memtable_bytes: Some(stats.memtable_bytes),
        level_bytes,
        cache_hits: Some(stats.cache.hits),
        cache_misses: Some(stats.cache.misses),
        wal_write_bytes: Some(stats.wal_bytes_written),
        wal_syncs: Some(stats.wal_syncs),
        stalled_s: Some(stats.stalled_for.as_secs_f64()),
    }
}

/// Opens a database, with a log of its events.
pub fn open_database(dir: &Path, options: Options) -> Outcome<(Database, Arc<EventLog>)> {
    let events = Arc::new(EventLog::default());
    let heard = Arc::clone(&events);
    let builder = Database::builder(dir).options(options);
    let database = builder.listener(move |event: &Event| heard.event(event)).open()?;
    Ok((database, events))
}

/// A keyspace of a database of its own.
struct FlagstoneEngine {
    database: Database,
    keyspace: Keyspace,
    comments: Comments,
    events: Arc<EventLog>,
    tuning: String,
}

/// Opens the database in `options.dir` and its keyspace `bench`, both created if there are none: an
/// [`OpenEngine`](super::OpenEngine).
pub fn open_flagstone(options: &StoreOptions) -> Outcome<Box<dyn Engine>> {
    let mut chosen = Options::new()
        .memory_budget(options.memory_bytes)
        .durability(options.durability)
        .memtable_bytes(options.memtable_bytes)
        .direct_reads(options.direct_reads)
        .entry_checks(options.entry_checks);
    if let Some(space) = options.space_amplification_max {
        chosen = chosen.space_amplification_max(space);
    }
    if let Some(bytes) = options.split_bytes {
        chosen = chosen.split_bytes(bytes);
    }
    let workers = chosen.compaction_workers;
    let space = chosen.space_amplification_max;
    let (database, events) = open_database(&options.dir, chosen)?;
    let mut wanted = KeyspaceOptions::new().routing(options.chosen_routing());
    (wanted.block_bytes, wanted.filter_bits) = (options.block_bytes, options.filter_bits);
    let keyspace = database.space("bench").options(wanted.clone()).keyspace()?;
    let comments = Comments::new(database.clone(), wanted);
    let chosen = database.keyspaces().into_iter().find(|info| info.name == "bench");
    let chosen = chosen.map(|info| info.options).unwrap_or_default();
    let routing = match options.routing {
        Routed::Hash => format!("{} hash partitions", options.partitions),
        Routed::Auto => "a key range that splits".to_owned(),
        Routed::Range => format!("{} key ranges that split", options.partitions),
    };
    let tuning = format!(
        "{routing}, blocks of {} bytes, {} filter bits a key, {:?} then {:?}, \
         {workers} compaction workers, space amplification at most {space}{}{}",
        chosen.block_bytes.unwrap_or_default(),
        chosen.filter_bits.unwrap_or_default(),
        chosen.compression.unwrap_or(Compression::None),
        chosen.bottom_compression.unwrap_or(Compression::None),
        if options.direct_reads { ", direct reads" } else { "" },
        if options.entry_checks { "" } else { ", no entry checks" },
    );
    Ok(Box::new(FlagstoneEngine { database, keyspace, comments, events, tuning }))
}

struct FlagstoneTransaction<'t> {
    keyspace: &'t Keyspace,
    transaction: &'t mut flagstone::Transaction,
}

impl Transaction for FlagstoneTransaction<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.transaction.get(self.keyspace, key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.transaction.put(self.keyspace, key, value)?)
    }
}

impl Engine for FlagstoneEngine {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.keyspace.put(key, value)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.keyspace.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        Ok(self.keyspace.delete(key)?)
    }

    fn remove(&self, key: &[u8]) -> Outcome<bool> {
        Ok(self.keyspace.remove(key)?)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        let mut scan = self.keyspace.scan(from..);
        let mut count = 0;
        while count < limit && scan.advance()? {
            each(scan.key(), &scan.value());
            count += 1;
        }
        Ok(count)
    }

    fn last(&self, key: &mut Vec<u8>) -> Outcome<bool> {
        let mut scan = self.keyspace.scan(..).rev();
        let is_there = scan.advance()?;
        key.clear();
        key.extend_from_slice(scan.key());
        Ok(is_there)
    }

    fn snapshot(&self) -> Outcome<Box<dyn Send + '_>> {
        Ok(Box::new(self.database.snapshot()))
    }

    fn transact(&self, isolation: Isolation, body: Body<'_>) -> Outcome<u64> {
        let isolation = match isolation {
            Isolation::Snapshot => flagstone::Isolation::Snapshot,
            Isolation::Serializable => flagstone::Isolation::Serializable,
        };
        let options = TransactionOptions::new().isolation(isolation).retries(u32::MAX);
        let (mut tries, mut failed) = (0, None);
        let done = options.run(&self.database, |transaction| {
            tries += 1;
            let mut inside = FlagstoneTransaction { keyspace: &self.keyspace, transaction };
            body(&mut inside).map_err(|error| {
                let text = flagstone::Error::invalid(error.to_string());
                failed = Some(error);
                text
            })
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(done.map(|()| tries)?),
        }
    }

    fn ingest(&self, entries: Sorted<'_>) -> Outcome<()> {
        self.database.ingest(&self.keyspace, entries)?;
        Ok(())
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.database.flush()?)
    }

    fn compact(&self) -> Outcome<()> {
        Ok(self.database.compact()?)
    }

    fn comments(&self) -> Option<&dyn CommentStore> {
        Some(&self.comments)
    }

    fn gauges(&self) -> Gauges {
        gauges_of(&self.database.stats())
    }

    fn take_events(&self) -> Vec<EngineEvent> {
        self.events.take()
    }

    fn version(&self) -> String {
        format!("flagstone {}", env!("CARGO_PKG_VERSION"))
    }

    fn tuning(&self) -> String {
        self.tuning.clone()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let Self { database, keyspace, comments, .. } = *self;
        drop((keyspace, comments));
        Ok(database.close()?)
    }
}
