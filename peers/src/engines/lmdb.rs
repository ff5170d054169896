//! LMDB through heed: a copy-on-write B-tree in a memory map, one writer at a time.
//!
//! LMDB has no cache: it reads the page cache of the operating system, all of it, so that the
//! memory of the other engines does not bind it; the resident bytes of a run show what it took. A
//! write is a transaction of its own, as the workloads ask for single operations.
//!
//! Durability: `Group` and `Each` sync at every commit, LMDB's default (there is no group commit).
//! `None`, `Buffered` and `Interval` commit with `NO_SYNC`: pages are written to the operating
//! system, which survives the death of the process. Without `WRITE_MAP` writes go by `pwrite`, and
//! a power cut leaves an older state rather than a broken one on file systems that keep the order
//! of writes. No read-ahead: it serves scans of a file that is not in memory, and hurts random
//! reads of it. Readers keep a slot a thread. The map is 64 GiB of addresses, not of memory.

#![expect(unsafe_code, reason = "opening a memory map is unsafe in heed")]

use super::choice::has;
use super::ticker::Ticker;
use super::versions::locked;
use flagstone::Durability;
use flagstone_bench::engine::{Engine, Outcome};
use flagstone_bench::options::StoreOptions;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use std::ops::Bound;

/// The variants of its tuning that were measured.
pub(super) const VARIANTS: &[(&str, &str)] =
    &[("writemap", "pages are changed in the map instead of being written to the file")];

const MAP_BYTES: usize = 64 << 30;

struct Lmdb {
    ticker: Option<Ticker>,
    env: Env,
    kv: Database<Bytes, Bytes>,
    tuning: String,
}

/// Opens a store as the workload asks.
pub(super) fn open(variant: &str, options: &StoreOptions) -> Outcome<Box<dyn Engine>> {
    std::fs::create_dir_all(&options.dir)?;
    let mut flags = EnvFlags::NO_READ_AHEAD;
    if !matches!(options.durability, Durability::Group | Durability::Each) {
        flags |= EnvFlags::NO_SYNC;
    }
    if has(variant, "writemap") {
        flags |= EnvFlags::WRITE_MAP;
    }
    let mut open = EnvOpenOptions::new();
    open.map_size(MAP_BYTES).max_readers(1024);
    // SAFETY: these flags trade durability, never the locking that memory safety rests on.
    unsafe { open.flags(flags) };
    // SAFETY: the directory belongs to this run; no other process changes its files.
    let env = unsafe { open.open(&options.dir) }?;
    let mut write = env.write_txn()?;
    let kv = env.create_database(&mut write, None)?;
    write.commit()?;
    let ticker = match options.durability {
        Durability::Interval(interval) => {
            let env = env.clone();
            Some(Ticker::start(interval, move || Ok(env.force_sync()?)))
        }
        _ => None,
    };
    let tuning = format!("map of {} GiB, {flags:?}, a transaction a write", MAP_BYTES >> 30);
    Ok(Box::new(Lmdb { ticker, env, kv, tuning }))
}

impl Engine for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let mut write = self.env.write_txn()?;
        self.kv.put(&mut write, key, value)?;
        Ok(write.commit()?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let read = self.env.read_txn()?;
        let value = self.kv.get(&read, key)?;
        if let Some(value) = value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        let mut write = self.env.write_txn()?;
        self.kv.delete(&mut write, key)?;
        Ok(write.commit()?)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        let read = self.env.read_txn()?;
        let mut seen = 0;
        // LMDB has no empty keys, not even to seek.
        let from = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let range: (Bound<&[u8]>, Bound<&[u8]>) = (from, Bound::Unbounded);
        for entry in self.kv.range(&read, &range)?.take(limit) {
            let (key, value) = entry?;
            each(key, value);
            seen += 1;
        }
        Ok(seen)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.env.force_sync()?)
    }

    fn version(&self) -> String {
        let lmdb = heed::lmdb_version();
        format!("lmdb {}.{}.{} (heed {})", lmdb.major, lmdb.minor, lmdb.patch, locked("heed"))
    }

    fn tuning(&self) -> String {
        self.tuning.clone()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let Self { ticker, env, .. } = *self;
        drop(ticker);
        env.force_sync()?;
        env.prepare_for_closing().wait();
        Ok(())
    }
}
