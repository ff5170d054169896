//! The options that a table is built with, and the identity of a table.

use flagstone_base::{Compression, DatabaseId, Error, FileNumber, KeyspaceId, Result, TreeId};

/// The block sizes that [`TableOptions`] accepts. In smaller blocks the columns outweigh the
/// entries; with larger blocks a cache miss reads too much.
const BLOCK_BYTES_RANGE: std::ops::RangeInclusive<usize> = 64..=(1 << 20);
/// The largest `index_part_blocks` that [`TableOptions`] accepts: larger parts would defeat the
/// purpose of parts.
pub(crate) const INDEX_PART_BLOCKS_MAX: usize = 1024;

/// How a table is built. All options may differ between the tables of one tree.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// The size at which a block is finished, in bytes before compression: 64 to 1 MiB. One large
    /// entry may exceed it. Default 16 KiB: one device read, and 4,000 index entries for a table of
    /// 64 MiB.
    pub block_bytes: usize,
    /// The compression of data blocks. A block that does not shrink by an eighth is stored
    /// uncompressed.
    pub compression: Compression,
    /// Filter bits for each distinct key: 0 (no filter) to 32. Default 10: about 1.2% false
    /// positives.
    pub filter_bits: u8,
    /// The hash seed of the keyspace. The filter and the fingerprints of blocks depend on it.
    pub hash_seed: u64,
    /// The part of a key that goes into the filter.
    pub filter_key: FilterKey,
    /// The number of data blocks that one part of the index covers, 1 to 1,024. Default 256: a part
    /// takes less than a page of 4 KiB in the file and 6 KB in memory, and a table of 32 MiB has
    /// eight parts.
    pub index_part_blocks: usize,
    /// The keyspace of the table. The table records it for repair; nothing else uses it.
    pub keyspace: KeyspaceId,
    /// The tree of the table. The table records it for repair; nothing else uses it.
    pub tree: TreeId,
    /// Whether the builder compares every entry of a finished block with its check; see
    /// [`TableBuilder::add_checked`].
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

/// The part of a key that goes into the filter, and the number under which a table records that
/// choice.
#[derive(Clone, Copy, Debug)]
pub struct FilterKey {
    /// 0 for the whole key. For any other number, the reader of the table must use the same
    /// function under the same number.
    pub id: u8,
    /// Returns the part of a key that goes into the filter.
    pub extract: fn(&[u8]) -> &[u8],
}

impl FilterKey {
    /// The filter holds whole keys.
    pub const WHOLE: Self = Self { id: 0, extract: |key| key };
}

/// The identity of a table. The checksum of every block covers it, so a swapped file is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableIdent {
    /// The database that the table belongs to.
    pub database: DatabaseId,
    /// The file number, which is also in the name of the file.
    pub number: FileNumber,
    /// A nonzero number drawn at random for each table: two copies of one database may give the
    /// same file number to different tables. 0 in tables of an older flagstone.
    pub salt: u32,
}
