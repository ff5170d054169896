//! What a table is built with, and which table it is.

use flagstone_base::{Compression, DatabaseId, Error, FileNumber, KeyspaceId, Result, TreeId};

/// Block sizes beyond these help nobody: below, columns outweigh entries; above, a miss reads much.
const BLOCK_BYTES_RANGE: std::ops::RangeInclusive<usize> = 64..=(1 << 20);
/// Parts of more blocks would not be small.
pub(crate) const INDEX_PART_BLOCKS_MAX: usize = 1024;

/// How a table is built. All of it can differ from table to table of one tree.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Bytes of a block before compression, 64 to 1 MiB; one large entry may exceed it. Default
    /// 16 KiB: one device read, and 4,000 index entries for a table of 64 MiB.
    pub block_bytes: usize,
    /// How data blocks are compressed; those that do not shrink by an eighth are stored plain.
    pub compression: Compression,
    /// Filter bits a distinct key, 0 (no filter) to 32. Default 10: about 1.2% false positives.
    pub filter_bits: u8,
    /// The hash seed of the keyspace.
    pub hash_seed: u64,
    /// What part of a key the filter holds.
    pub filter_key: FilterKey,
    /// How many blocks a part of the index tells of, 1 to 1,024. Default 256: a part takes less than a page of 4 KiB in
    /// the file and 6 KB in memory, and a table of 32 MiB has eight.
    pub index_part_blocks: usize,
    /// The keyspace the table belongs to: recorded for repair, not used.
    pub keyspace: KeyspaceId,
    /// The tree the table belongs to: recorded for repair, not used.
    pub tree: TreeId,
    /// Whether every entry is compared with its check when it lies in its block; see [`TableBuilder::add_checked`].
    ///
    /// [`TableBuilder::add_checked`]: crate::TableBuilder::add_checked
    pub entry_checks: bool,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 16 << 10,
            compression: Compression::None,
            filter_bits: 10,
            hash_seed: 0,
            filter_key: FilterKey::WHOLE,
            index_part_blocks: 256,
            keyspace: KeyspaceId(0),
            tree: TreeId(0),
            entry_checks: true,
        }
    }
}

impl TableOptions {
    /// Refuses options outside their limits.
    pub(crate) fn check(&self) -> Result<()> {
        if !BLOCK_BYTES_RANGE.contains(&self.block_bytes) {
            return Err(Error::invalid(format!(
                "block_bytes is {}: expected {} to {}",
                self.block_bytes,
                BLOCK_BYTES_RANGE.start(),
                BLOCK_BYTES_RANGE.end()
            )));
        }
        if !(1..=INDEX_PART_BLOCKS_MAX).contains(&self.index_part_blocks) {
            return Err(Error::invalid(format!(
                "index_part_blocks is {}: expected 1 to {INDEX_PART_BLOCKS_MAX}",
                self.index_part_blocks
            )));
        }
        if self.filter_bits > 32 {
            return Err(Error::invalid(format!(
                "filter_bits is {}: expected 0 to 32",
                self.filter_bits
            )));
        }
        Ok(())
    }
}

/// What part of a key the filter holds, under a number that stands in the table.
#[derive(Clone, Copy, Debug)]
pub struct FilterKey {
    /// 0 for the whole key; else who reads the table must know the same number.
    pub id: u8,
    /// The part of a key.
    pub extract: fn(&[u8]) -> &[u8],
}

impl FilterKey {
    /// The whole key.
    pub const WHOLE: Self = Self { id: 0, extract: |key| key };
}

/// Which table a file is; every block's checksum covers it, so files cannot be mixed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableIdent {
    /// The database.
    pub database: DatabaseId,
    /// The number in the file's name.
    pub number: FileNumber,
    /// Drawn at random for each table, not 0: two copies of one database give the same number to different tables. 0 in
    /// tables of an older flagstone.
    pub salt: u32,
}
