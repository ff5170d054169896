//! Finds blocks in the index of an open table, whether the index is in memory or in parts; and gets
//! that read no file.

use crate::block::StoredValue;
use crate::cache::BlockKey;
use crate::filter::Filter;
use crate::format::{BLOCK_TRAILER_BYTES, open_owned_block};
use crate::index::Index;
use crate::index_parts::{IndexParts, TableIndex};
use crate::properties::{FilterParts, Handle};
use crate::table::{Filtering, Sought, Table};
use flagstone_base::{Malformed, Result, SeqNo, Trailer};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How a lookup uses the cache when the index is in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// Uses cached parts, and inserts missing ones.
    Fill,
    /// Uses cached parts, and leaves the cache unchanged.
    Leave,
    /// Reads all parts from the file and does not use the cache.
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
        (key, at): (&[u8], SeqNo),
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
    pub(crate) fn index_part(
        &self,
        parts: &IndexParts,
        number: usize,
        cache_use: CacheUse,
    ) -> Result<Arc<Index>> {
        let key = self.index_part_key(number);
        let found = match cache_use {
            CacheUse::Fill => self.cache.index(key, true),
            CacheUse::Leave => self.cache.index(key, false),
            CacheUse::Pass => None,
        };
        if let Some(index) = found {
            return Ok(index);
        }
        let index = Arc::new(self.read_index_part(parts, number)?);
        if cache_use == CacheUse::Fill {
            self.cache.insert_index(key, Arc::clone(&index));
        }
        Ok(index)
    }

    #[cold]
    fn read_index_part(&self, parts: &IndexParts, number: usize) -> Result<Index> {
        let handle = parts.handle(number);
        let (path, buffers) = (self.file.path(), self.cache.buffers());
        let mut stored = buffers.take(handle.len as usize);
        self.file.read_block_at(&mut stored, handle.offset)?;
        // Parts are stored uncompressed, so they are no longer than their stored bytes.
        let raw_max = handle.len as usize;
        let place = (self.ident, handle.offset);
        let raw = open_owned_block(stored, place, raw_max, path, None, buffers)?;
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

/// Gets that use memory alone: the filter, the index and the blocks of the cache, never the file.
impl Table {
    /// As [`Table::get`], but reads no file. Returns false if the file would have to be read; then
    /// some entries of the key may have been visited.
    ///
    /// # Errors
    /// Corruption of a block in memory.
    pub fn get_cached(
        &self,
        key: &[u8],
        remixed_hash: u64,
        at: SeqNo,
        visit: &mut dyn FnMut(Trailer, StoredValue<'_>) -> ControlFlow<()>,
    ) -> Result<bool> {
        if self.properties.filter_key == 0 {
            match self.may_contain_cached(remixed_hash) {
                Some(true) => {}
                Some(false) => return Ok(true),
                None => return Ok(false),
            }
        }
        let sought = Sought { key, remixed_hash, at };
        let parts = match &self.index {
            TableIndex::Resident(index) => {
                let Some(number) = index.find(key, at) else { return Ok(true) };
                return Ok(self.visit_cached(index, number, sought, visit)?.is_some());
            }
            TableIndex::InParts(parts) => parts,
        };
        let Some(mut part) = parts.find(key, at) else { return Ok(true) };
        let Some(mut index) = self.cached_index_part(part) else { return Ok(false) };
        let Some(mut number) = index.find(key, at) else { return Ok(true) };
        loop {
            match self.visit_cached(&index, number, sought, visit)? {
                Some(true) if parts.is_continued(part + 1) => part += 1,
                known => return Ok(known.is_some()),
            }
            let Some(next) = self.cached_index_part(part) else { return Ok(false) };
            index = next;
            number = index.blocks().start;
        }
    }

    /// As [`Table::may_contain`], or `None` if the part of the filter is not in memory.
    pub fn may_contain_cached(&self, remixed_hash: u64) -> Option<bool> {
        let ask = |filter: &Filter| filter.may_contain(remixed_hash);
        match &self.filter {
            Filtering::None => Some(true),
            Filtering::Pinned(filter) => Some(ask(filter)),
            Filtering::InParts(parts) => self.ask_cached_part(*parts, remixed_hash),
        }
    }

    fn ask_cached_part(&self, parts: FilterParts, hash: u64) -> Option<bool> {
        let part = self.cache.get_uncounted(self.part_key(parts.part_of(hash)))?;
        Some(parts.may_contain(part.bytes(), hash))
    }

    fn cached_index_part(&self, number: usize) -> Option<Arc<Index>> {
        self.cache.index(self.index_part_key(number), true)
    }

    /// Visits entries from block `number` of `index` on. Returns true if the last block of `index`
    /// ends with the key and `visit` did not break off, and `None` if a block is not in the cache.
    fn visit_cached(
        &self,
        index: &Index,
        mut number: usize,
        sought: Sought<'_>,
        visit: &mut dyn FnMut(Trailer, StoredValue<'_>) -> ControlFlow<()>,
    ) -> Result<Option<bool>> {
        let end = index.blocks().end;
        loop {
            let Some(block) = self.cache.get_if_there(self.cache_key(number)) else {
                return Ok(None);
            };
            let more = block
                .visit(sought.key, sought.remixed_hash, sought.at, visit)
                .map_err(|wrong| self.wrong_in_block(number, wrong))?;
            number += 1;
            if more != Some(true) || number == end {
                return Ok(Some(more == Some(true)));
            }
            if index.continued(number).is_none() {
                return Ok(Some(false));
            }
        }
    }
}
