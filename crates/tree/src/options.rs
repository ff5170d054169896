//! The options of a tree.

use crate::bounds::{HashBounds, KeyBounds};
use crate::fold::Fold;
use flagstone_base::{KeyspaceId, TreeId};
use flagstone_sst::{BuilderOptions, FilterKey, TableMeta, TableOptions};
use std::sync::Arc;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Keys ascending.
    Forward,
    /// Keys descending.
    Reverse,
}

/// How much of a new table is read back and checked before it replaces the tables or the memtable
/// it was written from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputCheck {
    /// The checksums of all blocks and of the file: the file holds the bytes that were meant to be
    /// written.
    Stored,
    /// In addition, every block is decompressed, and order, hashes and counts of all entries are
    /// checked: the bytes that were meant to be written are right. Costs 30 to 540 ns more for each
    /// entry, by its size and compression (`benches/table.rs` of `flagstone-sst`).
    Entries,
}

impl OutputCheck {
    /// `Entries` in builds with debug assertions, which test the builder itself; otherwise
    /// `Stored`.
    pub const DEFAULT: Self = if cfg!(debug_assertions) { Self::Entries } else { Self::Stored };
}

/// How a tree writes its tables and keeps its shape. All options may change when the tree is opened
/// again, except the hash seed, the filter key and the fold, which belong to its keyspace.
#[derive(Clone)]
pub struct TreeOptions {
    /// The keyspace, recorded in tables so that a lost manifest can be rebuilt.
    pub keyspace: KeyspaceId,
    /// The keyspace that owns it, or 0: recorded, too.
    pub owner: KeyspaceId,
    /// The hash seed of the keyspace.
    pub hash_seed: u64,
    /// The options of the keyspace's tables, until [`Tree::set_table_options`](crate::Tree) changes
    /// them.
    pub tables: TableOptions,
    /// The part of a key that goes into the filter.
    pub filter_key: FilterKey,
    /// The size of a full table in bytes. Flushes write tables of a quarter of it, so that nearly
    /// sorted input overlaps in few bytes.
    pub table_bytes: u64,
    /// The number of overlapping runs in L0 that triggers a compaction. Each run costs a get one
    /// filter probe.
    pub l0_runs_trigger: usize,
    /// The number of runs that L0 may have under [`Policy::Tiering`](crate::Policy::Tiering). With
    /// more runs, compactions rewrite fewer bytes and a get probes more filters.
    pub l0_runs_tiering: usize,
    /// The turn of this tree among trees that fill at the same rate, 0 to 7. It sets how large L0
    /// may grow under [`Policy::Tiering`](crate::Policy::Tiering), so that these trees are not all
    /// compacted at the same time.
    pub turn: u8,
    /// The size of each level relative to the level above.
    pub level_fanout: u64,
    /// The target size of the first level below L0, in bytes.
    pub level_base_bytes: u64,
    /// A compaction takes inputs of at most this many bytes, or of a twentieth of the tree if that
    /// is more, and never more than 2 GiB.
    pub job_bytes_min: u64,
    /// How every new table is read back and checked before it is installed.
    pub check: OutputCheck,
    /// The most bytes of one key's merge operands that a flush or compaction holds. If there are
    /// more, it reads them again, oldest first, and folds them in parts.
    pub fold_bytes: usize,
    /// The keys of the tree, if its keyspace is cut into ranges of keys. Its tables may have
    /// others, which it neither reads nor writes again.
    pub bounds: Option<Arc<KeyBounds>>,
    /// The hashes of the keys of the tree, if it is a part of a hash partition that was split. Its
    /// tables may have others, which it neither reads nor writes again.
    pub hashes: Option<HashBounds>,
    /// The fold that interprets merge operands. Without one, reading an operand is an error.
    pub fold: Option<Arc<dyn Fold>>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            keyspace: KeyspaceId::default(),
            owner: KeyspaceId::default(),
            hash_seed: 0,
            tables: TableOptions::default(),
            filter_key: FilterKey::WHOLE,
            table_bytes: 32 << 20,
            l0_runs_trigger: 4,
            l0_runs_tiering: 12,
            turn: 7,
            level_fanout: 8,
            level_base_bytes: 64 << 20,
            job_bytes_min: 64 << 20,
            check: OutputCheck::DEFAULT,
            fold_bytes: 4 << 20,
            bounds: None,
            hashes: None,
            fold: None,
        }
    }
}

impl TreeOptions {
    /// Returns whether `table` reaches across the bounds of the tree, as one that a split has given
    /// to two trees.
    pub fn reaches_across(&self, table: &TableMeta) -> bool {
        self.bounds.as_ref().is_some_and(|bounds| !bounds.contains_table(table))
            || self.hashes.is_some_and(|hashes| !hashes.contains_table(table))
    }

    /// Returns whether a table may reach across the bounds of the tree.
    pub const fn has_bounds(&self) -> bool {
        self.bounds.is_some() || self.hashes.is_some()
    }

    /// How a table of `tree` is built, for the last level or another one.
    pub(crate) fn builder_options(
        &self,
        tree: TreeId,
        is_bottom: bool,
        entry_checks: bool,
    ) -> BuilderOptions {
        BuilderOptions {
            is_bottom,
            hash_seed: self.hash_seed,
            filter_key: self.filter_key,
            keyspace: self.keyspace,
            owner: self.owner,
            tree,
            entry_checks,
            ..BuilderOptions::default()
        }
    }
}
