//! The tables that a repair writes: numbered above all others, and checked once they are written.

use super::find::FoundDatabase;
use super::report::RepairReport;
use crate::catalog::KeyspaceRecord;
use flagstone_base::sorted::SortedMap;
use flagstone_base::{DatabaseId, EntryRef, FileNumber, Result, SeqNo, TreeId};
use flagstone_env::names::{self, FileKind};
use flagstone_env::{Disk, Random, SystemRandom};
use flagstone_sst::{
    BlockCache, BuilderOptions, RangeDelete, Table, TableBuilder, TableIdent, TableMeta,
};
use flagstone_tree::LEVELS;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The deepest level.
pub(super) const BOTTOM: u8 = LEVELS as u8 - 1;
/// The size at which the next key starts a new table.
const TABLE_BYTES: u64 = 64 << 20;

/// The directory and the numbers of new tables.
pub(super) struct RepairOutputs<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) dir: &'a Path,
    pub(super) database: DatabaseId,
    pub(super) next_file: FileNumber,
    /// Every file that was created: a repair that fails removes them.
    pub(super) created: Vec<PathBuf>,
}

/// The keyspace, tree and level that a table is written for.
#[derive(Clone, Copy)]
pub(super) struct TableOwner<'a> {
    pub(super) record: &'a KeyspaceRecord,
    pub(super) tree: TreeId,
    pub(super) level: u8,
    /// The names of fields that the keyspace's documents may use, by id.
    pub(super) names: &'a SortedMap<u32, Vec<u8>>,
}

/// A table being written.
pub(super) struct RepairOutput {
    builder: TableBuilder,
    ident: TableIdent,
    path: PathBuf,
}

impl<'a> RepairOutputs<'a> {
    pub(super) fn new(disk: &'a Arc<dyn Disk>, dir: &'a Path, found: &FoundDatabase) -> Self {
        let (database, next_file) = (found.id, found.next_file);
        Self { disk, dir, database, next_file, created: Vec::new() }
    }

    pub(super) fn next_number(&mut self) -> FileNumber {
        let number = self.next_file;
        self.next_file = FileNumber(number.0 + 1);
        number
    }

    /// Creates the file of a new table.
    pub(super) fn begin(&mut self, owner: TableOwner<'_>) -> Result<RepairOutput> {
        let record = owner.record;
        let salt = (SystemRandom.next_u64() as u32).max(1);
        let ident = TableIdent { database: self.database, number: self.next_number(), salt };
        let path = names::path(self.dir, FileKind::Table, ident.number);
        let options = BuilderOptions {
            tables: record.tables,
            is_bottom: owner.level == BOTTOM,
            hash_seed: record.route.seed(),
            keyspace: record.id,
            owner: record.owner().unwrap_or_default(),
            tree: owner.tree,
            ..BuilderOptions::default()
        };
        let file = self.disk.create(&path)?;
        self.created.push(path.clone());
        let mut builder = TableBuilder::new(file, ident, options)?;
        for (id, name) in owner.names.iter() {
            builder.attach(*id, name);
        }
        Ok(RepairOutput { builder, ident, path })
    }

    /// Finishes a table: it is synced, read again and checked. An empty table is removed; `None`
    /// then.
    pub(super) fn end(
        &self,
        output: RepairOutput,
        report: &mut RepairReport,
    ) -> Result<Option<TableMeta>> {
        let RepairOutput { builder, ident, path } = output;
        if builder.is_empty() {
            drop(builder);
            self.disk.remove(&path)?;
            return Ok(None);
        }
        let meta = builder.finish()?;
        let file = self.disk.open(&path)?;
        Table::open(file, ident, Some(&meta), &BlockCache::new(0))?.verify()?;
        report.tables_written += 1;
        report.entries_written += meta.entries;
        Ok(Some(meta))
    }

    /// Removes a table that was written, and that nothing needs.
    pub(super) fn drop_table(&self, meta: &TableMeta, report: &mut RepairReport) -> Result<()> {
        self.disk.remove(&names::path(self.dir, FileKind::Table, meta.number))?;
        report.tables_written -= 1;
        report.entries_written -= meta.entries;
        Ok(())
    }
}

impl RepairOutput {
    pub(super) fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        self.builder.add(entry)
    }

    pub(super) fn add_range_delete(&mut self, range: RangeDelete<'_>) -> Result<()> {
        self.builder.add_range_delete(range.start, range.end, range.seqno)
    }

    pub(super) fn delete_range(&mut self, start: &[u8], end: &[u8], seqno: SeqNo) -> Result<()> {
        self.builder.add_range_delete(start, end, seqno)
    }

    /// Returns whether the next key should start another table.
    pub(super) fn is_full(&self) -> bool {
        self.builder.bytes_estimated() >= TABLE_BYTES
    }

    pub(super) fn last_key(&self) -> Option<&[u8]> {
        self.builder.last_key()
    }
}
