//! The context that all trees of a database share.

use crate::arena::ChunkPool;
use crate::damage::Damages;
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

/// The environment of a tree: its disk, its cache, its counters.
pub struct TreeContext {
    /// The disk that holds the files.
    pub disk: Arc<dyn Disk>,
    /// The descriptors of open tables.
    pub files: Arc<OpenFiles>,
    /// The directory of the database.
    pub dir: PathBuf,
    /// Whether reads of blocks that are not in the cache bypass the page cache of the system.
    pub direct_reads: bool,
    /// Whether entries carry checks from the write call into their block, and compactions read no
    /// block from the cache.
    pub entry_checks: bool,
    /// The identity of the database, which every table records.
    pub database: DatabaseId,
    /// The block cache of all tables.
    pub cache: Arc<BlockCache>,
    /// Draws the salts of tables.
    pub random: Arc<dyn Random>,
    /// Returns a file number that was never used.
    pub next_file: Arc<dyn Fn() -> FileNumber + Send + Sync>,
    /// Bytes of all memtables that are not yet in tables, active and sealed.
    pub memtable_bytes: Arc<AtomicU64>,
    /// Idle memory for the next memtables, which `memtable_bytes` does not include.
    pub chunks: ChunkPool,
    /// Tables that nothing holds any more.
    pub obsolete: Obsolete,
    /// Tables that are written but not installed yet.
    pub unfinished: Unfinished,
    /// The scans that hold memory or files.
    pub scans: Scans,
    /// Each tree whose garbage is estimated holds a clone: their number divides the memory for
    /// samples.
    pub sampled: Arc<()>,
    /// Tables that were found damaged.
    pub damages: Damages,
}

impl TreeContext {
    /// Returns the path of a table.
    pub fn table_path(&self, number: FileNumber) -> PathBuf {
        path(&self.dir, FileKind::Table, number)
    }

    /// Syncs the directory, so that the names of finished tables survive a power cut.
    ///
    /// # Errors
    /// Io, OutOfSpace.
    pub fn sync_names(&self) -> Result<()> {
        self.files.or_close_some(|| self.disk.sync_dir(&self.dir))
    }

    /// Opens the table of the manifest's record `meta`.
    ///
    /// # Errors
    /// Any error of [`Table::open`] or of opening the file.
    pub(crate) fn open_table(&self, meta: &TableMeta) -> Result<Arc<Table>> {
        let ident = TableIdent { database: self.database, number: meta.number, salt: meta.salt };
        let (files, path) = (&self.files, self.table_path(meta.number));
        let file = if self.direct_reads { files.open_direct(&path) } else { files.open(&path) }?;
        Table::open(file, ident, Some(meta), &self.cache)
    }
}

/// The tables that are being written, or wait to be installed. They take disk space in addition to
/// the tables that they will replace.
#[derive(Default)]
pub struct Unfinished {
    tables: Mutex<HashMap<FileNumber, u64>>,
    bytes: AtomicU64,
}

impl Unfinished {
    /// The approximate bytes of all of these tables.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records that table `number` has about `bytes` bytes now.
    pub(crate) fn note(&self, number: FileNumber, bytes: u64) {
        let mut tables = self.tables.lock();
        let before = tables.insert(number, bytes).unwrap_or(0);
        self.bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Forgets table `number`, which was installed or abandoned.
    pub(crate) fn forget(&self, number: FileNumber) {
        let mut tables = self.tables.lock();
        let bytes = tables.remove(&number).unwrap_or(0);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Files to be removed. Dropping the last holder of a table notes its number here and does no I/O.
#[derive(Default)]
pub struct Obsolete {
    numbers: Mutex<Vec<FileNumber>>,
}

impl Obsolete {
    /// Takes all numbers noted so far. The caller removes these files, or notes them again.
    pub fn take(&self) -> Vec<FileNumber> {
        std::mem::take(&mut *self.numbers.lock())
    }

    /// Notes that nothing holds this file any more.
    pub fn note(&self, number: FileNumber) {
        self.numbers.lock().push(number);
    }
}
