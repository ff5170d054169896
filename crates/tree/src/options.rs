//! What a tree is told when it is made.

use crate::fold::Fold;
use flagstone_base::{Compression, KeyspaceId, TreeId};
use flagstone_sst::{FilterKey, TableOptions};
use std::sync::Arc;

/// Which way a scan walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Keys ascending.
    Forward,
    /// Keys descending.
    Reverse,
}

/// How much of a table that was just written is looked at again, before it takes the place of what
/// it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputCheck {
    /// The tail alone, which opening it reads.
    Tail,
    /// The checksums of all blocks and of the file: what is read is what was meant to be written.
    Stored,
    /// Besides, every block is decompressed, and order, hashes and counts of all entries are
    /// checked: what was meant to be written is right. 30 to 540 ns an entry more, by its size and
    /// compression (`verify` in `examples/table.rs` of `flagstone-sst`).
    Entries,
}

impl OutputCheck {
    /// `Entries` in builds with debug assertions, where the builder itself is on trial; else `Stored`.
    pub const DEFAULT: Self = if cfg!(debug_assertions) { Self::Entries } else { Self::Stored };
}

/// How a tree writes its tables and keeps its shape. All may change when a tree is opened again,
/// but the hash seed, the filter key and the fold, which belong to its keyspace.
#[derive(Clone)]
pub struct TreeOptions {
    /// The keyspace, recorded in tables so that a lost manifest can be rebuilt.
    pub keyspace: KeyspaceId,
    /// The seed of the keyspace's key hash.
    pub hash_seed: u64,
    /// Raw bytes of a block: 16 KiB reads in one device operation and compresses well.
    pub block_bytes: usize,
    /// Filter bits per key; 10 lets one absent key in a hundred through.
    pub filter_bits: u8,
    /// What the filter holds of a key.
    pub filter_key: FilterKey,
    /// Compression of every level but the last: written and read often, so quick.
    pub upper_compression: Compression,
    /// Compression of the last level, which holds nine tenths of the data: small.
    pub bottom_compression: Compression,
    /// The size at which a table is full. Flushes cut theirs at a quarter of it, so that input
    /// that is nearly sorted overlaps in few bytes.
    pub table_bytes: u64,
    /// So many overlapping runs in L0 call for a compaction: each costs a get one filter probe.
    pub l0_runs_trigger: usize,
    /// So many runs may stand in L0 under [`Policy::Tiering`](crate::Policy::Tiering). The more, the
    /// fewer bytes are rewritten, and the more filters a get asks.
    pub l0_runs_tiering: usize,
    /// When this tree's turn comes among those that fill alike, 0 to 7: it sets how large L0 may grow
    /// under [`Policy::Tiering`](crate::Policy::Tiering), so that they are not all merged at the same time.
    pub turn: u8,
    /// How many times larger each level is than the one above.
    pub level_fanout: u64,
    /// The size of the first level below L0.
    pub level_base_bytes: u64,
    /// A compaction takes inputs of at most this size, or of a twentieth of the tree, if that is more, and
    /// never more than 2 GiB.
    pub job_bytes_min: u64,
    /// How every table is read back and checked before it is installed.
    pub check: OutputCheck,
    /// The most bytes of one key's merge operands that a flush or compaction holds; more are read
    /// again, oldest first, and folded part by part.
    pub fold_bytes: usize,
    /// What merge operands mean; without one, meeting an operand is an error.
    pub fold: Option<Arc<dyn Fold>>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            keyspace: KeyspaceId::default(),
            hash_seed: 0,
            block_bytes: 16 << 10,
            filter_bits: 10,
            filter_key: FilterKey::WHOLE,
            upper_compression: Compression::Lz4,
            bottom_compression: Compression::Zstd(1),
            table_bytes: 32 << 20,
            l0_runs_trigger: 4,
            l0_runs_tiering: 12,
            turn: 7,
            level_fanout: 8,
            level_base_bytes: 64 << 20,
            job_bytes_min: 64 << 20,
            check: OutputCheck::DEFAULT,
            fold_bytes: 4 << 20,
            fold: None,
        }
    }
}

impl TreeOptions {
    pub(crate) fn table_options(
        &self,
        tree: TreeId,
        compression: Compression,
        entry_checks: bool,
    ) -> TableOptions {
        TableOptions {
            block_bytes: self.block_bytes,
            compression,
            filter_bits: self.filter_bits,
            hash_seed: self.hash_seed,
            filter_key: self.filter_key,
            keyspace: self.keyspace,
            tree,
            entry_checks,
            ..TableOptions::default()
        }
    }
}
