//! An open table: point reads; its index, filter and small sections stay in memory.

use crate::block::Block;
use crate::buffers::Buffer;
use crate::cache::{BlockCache, BlockKey};
use crate::filter::Filter;
use crate::format::{BLOCK_RAW_MAX, BLOCK_TRAILER_BYTES, FILE_BYTES_MIN, FOOTER_BYTES, Footer};
use crate::format::{check_block, open_block, open_owned_block, section_raw_max};
use crate::index::Index;
use crate::meta::TableMeta;
use crate::options::TableIdent;
use crate::properties::{FilterParts, Handle, Properties};
use crate::ranges::{RangeDelete, decode_attachments, decode_ranges};
use crate::sample::Sample;
use flagstone_base::{Error, FileNumber, Malformed, Result, SeqNo, Slice, Trailer};
use flagstone_env::ReadFile;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// How much of the end of a file is read first when its tail's length is not known.
const TAIL_GUESS_BYTES: u64 = 64 << 10;
/// No index, filter, .. of one table is longer.
const TAIL_BYTES_MAX: u64 = 2 << 30;

/// An open table. Shared by `Arc`; all reads take `&self` and no lock.
pub struct Table {
    pub(crate) file: Arc<dyn ReadFile>,
    pub(crate) ident: TableIdent,
    pub(crate) index: Index,
    filter: Filtering,
    pub(crate) properties: Properties,
    pub(crate) footer: Footer,
    ranges: Vec<RangeDelete>,
    pub(crate) meta: Option<TableMeta>,
    global: Option<SeqNo>,
    cache: Arc<BlockCache>,
    cache_number: u64,
    resident_bytes: u64,
}

/// What says of a key that it is certainly absent.
enum Filtering {
    None,
    /// In memory as long as the table is open.
    Pinned(Filter),
    /// In the file, its parts in the cache.
    InParts(FilterParts),
}

impl Table {
    /// Opens the table in `file`, which must be `ident`, with the salt that `meta` tells. One read of the file's tail when `meta` (what
    /// [`crate::TableBuilder::finish`] answered) is given, one or two without. Index and range deletes stay
    /// in memory; so does the filter while there is room in the cache's budget, for one more read. Together they are
    /// 1.1% of a table of 100-byte values (`examples/table.rs`).
    ///
    /// # Errors
    /// Corruption for a file that is damaged, cut short, or another table; Unsupported for a newer
    /// format; what reading the file answers.
    pub fn open(
        file: Arc<dyn ReadFile>,
        ident: TableIdent,
        meta: Option<&TableMeta>,
        cache: &Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let path = file.path();
        if let Some(meta) = meta.filter(|meta| meta.bytes != file.len()) {
            return Err(Error::corruption(
                path.display(),
                file.len(),
                format_args!("a table of {} bytes: expected {}", file.len(), meta.bytes),
            ));
        }
        let tail = read_tail(&*file, meta.map(|meta| meta.tail_bytes))?;
        let salt = meta.map_or(tail.footer.label.ident.salt, |meta| meta.salt);
        let ident = TableIdent { salt, ..ident };
        tail.footer.label.check(path.display(), ident)?;
        let tail = tail.complete(&*file)?;
        Self::from_tail(file, ident, meta, cache, &tail)
    }

    fn from_tail(
        file: Arc<dyn ReadFile>,
        ident: TableIdent,
        meta: Option<&TableMeta>,
        cache: &Arc<BlockCache>,
        tail: &Tail,
    ) -> Result<Arc<Self>> {
        let global = meta.and_then(|meta| meta.global_seqno);
        let stored = |handle: Handle| {
            tail.part(handle).ok_or_else(|| {
                let wrong = Malformed { at: 0, expected: "a section within the tail" };
                wrong.in_file(file.path().display(), handle.offset)
            })
        };
        let section = |handle: Handle, raw_max: u64| {
            let stored = stored(handle)?;
            let raw_max = raw_max.min(BLOCK_RAW_MAX as u64) as usize;
            open_block(stored, ident, handle.offset, raw_max, file.path(), |len| vec![0; len])
        };
        let in_section = |handle: Handle| {
            let file = &file;
            move |wrong: Malformed| wrong.in_file(file.path().display(), handle.offset)
        };

        let handle = tail.footer.properties;
        let properties =
            Properties::decode(&section(handle, handle.len)?).map_err(in_section(handle))?;
        let raw_max = properties.block_bytes_max.min(BLOCK_RAW_MAX as u64);
        let Some(handle) = properties.sections.index else {
            let wrong = Malformed { at: 0, expected: "an index among the sections" };
            return Err(in_section(handle)(wrong));
        };
        // Never compressed: they cannot say that they are larger than they are.
        let index = Index::decode(&section(handle, raw_max.min(handle.len))?)
            .map_err(in_section(handle))?;
        let parts = properties.sections.filter_parts;
        let blocks_end = parts.map_or(tail.footer.tail_offset, |parts| parts.offset);
        let parts_end = parts.map_or(blocks_end, |parts| parts.offset + parts.len());
        if index.end() != blocks_end
            || parts_end != tail.footer.tail_offset
            || index.count() as u64 != properties.data_blocks
        {
            let wrong = Malformed { at: 0, expected: "an index of all data blocks" };
            return Err(in_section(handle)(wrong));
        }
        // Blocks that do not shrink are stored as they are, so none is longer; and none is read into more
        // memory than this.
        if index.block_len_max() > raw_max.saturating_add(BLOCK_TRAILER_BYTES as u64) {
            let wrong = Malformed { at: 0, expected: "blocks no longer than the longest" };
            return Err(in_section(handle)(wrong));
        }
        let filter = match (parts, properties.sections.filter) {
            (Some(parts), _) if cache.has_room_to_pin(parts.bytes()) => {
                Filtering::Pinned(read_filter(&*file, ident, parts)?)
            }
            (Some(parts), _) => Filtering::InParts(parts),
            (None, Some(handle)) => Filter::decode(&section(handle, raw_max.min(handle.len))?)
                .map_err(in_section(handle))?
                .map_or(Filtering::None, Filtering::Pinned),
            (None, None) => Filtering::None,
        };
        let ranges = match properties.sections.range_deletes {
            Some(handle) => decode_ranges(section(handle, raw_max.min(handle.len))?, global)
                .map_err(in_section(handle))?,
            None => Vec::new(),
        };
        if let Some(handle) = properties.sections.attachments {
            // Kept by nobody: all names of a collection in every one of its tables.
            check_block(stored(handle)?, ident, handle.offset).map_err(in_section(handle))?;
        }
        let small: usize = ranges.iter().map(|r| r.start.len() + r.end.len() + 80).sum();
        let pinned = match &filter {
            Filtering::Pinned(filter) => filter.bytes(),
            Filtering::InParts(_) | Filtering::None => 0,
        };
        let resident_bytes = index.bytes() + pinned + (small + size_of::<Self>()) as u64;
        cache.pin(resident_bytes);
        Ok(Arc::new(Self {
            ident,
            index,
            filter,
            properties,
            footer: tail.footer,
            ranges,
            meta: meta.cloned(),
            global,
            cache: Arc::clone(cache),
            cache_number: cache.number_table(),
            resident_bytes,
            file,
        }))
    }

    /// Visits the entries of `key` with a SeqNo of at most `at`, newest first, until `visit` breaks
    /// off or none is left. `remixed_hash` is that of the key with the seed of its keyspace. Values
    /// share the memory of their block.
    ///
    /// Cost when the block is cached: a filter probe, a binary search of the index in memory, a
    /// cache hit, a search for one byte in the block.
    ///
    /// # Errors
    /// Corruption, or what reading the file answers.
    #[inline]
    pub fn get(
        &self,
        key: &[u8],
        remixed_hash: u64,
        at: SeqNo,
        visit: &mut dyn FnMut(Trailer, Slice) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.properties.filter_key == 0 && !self.may_contain(remixed_hash)? {
            return Ok(());
        }
        let Some(mut number) = self.index.find(key, at) else {
            return Ok(());
        };
        loop {
            let block = self.block(number, true)?;
            let more = block
                .visit(key, remixed_hash, at, visit)
                .map_err(|wrong| self.wrong_in_block(number, wrong))?;
            number += 1;
            let goes_on = more == Some(true)
                && number < self.index.count()
                && self.index.continued(number).is_some();
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Whether the filter allows that something with this remixed hash is there; true without a
    /// filter. The hash is that of the key, or of its part if the table has another
    /// [`crate::FilterKey`] than the whole key. A filter that is not in memory costs a look into the cache, or a
    /// read of 16 KiB.
    ///
    /// # Errors
    /// Corruption of the filter, or what reading the file answers.
    #[inline]
    pub fn may_contain(&self, remixed_hash: u64) -> Result<bool> {
        match &self.filter {
            Filtering::None => Ok(true),
            Filtering::Pinned(filter) => Ok(filter.may_contain(remixed_hash)),
            Filtering::InParts(parts) => self.ask_part(*parts, remixed_hash),
        }
    }

    fn ask_part(&self, parts: FilterParts, hash: u64) -> Result<bool> {
        let number = parts.part_of(hash);
        let key = self.part_key(number);
        if let Some(part) = self.cache.get_uncounted(key) {
            return Ok(parts.may_contain(part.bytes(), hash));
        }
        let handle = parts.handle(number);
        let buffers = self.cache.buffers();
        let mut stored = buffers.take(handle.len as usize);
        self.file.read_block_at(&mut stored, handle.offset)?;
        let (path, raw_max) = (self.file.path(), handle.len as usize);
        let raw = open_owned_block(stored, self.ident, handle.offset, raw_max, path, buffers)?;
        let part = Block::opaque(Slice::from_owner(raw));
        let answer = parts.may_contain(part.bytes(), hash);
        self.cache.insert(key, part);
        Ok(answer)
    }

    /// Parts of the filter are numbered from above, blocks from below.
    const fn part_key(&self, number: u32) -> BlockKey {
        BlockKey { table: self.cache_number, block: u32::MAX - number }
    }

    /// Its range deletes, by start, then newest first; they may overlap.
    #[inline]
    pub fn range_deletes(&self) -> &[RangeDelete] {
        &self.ranges
    }

    /// Its attachments, by id: a read of the file.
    ///
    /// # Errors
    /// Corruption, or what reading the file answers.
    pub fn attachments(&self) -> Result<Vec<(u32, Slice)>> {
        let Some(handle) = self.properties.sections.attachments else { return Ok(Vec::new()) };
        let path = self.file.path();
        let raw = self.read_section(handle)?;
        decode_attachments(raw).map_err(|wrong| wrong.in_file(path.display(), handle.offset))
    }

    /// The sample of its keys: a read of the file. `None` of a table that was written without one.
    ///
    /// # Errors
    /// Corruption, or what reading the file answers.
    pub fn sample(&self) -> Result<Option<Sample>> {
        let Some(shift) = self.properties.sample_shift else { return Ok(None) };
        let Some(handle) = self.properties.sections.sample else {
            // No key of it was chosen.
            let none = Sample::decode(&[0], shift, None);
            return none.map(Some).map_err(|wrong| wrong.in_file(self.file.path().display(), 0));
        };
        let raw = self.read_section(handle)?;
        let sample = Sample::decode(&raw, shift, self.global);
        sample.map(Some).map_err(|wrong| wrong.in_file(self.file.path().display(), handle.offset))
    }

    /// The bytes of a small section, read from the file.
    fn read_section(&self, handle: Handle) -> Result<Vec<u8>> {
        let path = self.file.path();
        let is_inside = handle.end().is_some_and(|end| end <= self.file.len());
        if !is_inside || handle.len > TAIL_BYTES_MAX {
            let wrong = Malformed { at: 0, expected: "a section within the tail" };
            return Err(wrong.in_file(path.display(), handle.offset));
        }
        let mut stored = vec![0; handle.len as usize];
        self.file.read_exact_at(&mut stored, handle.offset)?;
        let raw_max = (self.raw_max() as u64).min(section_raw_max(handle.len)) as usize;
        open_block(&stored, self.ident, handle.offset, raw_max, path, |len| vec![0; len])
    }

    /// What the file says of itself.
    pub const fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The number in its file name.
    pub const fn number(&self) -> FileNumber {
        self.ident.number
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.file.len()
    }

    /// Bytes it keeps in memory, counted by [`BlockCache::pinned_bytes`] until it is dropped.
    pub const fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }

    /// Drops its blocks from the cache: for a table that a compaction replaced.
    pub fn forget_blocks(&self) {
        for number in 0..self.index.count() {
            self.cache.remove(self.cache_key(number));
        }
        if let Filtering::InParts(parts) = &self.filter {
            (0..parts.count()).for_each(|number| self.cache.remove(self.part_key(number)));
        }
    }

    #[inline]
    const fn cache_key(&self, number: usize) -> BlockKey {
        // An index counts its blocks in 32 bits.
        BlockKey { table: self.cache_number, block: number as u32 }
    }

    /// Block `number` from the cache, or from the file and then into the cache if `fill`.
    #[inline]
    pub(crate) fn block(&self, number: usize, fill: bool) -> Result<Block> {
        match self.cached_block(number, true) {
            Some(block) => Ok(block),
            None => self.read_block(number, fill),
        }
    }

    #[inline]
    pub(crate) fn cached_block(&self, number: usize, counts: bool) -> Option<Block> {
        let key = self.cache_key(number);
        if counts { self.cache.get(key) } else { self.cache.peek(key) }
    }

    /// Block `number`, which is not in the cache.
    #[cold]
    pub(crate) fn read_block(&self, number: usize, fill: bool) -> Result<Block> {
        let handle = self.index.handle(number);
        let buffers = self.cache.buffers();
        let mut stored = buffers.take(handle.len as usize);
        self.file.read_block_at(&mut stored, handle.offset)?;
        let (raw_max, path) = (self.raw_max(), self.file.path());
        let raw = open_owned_block(stored, self.ident, handle.offset, raw_max, path, buffers)?;
        self.new_block(number, raw, fill)
    }

    /// Block `number` from its stored bytes.
    pub(crate) fn open_stored(&self, number: usize, stored: &[u8], fill: bool) -> Result<Block> {
        let offset = self.index.handle(number).offset;
        let path = self.file.path();
        let raw = open_block(stored, self.ident, offset, self.raw_max(), path, |len| {
            self.cache.buffers().take(len)
        })?;
        self.new_block(number, raw, fill)
    }

    fn raw_max(&self) -> usize {
        self.properties.block_bytes_max.min(BLOCK_RAW_MAX as u64) as usize
    }

    fn new_block(&self, number: usize, raw: Buffer, fill: bool) -> Result<Block> {
        let block = Block::new(Slice::from_owner(raw), self.global)
            .map_err(|wrong| self.wrong_in_block(number, wrong))?;
        if fill {
            self.cache.insert(self.cache_key(number), block.clone());
        }
        Ok(block)
    }

    /// The error that block `number` holds something `wrong`.
    #[cold]
    pub(crate) fn wrong_in_block(&self, number: usize, wrong: Malformed) -> Error {
        let offset = self.index.handle(number).offset;
        Error::corruption(
            self.file.path().display(),
            offset,
            format_args!("block {number}, byte {}: expected {}", wrong.at, wrong.expected),
        )
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.cache.unpin(self.resident_bytes);
    }
}

/// `000042 [a..m] #3..#9 120 entries 2.1 MiB zstd 1`
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

/// Reads a whole filter: all its parts by one read.
fn read_filter(file: &dyn ReadFile, ident: TableIdent, parts: FilterParts) -> Result<Filter> {
    let mut stored = vec![0; parts.len() as usize];
    file.read_exact_at(&mut stored, parts.offset)?;
    let mut bytes = Vec::with_capacity(parts.bytes() as usize);
    for number in 0..parts.count() {
        let handle = parts.handle(number);
        let at = (handle.offset - parts.offset) as usize;
        let part = &stored[at..at + handle.len as usize];
        let raw_max = part.len();
        let raw: Vec<u8> =
            open_block(part, ident, handle.offset, raw_max, file.path(), |len| vec![0; len])?;
        if raw.len() + BLOCK_TRAILER_BYTES != part.len() {
            let wrong = Malformed { at: 0, expected: "a part of a filter, stored plain" };
            return Err(wrong.in_file(file.path().display(), handle.offset));
        }
        bytes.extend_from_slice(&raw);
    }
    Ok(Filter::from_bytes(&bytes))
}

/// The end of a file in memory, from some offset on, and the footer in it.
pub(crate) struct Tail {
    offset: u64,
    bytes: Vec<u8>,
    pub(crate) footer: Footer,
}

/// Reads the end of `file`: `tail_bytes` if known, else a guess, and the footer in it.
pub(crate) fn read_tail(file: &dyn ReadFile, tail_bytes: Option<u64>) -> Result<Tail> {
    let len = file.len();
    if len < FILE_BYTES_MIN {
        return Err(Error::corruption(
            file.path().display(),
            len,
            format_args!("{len} bytes: expected a table of at least {FILE_BYTES_MIN}"),
        ));
    }
    let bytes = tail_bytes.unwrap_or(TAIL_GUESS_BYTES).clamp(FOOTER_BYTES as u64, TAIL_BYTES_MAX);
    let offset = len.saturating_sub(bytes);
    let mut tail = vec![0; (len - offset) as usize];
    file.read_exact_at(&mut tail, offset)?;
    let footer = Footer::decode(&tail[tail.len() - FOOTER_BYTES..], len)
        .map_err(|wrong| wrong.in_file(file.path().display(), len - FOOTER_BYTES as u64))?;
    Ok(Tail { offset, bytes: tail, footer })
}

impl Tail {
    /// Reads what is missing of the tail that the footer tells of.
    pub(crate) fn complete(mut self, file: &dyn ReadFile) -> Result<Self> {
        let wanted = self.footer.tail_offset;
        if wanted >= self.offset {
            return Ok(self);
        }
        if file.len() - wanted > TAIL_BYTES_MAX {
            let wrong = Malformed { at: 0, expected: "a tail of at most 2 GiB" };
            return Err(wrong.in_file(file.path().display(), wanted));
        }
        let mut bytes = vec![0; (self.offset - wanted) as usize];
        file.read_exact_at(&mut bytes, wanted)?;
        bytes.append(&mut self.bytes);
        Ok(Self { offset: wanted, bytes, footer: self.footer })
    }

    /// The stored bytes of the section at `handle`.
    pub(crate) fn part(&self, handle: Handle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        let end = usize::try_from(handle.end()?.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableBuilder, TableOptions};
    use flagstone_base::hash::{key_hash, remix};
    use flagstone_base::{Compression, DatabaseId, EntryRef, Kind};
    use flagstone_env::{Disk, MemDisk};

    #[test]
    fn the_memory_of_a_block_waits_for_the_next_when_nobody_holds_it() {
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
                        held = Some(value);
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
