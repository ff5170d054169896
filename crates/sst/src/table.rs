//! An open table: reading its blocks and sections.

use crate::allowance::Allowance;
use crate::block::Block;
use crate::buffers::Buffer;
use crate::cache::{BlockCache, BlockKey, CachePin, PinnedDictionary};
use crate::filter::Filter;
use crate::format::{
    BLOCK_RAW_MAX, Footer, TAIL_BYTES_MAX, open_block, open_data_block, open_owned_block, plain,
    section_raw_max,
};
use crate::index::Index;
use crate::index_parts::TableIndex;
use crate::lookup::CacheUse;
use crate::meta::TableMeta;
use crate::options::TableIdent;
use crate::properties::{FilterParts, Handle, Properties};
use crate::ranges::{RangeDeletes, decode_attachments};
use crate::sample::Sample;
use flagstone_base::dictionary::Unpacker;
use flagstone_base::{Error, FileNumber, Malformed, Result, SeqNo, Slice};
use flagstone_env::ReadFile;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open table. It is shared by `Arc`; all reads take `&self` and no lock.
pub struct Table {
    pub(crate) file: Arc<dyn ReadFile>,
    pub(crate) ident: TableIdent,
    pub(crate) index: TableIndex,
    pub(crate) filter: Filtering,
    /// The dictionary of the data blocks.
    pub(crate) dictionary: Option<Arc<PinnedDictionary>>,
    pub(crate) properties: Properties,
    pub(crate) footer: Footer,
    pub(crate) meta: Option<TableMeta>,
    pub(crate) global: Option<SeqNo>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) cache_number: u64,
    /// The memory that the table holds, counted in the cache.
    pub(crate) pin: CachePin,
}

/// The filter of an open table.
pub(crate) enum Filtering {
    None,
    /// The filter stays in memory while the table is open.
    Pinned(Filter),
    /// The block cache holds the parts of the filter.
    InParts(FilterParts),
}

impl Table {
    /// Cache keys number the parts of the filter downwards from the largest number, and data blocks
    /// upwards from 0.
    pub(crate) const fn part_key(&self, number: u32) -> BlockKey {
        BlockKey { table: self.cache_number, block: u32::MAX - number }
    }

    /// Reads the range deletes from the file. An open table does not keep them in memory.
    ///
    /// # Errors
    /// Corruption; any error of reading the file.
    pub fn range_deletes(&self) -> Result<RangeDeletes> {
        let Some(handle) = self.properties.sections.range_deletes else {
            return Ok(RangeDeletes::default());
        };
        let wrong = |wrong: Malformed| wrong.in_file(self.file.path().display(), handle.offset);
        let mut section = self.read_stored_section(handle)?;
        let payload = plain(&section, self.ident, handle).map_err(wrong)?.len();
        section.truncate(payload);
        RangeDeletes::decode(Slice::from(section), self.global).map_err(wrong)
    }

    /// Reads the attachments from the file, ordered by id.
    ///
    /// # Errors
    /// Corruption; any error of reading the file.
    pub fn attachments(&self) -> Result<Vec<(u32, Slice)>> {
        let Some(handle) = self.properties.sections.attachments else { return Ok(Vec::new()) };
        let path = self.file.path();
        let raw = self.read_section(handle)?;
        decode_attachments(raw).map_err(|wrong| wrong.in_file(path.display(), handle.offset))
    }

    /// Reads the sample from the file, reduced to one key in two to the power of `wanted`, or the
    /// whole sample if that has no more. Returns `None` for a table that was written without one.
    ///
    /// # Errors
    /// Corruption; any error of reading the file.
    pub fn sample(&self, wanted: u8) -> Result<Option<Sample>> {
        let Some(shift) = self.properties.sample_shift else { return Ok(None) };
        let Some(handle) = self.properties.sections.sample else {
            // The sample has no entries.
            let none = Sample::decode(&[0], shift, wanted, None);
            return none.map(Some).map_err(|wrong| wrong.in_file(self.file.path().display(), 0));
        };
        let raw = self.read_section(handle)?;
        let sample = Sample::decode(&raw, shift, wanted, self.global);
        sample.map(Some).map_err(|wrong| wrong.in_file(self.file.path().display(), handle.offset))
    }

    /// The whole sample has one key in two to this power. `None` for a table without a sample.
    pub fn sample_shift(&self) -> Option<u8> {
        self.properties.sample_shift
    }

    /// Reads the dictionary of the data blocks from the file. Returns `None` if there is none. An
    /// open table keeps a prepared form of it alone.
    ///
    /// # Errors
    /// Corruption; any error of reading the file.
    pub fn dictionary(&self) -> Result<Option<Vec<u8>>> {
        let Some(handle) = self.properties.sections.dictionary else { return Ok(None) };
        let mut section = self.read_stored_section(handle)?;
        let payload = plain(&section, self.ident, handle)
            .map_err(|wrong| wrong.in_file(self.file.path().display(), handle.offset))?
            .len();
        section.truncate(payload);
        Ok(Some(section))
    }

    /// Reads a small section from the file and decompresses it.
    fn read_section(&self, handle: Handle) -> Result<Vec<u8>> {
        let (stored, path) = (self.read_stored_section(handle)?, self.file.path());
        let raw_max = (self.raw_max() as u64).min(section_raw_max(handle.len)) as usize;
        open_block(&stored, self.ident, handle.offset, raw_max, path, |len| vec![0; len])
    }

    fn read_stored_section(&self, handle: Handle) -> Result<Vec<u8>> {
        let path = self.file.path();
        let is_inside = handle.end().is_some_and(|end| end <= self.file.len());
        if !is_inside || handle.len > TAIL_BYTES_MAX {
            let wrong = Malformed { at: 0, expected: "a section within the tail" };
            return Err(wrong.in_file(path.display(), handle.offset));
        }
        let mut stored = vec![0; handle.len as usize];
        self.file.read_exact_at(&mut stored, handle.offset)?;
        Ok(stored)
    }

    /// The properties that the file records about itself.
    pub const fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The number in the name of the file.
    pub const fn number(&self) -> FileNumber {
        self.ident.number
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.len()
    }

    /// Bytes that the table holds in memory outside the cache: its index or the top of it, its
    /// filter if memory allowed it, its properties, and its dictionary, which it may share with
    /// other tables. [`BlockCache::pinned_bytes`] includes them, a shared dictionary once, until
    /// the table is dropped.
    pub fn resident_bytes(&self) -> u64 {
        self.pin.bytes() + self.dictionary.as_ref().map_or(0, |shared| shared.pin.bytes())
    }

    /// Removes all blocks of the table from the cache. For a table that a compaction replaced.
    pub fn forget_blocks(&self) {
        for number in 0..self.index.count() {
            self.cache.remove(self.cache_key(number));
        }
        if let TableIndex::InParts(parts) = &self.index {
            (0..parts.count()).for_each(|number| self.cache.remove(self.index_part_key(number)));
        }
        if let Filtering::InParts(parts) = &self.filter {
            (0..parts.count()).for_each(|number| self.cache.remove(self.part_key(number)));
        }
    }

    #[inline]
    pub(crate) const fn cache_key(&self, number: usize) -> BlockKey {
        // The number of blocks in an index has 32 bits.
        BlockKey { table: self.cache_number, block: number as u32 }
    }

    /// Returns block `number` if it is in the cache. Counts a hit or a miss if `counts` is set.
    #[inline]
    pub(crate) fn cached_block(&self, number: usize, counts: bool) -> Option<Block> {
        let key = self.cache_key(number);
        if counts { self.cache.get(key) } else { self.cache.peek(key) }
    }

    /// Reads block `number`, which is not in the cache, from the file.
    #[cold]
    pub(crate) fn read_block(
        &self,
        index: &Index,
        number: usize,
        cache_use: CacheUse,
    ) -> Result<Block> {
        let handle = index.handle(number);
        let buffers = self.cache.buffers();
        let mut stored = buffers.take(handle.len as usize);
        self.file.read_block_at(&mut stored, handle.offset)?;
        let (ident, offset, raw_max) = (self.ident, handle.offset, self.raw_max());
        let (path, dictionary) = (self.file.path(), self.unpacker());
        let raw = open_owned_block(stored, ident, offset, raw_max, path, dictionary, buffers)?;
        self.new_block(number, raw, cache_use)
    }

    /// Opens block `number` from its stored bytes, which are at `offset` of the file.
    pub(crate) fn open_stored(
        &self,
        number: usize,
        offset: u64,
        stored: &[u8],
        cache_use: CacheUse,
    ) -> Result<Block> {
        let (ident, raw_max, path) = (self.ident, self.raw_max(), self.file.path());
        let (dictionary, take) = (self.unpacker(), |len| self.cache.buffers().take(len));
        let raw = open_data_block(stored, ident, offset, raw_max, path, dictionary, take)?;
        self.new_block(number, raw, cache_use)
    }

    /// The memory that scans hold.
    pub(crate) fn scans(&self) -> &Allowance {
        self.cache.scans()
    }

    /// The limit on the raw length of a block, in bytes.
    pub(crate) fn raw_max(&self) -> usize {
        self.properties.block_bytes_max.min(BLOCK_RAW_MAX as u64) as usize
    }

    /// The dictionary of the data blocks.
    fn unpacker(&self) -> Option<&Unpacker> {
        self.dictionary.as_ref().map(|shared| &shared.unpacker)
    }

    fn new_block(&self, number: usize, raw: Buffer, cache_use: CacheUse) -> Result<Block> {
        let block = Block::new(Slice::from_owner(raw), self.global)
            .map_err(|wrong| self.wrong_in_block(number, wrong))?;
        if cache_use == CacheUse::Fill {
            self.cache.insert(self.cache_key(number), block.clone());
        }
        Ok(block)
    }

    /// Returns the error that block `number` is malformed.
    #[cold]
    pub(crate) fn wrong_in_block(&self, number: usize, wrong: Malformed) -> Error {
        Error::corruption(
            self.file.path().display(),
            self.offset_of(number),
            format_args!("block {number}, byte {}: expected {}", wrong.at, wrong.expected),
        )
    }
}

/// For example `000042 [a..m] #3..#9 120 entries 2.1 MiB zstd 1`.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut content = match &self.meta {
            Some(meta) => meta.clone(),
            None => self.properties.content.clone(),
        };
        content.bytes = self.bytes();
        content.fmt(f)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableBuilder, TableOptions};
    use flagstone_base::hash::{key_hash, remix};
    use flagstone_base::{Compression, DatabaseId, EntryRef, Kind};
    use flagstone_env::{Disk, MemDisk};
    use std::ops::ControlFlow;

    #[test]
    fn the_memory_of_a_block_is_kept_for_the_next_when_no_reader_holds_it() {
        let (disk, path) = (MemDisk::default(), Path::new("/000042.sst"));
        let ident = TableIdent { database: DatabaseId([7; 16]), number: FileNumber(42), salt: 0 };
        for compression in [Compression::None, Compression::Lz4] {
            let options = TableOptions { compression, ..TableOptions::default() };
            let mut builder =
                TableBuilder::new(disk.create(path).unwrap(), ident, options).unwrap();
            let entry = EntryRef::new(b"key", SeqNo::new(1), Kind::Put, &[7; 9_000]);
            builder.add(entry).unwrap();
            let meta = builder.finish().unwrap();
            let cache = BlockCache::new(4 << 20);
            let file = disk.open(path).unwrap();
            let table = Table::open(file, ident, Some(&meta), &cache).unwrap();
            let (mut held, hash) = (None, remix(key_hash(b"key", 0)));
            let mut get = || {
                table
                    .get(b"key", hash, SeqNo::MAX, &mut |_, value| {
                        held = Some(value.to_slice());
                        ControlFlow::Break(())
                    })
                    .unwrap();
                held.take().unwrap()
            };
            let value = get();
            table.forget_blocks();
            let idle = cache.buffers().idle_bytes();
            let place = value.as_ptr();
            drop(value);
            assert!(cache.buffers().idle_bytes() >= idle + 9_000, "it was the last");
            assert_eq!(get().as_ptr(), place, "it is used again");
            disk.remove(path).unwrap();
        }
    }
}
