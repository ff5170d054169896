//! What all trees of a database share.

use crate::damage::Damages;
use crate::memtable::ChunkPool;
use crate::scans::Scans;
use flagstone_base::{DatabaseId, FileNumber, Result};
use flagstone_env::names::{FileKind, path};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_env::{Disk, OpenFiles, Random};
use flagstone_sst::{BlockCache, Table, TableIdent, TableMeta};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The world of a tree: its disk, its cache, its counters.
pub struct TreeContext {
    /// Where files are.
    pub disk: Arc<dyn Disk>,
    /// The tables that are read.
    pub files: Arc<OpenFiles>,
    /// The database's directory.
    pub dir: PathBuf,
    /// Blocks that gets miss in the cache come past the page cache of the system.
    pub direct_reads: bool,
    /// Entries carry checks from the write call into the block, and compactions take no block from the cache.
    pub entry_checks: bool,
    /// The identity that every table carries.
    pub database: DatabaseId,
    /// Blocks of tables.
    pub cache: Arc<BlockCache>,
    /// Draws the salts of tables.
    pub random: Arc<dyn Random>,
    /// Draws a file number that was never used.
    pub next_file: Arc<dyn Fn() -> FileNumber + Send + Sync>,
    /// Memory of all memtables that are not in tables yet: active and sealed ones.
    pub memtable_bytes: Arc<AtomicU64>,
    /// Memory that waits for the next memtable; not part of `memtable_bytes`.
    pub chunks: ChunkPool,
    /// Tables that nothing holds any more.
    pub obsolete: Obsolete,
    /// Tables that are not installed yet.
    pub unfinished: Unfinished,
    /// Scans that hold something.
    pub scans: Scans,
    /// Held by each tree whose garbage is estimated: they share the memory for samples.
    pub sampled: Arc<()>,
    /// Tables that were found damaged.
    pub damages: Damages,
}

impl TreeContext {
    /// The path of a table.
    pub fn table_path(&self, number: FileNumber) -> PathBuf {
        path(&self.dir, FileKind::Table, number)
    }

    /// Opens the table of which the manifest says `meta`.
    ///
    /// # Errors
    /// What [`Table::open`] and opening the file may answer.
    pub(crate) fn open_table(&self, meta: &TableMeta) -> Result<Arc<Table>> {
        let ident = TableIdent { database: self.database, number: meta.number, salt: meta.salt };
        let file = self.files.open(&self.table_path(meta.number), self.direct_reads)?;
        Table::open(file, ident, Some(meta), &self.cache)
    }
}

/// Tables that are being written, or wait to be installed: they lie on the disk beside those whose place they will take.
#[derive(Default)]
pub struct Unfinished {
    tables: Mutex<HashMap<FileNumber, u64>>,
    bytes: AtomicU64,
}

impl Unfinished {
    /// About how many bytes they have now, all together.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The table `number` has about so many `bytes` now.
    pub(crate) fn note(&self, number: FileNumber, bytes: u64) {
        let mut tables = self.tables.lock();
        let before = tables.insert(number, bytes).unwrap_or(0);
        self.bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// The table `number` is installed, or given up.
    pub(crate) fn forget(&self, number: FileNumber) {
        let mut tables = self.tables.lock();
        let bytes = tables.remove(&number).unwrap_or(0);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Files to be removed: whoever drops the last holder notes the number here and does no I/O.
#[derive(Default)]
pub struct Obsolete {
    numbers: Mutex<Vec<FileNumber>>,
}

impl Obsolete {
    /// Takes every number noted so far; remove these files, or note them again.
    pub fn take(&self) -> Vec<FileNumber> {
        std::mem::take(&mut *self.numbers.lock())
    }

    /// Notes that nothing holds this file any more.
    pub fn note(&self, number: FileNumber) {
        self.numbers.lock().push(number);
    }
}
