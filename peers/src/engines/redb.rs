//! redb: a copy-on-write B-tree with one writer at a time.
//!
//! Its one knob is the cache, which gets all of the memory. A write is a transaction of its own, as
//! the workloads ask for single operations; users who can put many writes into one transaction get
//! many times the rate. `Group` and `Each` are `Durability::Immediate`; redb has nothing between
//! that and `Durability::None`, whose commits live in the process until a later durable one, so
//! that `Buffered` promises less here than elsewhere: a process that dies loses what came after the
//! last durable commit, which a thread makes every second. A transaction that writes excludes all
//! others from its begin on, so none ever conflicts, and all are serializable. `compact()` needs
//! exclusive access and only frees space; it is not called.

use super::ticker::Ticker;
use super::versions::locked;
use flagstone::Durability;
use flagstone_bench::engine::{Body, Engine, EngineError, Outcome, Transaction};
use flagstone_bench::options::{Isolation, StoreOptions};
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};
use std::sync::Arc;
use std::time::Duration;

const KV: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("kv");

struct Redb {
    ticker: Option<Ticker>,
    db: Arc<Database>,
    durability: redb::Durability,
    tuning: String,
}

/// Opens a store as the workload asks.
pub(super) fn open(options: &StoreOptions) -> Outcome<Box<dyn Engine>> {
    let cache = usize::try_from(options.memory_bytes)?;
    std::fs::create_dir_all(&options.dir)?;
    let db = Database::builder().set_cache_size(cache).create(options.dir.join("redb"))?;
    let begun = db.begin_write()?;
    begun.open_table(KV)?;
    begun.commit()?;
    let db = Arc::new(db);
    let (durability, interval) = match options.durability {
        Durability::Group | Durability::Each => (redb::Durability::Immediate, None),
        Durability::Interval(interval) => (redb::Durability::None, Some(interval)),
        Durability::Buffered => (redb::Durability::None, Some(Duration::from_secs(1))),
        Durability::None => (redb::Durability::None, None),
    };
    let ticker = interval.map(|interval| {
        let db = Arc::clone(&db);
        Ticker::start(interval, move || commit_durably(&db))
    });
    let tuning = format!(
        "cache of {} MiB, a transaction a write{}",
        cache >> 20,
        if ticker.is_some() { ", durable commits by a thread" } else { "" },
    );
    Ok(Box::new(Redb { ticker, db, durability, tuning }))
}

fn commit_durably(db: &Database) -> Result<(), EngineError> {
    Ok(db.begin_write()?.commit()?)
}

struct RedbTransaction<'t>(Table<'t, &'static [u8], &'static [u8]>);

impl Transaction for RedbTransaction<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.0.get(key)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.0.insert(key, value)?;
        Ok(())
    }
}

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let mut write = self.db.begin_write()?;
        write.set_durability(self.durability)?;
        write.open_table(KV)?.insert(key, value)?;
        Ok(write.commit()?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.db.begin_read()?.open_table(KV)?.get(key)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        let mut write = self.db.begin_write()?;
        write.set_durability(self.durability)?;
        write.open_table(KV)?.remove(key)?;
        Ok(write.commit()?)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        let table = self.db.begin_read()?.open_table(KV)?;
        let mut seen = 0;
        for entry in table.range(from..)?.take(limit) {
            let (key, value) = entry?;
            each(key.value(), value.value());
            seen += 1;
        }
        Ok(seen)
    }

    fn transact(&self, _isolation: Isolation, body: Body<'_>) -> Outcome<u64> {
        let mut write = self.db.begin_write()?;
        write.set_durability(self.durability)?;
        body(&mut RedbTransaction(write.open_table(KV)?))?;
        write.commit()?;
        Ok(1)
    }

    fn flush(&self) -> Outcome<()> {
        commit_durably(&self.db)
    }

    fn version(&self) -> String {
        format!("redb {}", locked("redb"))
    }

    fn tuning(&self) -> String {
        self.tuning.clone()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.flush()?;
        let Self { ticker, db, .. } = *self;
        drop(ticker);
        drop(db);
        Ok(())
    }
}
