//! Helpers of the tests: a folder for tables, and functions to write, open and read them.

use flagstone_base::Compression;
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{DatabaseId, EntryRef, FileNumber, Kind, Moment, Result, SeqNo, Trailer};
use flagstone_env::{Disk, OsDisk, Random, SeededRandom};
use flagstone_sst::{
    BlockCache, BuilderOptions, Table, TableBuilder, TableIdent, TableMeta, TableOptions,
};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) const IDENT: TableIdent =
    TableIdent { database: DatabaseId([0xDB; 16]), number: FileNumber(42), salt: 0 };

/// A temporary folder, removed on drop.
pub(crate) struct Folder {
    pub(crate) disk: OsDisk,
    folder: tempfile::TempDir,
}

/// The default options, but tables are not compressed.
pub(crate) fn plain() -> TableOptions {
    TableOptions { compression: Compression::None, ..TableOptions::default() }
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { disk: OsDisk, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("000042.sst")
    }

    /// Writes a table with the entries that `fill` adds.
    pub(crate) fn write(
        &self,
        options: impl Into<BuilderOptions>,
        fill: impl FnOnce(&mut TableBuilder) -> Result<()>,
    ) -> Result<TableMeta> {
        let _ = std::fs::remove_file(self.path());
        let mut builder = TableBuilder::new(self.disk.create(&self.path())?, IDENT, options)?;
        fill(&mut builder)?;
        builder.finish()
    }

    /// Opens the table with a new cache.
    pub(crate) fn open(&self, meta: Option<&TableMeta>) -> Result<Arc<Table>> {
        self.open_in(meta, &BlockCache::new(1 << 20))
    }

    /// Opens the table with the given cache.
    pub(crate) fn open_in(
        &self,
        meta: Option<&TableMeta>,
        cache: &Arc<BlockCache>,
    ) -> Result<Arc<Table>> {
        Table::open(self.disk.open(&self.path())?, IDENT, meta, cache)
    }
}

/// An entry that owns its key and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) seqno: u64,
    pub(crate) kind: Kind,
    pub(crate) value: Vec<u8>,
    pub(crate) expiry: Option<u64>,
}

impl Entry {
    pub(crate) fn put(key: impl AsRef<[u8]>, seqno: u64, value: impl AsRef<[u8]>) -> Self {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        Self { key, seqno, kind: Kind::Put, value, expiry: None }
    }

    pub(crate) fn expiring(self, millis: u64) -> Self {
        Self { expiry: Some(millis), ..self }
    }

    pub(crate) fn of(entry: EntryRef<'_>) -> Self {
        let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
        let expiry = entry.trailer.expiry().map(Moment::millis);
        Self { key, seqno: entry.seqno().get(), kind: entry.kind(), value, expiry }
    }

    pub(crate) fn as_ref(&self) -> EntryRef<'_> {
        let seqno = SeqNo::new(self.seqno);
        let trailer = match self.expiry.map(Moment::from_millis) {
            Some(expiry) => Trailer::expiring(seqno, expiry),
            None => Trailer::new(seqno, self.kind),
        };
        EntryRef { key: &self.key, trailer, value: &self.value }
    }
}

/// Returns all entries that `get` visits for `key` at `at`.
pub(crate) fn get(table: &Table, key: &[u8], at: u64) -> Result<Vec<Entry>> {
    let hash = remix(key_hash(key, table.properties().hash_seed));
    let mut seen = Vec::new();
    table.get(key, hash, SeqNo::new(at), &mut |trailer, value| {
        seen.push(Entry::of(EntryRef { key, trailer, value: &value }));
        ControlFlow::Continue(())
    })?;
    Ok(seen)
}

/// Returns a seed from `FLAGSTONE_SEED`, or a new one. Prints it, so that a failure can be
/// reproduced.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("FLAGSTONE_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => flagstone_env::SystemRandom.next_u64(),
    };
    println!("FLAGSTONE_SEED={seed}");
    seed
}

/// Random numbers in the shapes that tests need.
pub(crate) struct Dice(SeededRandom);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.0.next_u64() as u8).collect()
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
