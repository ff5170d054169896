//! Finds a key in an open table: in its filter and its index, which are in memory or in parts, and
//! in its blocks.

use crate::block::{Block, StoredValue};
use crate::cache::BlockKey;
use crate::format::{BLOCK_TRAILER_BYTES, open_owned_block};
use crate::index::Index;
use crate::index_parts::{IndexParts, TableIndex};
use crate::on_miss::{OnMiss, ReadOnMiss};
use crate::properties::{FilterParts, Handle};
use crate::table::{Filtering, Table};
use flagstone_base::{Malformed, Result, SeqNo, Slice, Trailer};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How a lookup uses the cache for blocks, and for the parts of an index that is in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// Uses what is cached, and inserts what is missing.
    Fill,
    /// Uses what is cached, and leaves the cache unchanged.
    Leave,
    /// Reads all from the file and does not use the cache.
    Pass,
}

/// The index part that a cursor or a walk is in. It is kept, so that neighbouring blocks need no
/// cache lookup.
#[derive(Default)]
pub(crate) struct Nearby(Option<(usize, Arc<Index>)>);

impl Table {
    /// Returns the index, or the part of it, that lists block `number`, which must be a block of
    /// the table.
    pub(crate) fn index_of<'a>(
        &'a self,
        nearby: &'a mut Nearby,
        number: usize,
        cache_use: CacheUse,
    ) -> Result<&'a Index> {
        match &self.index {
            TableIndex::Resident(index) => Ok(index),
            TableIndex::InParts(parts) => {
                self.nearby(parts, nearby, parts.part_of(number), cache_use)
            }
        }
    }

    /// Returns the block that [`Index::find`] finds.
    pub(crate) fn find(
        &self,
        nearby: &mut Nearby,
        key: &[u8],
        at: SeqNo,
        cache_use: CacheUse,
    ) -> Result<Option<usize>> {
        match &self.index {
            TableIndex::Resident(index) => Ok(index.find(key, at)),
            TableIndex::InParts(parts) => {
                let Some(part) = parts.find(key, at) else { return Ok(None) };
                Ok(self.nearby(parts, nearby, part, cache_use)?.find(key, at))
            }
        }
    }

    /// Returns the block that [`Index::find_before`] finds.
    pub(crate) fn find_before(
        &self,
        nearby: &mut Nearby,
        key: &[u8],
        cache_use: CacheUse,
    ) -> Result<Option<usize>> {
        match &self.index {
            TableIndex::Resident(index) => Ok(index.find_before(key)),
            TableIndex::InParts(parts) => {
                let Some(part) = parts.find_before(key) else { return Ok(None) };
                Ok(self.nearby(parts, nearby, part, cache_use)?.find_before(key))
            }
        }
    }

    /// Returns the places of all data blocks. Reads every part of an index in parts.
    pub(crate) fn handles(&self) -> Result<Vec<Handle>> {
        let mut nearby = Nearby::default();
        let handle = |number| {
            let index = self.index_of(&mut nearby, number, CacheUse::Pass)?;
            Ok(index.handle(number))
        };
        (0..self.index.count()).map(handle).collect()
    }

    /// The offset of block `number`, for an error message. If the part of the index that lists it
    /// cannot be read, the offset of the first block of that part.
    #[cold]
    pub(crate) fn offset_of(&self, number: usize) -> u64 {
        let mut nearby = Nearby::default();
        match (&self.index, self.index_of(&mut nearby, number, CacheUse::Leave)) {
            (_, Ok(index)) => index.offset(number),
            (index, Err(_)) => index.piece_offset(match index {
                TableIndex::Resident(_) => number,
                TableIndex::InParts(parts) => parts.part_of(number),
            }),
        }
    }

    fn nearby<'a>(
        &self,
        parts: &IndexParts,
        nearby: &'a mut Nearby,
        number: usize,
        cache_use: CacheUse,
    ) -> Result<&'a Index> {
        let kept = match nearby.0.take().filter(|(kept, _)| *kept == number) {
            Some(kept) => kept,
            None => (number, self.index_part(parts, number, cache_use)?),
        };
        Ok(&nearby.0.insert(kept).1)
    }

    /// Returns part `number` of the index.
    fn index_part(
        &self,
        parts: &IndexParts,
        number: usize,
        cache_use: CacheUse,
    ) -> Result<Arc<Index>> {
        let found = match cache_use {
            CacheUse::Fill => return self.cached_index_part::<ReadOnMiss>(parts, number),
            CacheUse::Leave => self.cache.peek_index(self.index_part_key(number)),
            CacheUse::Pass => None,
        };
        found.map_or_else(|| self.read_index_part(parts, number).map(Arc::new), Ok)
    }

    /// Returns part `number` of the index, and leaves it in the cache.
    fn cached_index_part<M: OnMiss>(
        &self,
        parts: &IndexParts,
        number: usize,
    ) -> Result<Arc<Index>, M::Stop> {
        let key = self.index_part_key(number);
        if let Some(index) = self.cache.index(key) {
            return Ok(index);
        }
        M::read(|| {
            let index = Arc::new(self.read_index_part(parts, number)?);
            self.cache.insert_index(key, Arc::clone(&index));
            Ok(index)
        })
    }

    #[cold]
    fn read_index_part(&self, parts: &IndexParts, number: usize) -> Result<Index> {
        let handle = parts.handle(number);
        let (path, buffers) = (self.file.path(), self.cache.buffers());
        let mut stored = buffers.take(handle.len as usize);
        self.file.read_block_at(&mut stored, handle.offset)?;
        // Parts are stored uncompressed, so they are no longer than their stored bytes.
        let raw_max = handle.len as usize;
        let raw =
            open_owned_block(stored, self.ident, handle.offset, raw_max, path, None, buffers)?;
        let part = parts.part(number, &raw).and_then(|part| self.check_block_lens(part));
        part.map_err(|wrong| wrong.in_file(path.display(), handle.offset))
    }

    /// Returns `part` unless one of its blocks is longer than the table allows.
    fn check_block_lens(&self, part: Index) -> Result<Index, Malformed> {
        let most = self.raw_max() as u64 + BLOCK_TRAILER_BYTES as u64;
        if part.block_len_max() > most {
            return Err(Malformed { at: 0, expected: "blocks no longer than the longest" });
        }
        Ok(part)
    }

    /// Cache keys number data blocks upwards from 0, the parts of the filter downwards from the
    /// largest number, and the parts of the index downwards after those.
    pub(crate) fn index_part_key(&self, number: usize) -> BlockKey {
        let filter_parts = self.properties.sections.filter_parts.map_or(0, |parts| parts.count());
        BlockKey { table: self.cache_number, block: u32::MAX - filter_parts - number as u32 }
    }
}

/// What a get looks for: the newest entries of `key` at or before `at`.
#[derive(Clone, Copy)]
struct Sought<'a> {
    key: &'a [u8],
    remixed_hash: u64,
    at: SeqNo,
}

/// Point lookups.
impl Table {
    /// Visits the entries of `key` with a SeqNo of at most `at`, newest first, until `visit` breaks
    /// off or no entry is left. `remixed_hash` is the hash of the key with the seed of its
    /// keyspace.
    ///
    /// Cost when the block is cached: a filter probe, a binary search of the index in memory, a
    /// cache hit, and a search for one byte in the block. An index that is not in memory costs
    /// another cache hit.
    ///
    /// # Errors
    /// Corruption; any error of reading the file.
    #[inline]
    pub fn get(
        &self,
        key: &[u8],
        remixed_hash: u64,
        at: SeqNo,
        visit: &mut dyn FnMut(Trailer, StoredValue<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.get_with::<ReadOnMiss>(key, remixed_hash, at, visit)
    }

    /// As [`Table::get`], with `M` for what is not in memory. If that stops the get, some entries
    /// may have been visited.
    ///
    /// # Errors
    /// As [`Table::get`], and as `M` says.
    #[inline]
    pub fn get_with<M: OnMiss>(
        &self,
        key: &[u8],
        remixed_hash: u64,
        at: SeqNo,
        visit: &mut dyn FnMut(Trailer, StoredValue<'_>) -> ControlFlow<()>,
    ) -> Result<(), M::Stop> {
        if self.properties.filter_key == 0 && !self.may_contain_with::<M>(remixed_hash)? {
            return Ok(());
        }
        let sought = Sought { key, remixed_hash, at };
        match &self.index {
            TableIndex::Resident(index) => {
                let Some(number) = index.find(key, at) else { return Ok(()) };
                self.visit_from::<M>(index, number, sought, visit).map(|_goes_on| ())
            }
            TableIndex::InParts(parts) => self.get_by_parts::<M>(parts, sought, visit),
        }
    }

    fn get_by_parts<M: OnMiss>(
        &self,
        parts: &IndexParts,
        sought: Sought<'_>,
        visit: &mut dyn FnMut(Trailer, StoredValue<'_>) -> ControlFlow<()>,
    ) -> Result<(), M::Stop> {
        let Some(mut part) = parts.find(sought.key, sought.at) else { return Ok(()) };
        let mut index = self.cached_index_part::<M>(parts, part)?;
        let Some(mut number) = index.find(sought.key, sought.at) else { return Ok(()) };
        while self.visit_from::<M>(&index, number, sought, visit)? && parts.is_continued(part + 1) {
            part += 1;
            index = self.cached_index_part::<M>(parts, part)?;
            number = index.blocks().start;
        }
        Ok(())
    }

    /// Visits entries from block `number` of `index` on. Returns true if the last block of `index`
    /// ends with the key and `visit` did not break off.
    #[inline]
    fn visit_from<M: OnMiss>(
        &self,
        index: &Index,
        mut number: usize,
        sought: Sought<'_>,
        visit: &mut dyn FnMut(Trailer, StoredValue<'_>) -> ControlFlow<()>,
    ) -> Result<bool, M::Stop> {
        let end = index.blocks().end;
        loop {
            let block = self.block_with::<M>(index, number, CacheUse::Fill)?;
            let more = block
                .visit(sought.key, sought.remixed_hash, sought.at, visit)
                .map_err(|wrong| self.wrong_in_block(number, wrong))?;
            number += 1;
            if more != Some(true) || number == end {
                return Ok(more == Some(true));
            }
            if index.continued(number).is_none() {
                return Ok(false);
            }
        }
    }

    /// Returns block `number`, which `index` lists, from the cache, otherwise from the file.
    /// `cache_use` tells whether a block from the file is inserted into the cache.
    pub(crate) fn block(&self, index: &Index, number: usize, cache_use: CacheUse) -> Result<Block> {
        self.block_with::<ReadOnMiss>(index, number, cache_use)
    }

    /// As [`Table::block`], with `M` for a block that is not in the cache. Only a block that is
    /// then read counts as a miss.
    #[inline]
    fn block_with<M: OnMiss>(
        &self,
        index: &Index,
        number: usize,
        cache_use: CacheUse,
    ) -> Result<Block, M::Stop> {
        let key = self.cache_key(number);
        match self.cache.hit(key) {
            Some(block) => Ok(block),
            None => M::read(|| {
                self.cache.count_miss(key);
                self.read_block(index, number, cache_use)
            }),
        }
    }

    /// Returns whether the filter may contain `remixed_hash`, and true if there is no filter. The
    /// hash is that of the key, or of the extracted part if the [`crate::FilterKey`] of the table
    /// is not the whole key. If the filter is not in memory, this costs a cache lookup, or a read
    /// of 16 KiB.
    ///
    /// # Errors
    /// Corruption of the filter; any error of reading the file.
    #[inline]
    pub fn may_contain(&self, remixed_hash: u64) -> Result<bool> {
        self.may_contain_with::<ReadOnMiss>(remixed_hash)
    }

    /// As [`Table::may_contain`], with `M` for a part of the filter that is not in memory.
    ///
    /// # Errors
    /// As [`Table::may_contain`], and as `M` says.
    #[inline]
    pub fn may_contain_with<M: OnMiss>(&self, remixed_hash: u64) -> Result<bool, M::Stop> {
        match &self.filter {
            Filtering::None => Ok(true),
            Filtering::Pinned(filter) => Ok(filter.may_contain(remixed_hash)),
            Filtering::InParts(parts) => self.ask_part::<M>(*parts, remixed_hash),
        }
    }

    fn ask_part<M: OnMiss>(&self, parts: FilterParts, hash: u64) -> Result<bool, M::Stop> {
        let number = parts.part_of(hash);
        let part = match self.cache.get_uncounted(self.part_key(number)) {
            Some(part) => part,
            None => M::read(|| self.read_filter_part(parts, number))?,
        };
        Ok(parts.may_contain(part.bytes(), hash))
    }

    #[cold]
    fn read_filter_part(&self, parts: FilterParts, number: u32) -> Result<Block> {
        let handle = parts.handle(number);
        let buffers = self.cache.buffers();
        let mut stored = buffers.take(handle.len as usize);
        self.file.read_block_at(&mut stored, handle.offset)?;
        let (path, raw_max) = (self.file.path(), handle.len as usize);
        let raw =
            open_owned_block(stored, self.ident, handle.offset, raw_max, path, None, buffers)?;
        let part = Block::opaque(Slice::from_owner(raw));
        self.cache.insert(self.part_key(number), part.clone());
        Ok(part)
    }
}
