//! Opens a table: reads its tail, and as much of index and filter as memory allows.

use crate::cache::{BlockCache, CachePin, PinnedDictionary};
use crate::filter::Filter;
use crate::format::{BLOCK_RAW_MAX, BLOCK_TRAILER_BYTES, FILE_BYTES_MIN, FOOTER_BYTES, Footer};
use crate::format::{TAIL_BYTES_MAX, plain};
use crate::format::{check_block, open_block};
use crate::index::Index;
use crate::index_parts::{IndexParts, TableIndex};
use crate::meta::TableMeta;
use crate::options::{INDEX_PART_BLOCKS_MAX, TableIdent};
use crate::properties::{FilterParts, Handle, Properties};
use crate::ranges::check_ranges;
use crate::table::{Filtering, Table};
use flagstone_base::{Error, Malformed, Result};
use flagstone_env::ReadFile;
use std::sync::Arc;

/// The bytes read first from the end of a file whose tail length is not known.
const TAIL_GUESS_BYTES: u64 = 64 << 10;
/// An index of one section that takes at most this much memory stays resident: as the only part of
/// an index in parts it would take more.
const INDEX_BYTES_KEPT: u64 = 512;

impl Table {
    /// Opens the table in `file`, whose identity must be `ident` with the salt in `meta`. Reads the
    /// tail: one read if `meta` (the result of [`crate::TableBuilder::finish`]) is given, otherwise
    /// one or two. Index and filter take one more read each if the budget of the cache allows
    /// keeping them in memory. Together they are 1.1% of a table of 100-byte values
    /// (`benches/table.rs`).
    ///
    /// # Errors
    /// Corruption if the file is damaged, cut short, or another table; Unsupported for a newer
    /// format; any error of reading the file.
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
        let salt = meta.map_or(tail.footer.label.salt, |meta| meta.salt);
        let ident = TableIdent { salt, ..ident };
        tail.footer.label.check(path.display(), ident)?;
        let tail = tail.complete(&*file)?;
        OpeningTable { file, ident, tail: &tail, meta, cache, pin: CachePin::new(cache) }.open()
    }
}

/// A table that is being opened, after its tail was read.
struct OpeningTable<'a> {
    file: Arc<dyn ReadFile>,
    ident: TableIdent,
    tail: &'a Tail,
    meta: Option<&'a TableMeta>,
    cache: &'a Arc<BlockCache>,
    pin: CachePin,
}

impl OpeningTable<'_> {
    fn open(mut self) -> Result<Arc<Table>> {
        let global = self.meta.and_then(|meta| meta.global_seqno);
        let handle = self.tail.footer.properties;
        let properties = Properties::decode(&self.section(handle, handle.len)?)
            .map_err(|wrong| wrong.in_file(self.file.path().display(), handle.offset))?;
        let raw_max = properties.block_bytes_max.min(BLOCK_RAW_MAX as u64);
        let index = self.index(&properties, raw_max)?;
        let filter = self.filter(&properties, raw_max)?;
        let dictionary = self.dictionary(&properties)?;
        if let Some(handle) = properties.sections.range_deletes {
            // Range deletes are only checked here. A reader that needs them reads them again and
            // keeps them in its own form.
            let section = plain(self.stored(handle)?, self.ident, handle);
            section.and_then(check_ranges).map_err(|wrong| self.wrong(handle, wrong))?;
        }
        if let Some(handle) = properties.sections.attachments {
            // Attachments are only checked here: every table of a collection has all names of the
            // collection.
            check_block(self.stored(handle)?, self.ident, handle.offset)
                .map_err(|wrong| self.wrong(handle, wrong))?;
        }
        let meta = self.meta.cloned();
        self.pin.add(small_bytes([Some(&properties.content), meta.as_ref()]));
        Ok(Arc::new(Table {
            ident: self.ident,
            index,
            filter,
            dictionary,
            properties,
            footer: self.tail.footer,
            meta,
            global,
            cache: Arc::clone(self.cache),
            cache_number: self.cache.number_table(),
            pin: self.pin,
            file: self.file,
        }))
    }

    /// Prepares the dictionary. Whatever the memory allows: no block is read without it.
    fn dictionary(&self, properties: &Properties) -> Result<Option<Arc<PinnedDictionary>>> {
        let Some(handle) = properties.sections.dictionary else { return Ok(None) };
        let dictionary = plain(self.stored(handle)?, self.ident, handle).and_then(|bytes| {
            let shared = self.cache.dictionary(bytes);
            shared.ok_or(Malformed { at: 0, expected: "a dictionary of zstd" })
        });
        dictionary.map(Some).map_err(|wrong| self.wrong(handle, wrong))
    }

    /// Returns the stored bytes of a section.
    fn stored(&self, handle: Handle) -> Result<&[u8]> {
        self.tail.part(handle).ok_or_else(|| {
            self.wrong(handle, Malformed { at: 0, expected: "a section within the tail" })
        })
    }

    /// Decompresses a section of at most `raw_max` bytes. For a section that is never compressed,
    /// the caller passes its stored length, so the section cannot claim to be larger.
    fn section(&self, handle: Handle, raw_max: u64) -> Result<Vec<u8>> {
        let stored = self.stored(handle)?;
        let raw_max = raw_max.min(BLOCK_RAW_MAX as u64) as usize;
        let path = self.file.path();
        open_block(stored, self.ident, handle.offset, raw_max, path, |len| vec![0; len])
    }

    #[cold]
    fn wrong(&self, handle: Handle, wrong: Malformed) -> Error {
        wrong.in_file(self.file.path().display(), handle.offset)
    }

    fn index(&mut self, properties: &Properties, raw_max: u64) -> Result<TableIndex> {
        let sections = &properties.sections;
        let Some(handle) = sections.index else {
            let wrong = Malformed { at: 0, expected: "an index among the sections" };
            return Err(self.wrong(self.tail.footer.properties, wrong));
        };
        let section = self.section(handle, raw_max.min(handle.len))?;
        let index = match sections.index_parts {
            None => Index::decode(&section).map(TableIndex::Resident),
            Some(_) => IndexParts::decode(&section).map(TableIndex::InParts),
        };
        let index = index.map_err(|wrong| self.wrong(handle, wrong))?;
        self.check_places(properties, &index).map_err(|wrong| self.wrong(handle, wrong))?;
        let index = match index {
            TableIndex::InParts(parts) => self.parts_or_whole(parts)?,
            TableIndex::Resident(index) => self.whole_or_part(index, handle),
        };
        // A block that does not shrink is stored uncompressed, so no block may be longer than this,
        // or be read into more memory.
        if let TableIndex::Resident(index) = &index
            && index.block_len_max() > raw_max.saturating_add(BLOCK_TRAILER_BYTES as u64)
        {
            let wrong = Malformed { at: 0, expected: "blocks no longer than the longest" };
            return Err(self.wrong(handle, wrong));
        }
        Ok(index)
    }

    /// Checks that data blocks, filter parts, index parts and tail follow one another without a
    /// gap.
    fn check_places(&self, properties: &Properties, index: &TableIndex) -> Result<(), Malformed> {
        let sections = &properties.sections;
        let tail_offset = self.tail.footer.tail_offset;
        let index_parts = match (sections.index_parts, index) {
            (Some(told), TableIndex::InParts(parts)) => {
                if told != parts.place() || told.end() != Some(tail_offset) {
                    return Err(Malformed { at: 0, expected: "parts of the index up to the tail" });
                }
                told.offset
            }
            _ => tail_offset,
        };
        let filter = sections.filter_parts;
        let blocks_end = filter.map_or(index_parts, |parts| parts.offset);
        let filter_end = filter.map_or(blocks_end, |parts| parts.offset + parts.len());
        if index.end() != blocks_end
            || filter_end != index_parts
            || index.count() as u64 != properties.data_blocks
        {
            return Err(Malformed { at: 0, expected: "an index of all data blocks" });
        }
        Ok(())
    }

    /// If memory allows it, reads all parts at once and joins them to one index.
    fn parts_or_whole(&mut self, parts: IndexParts) -> Result<TableIndex> {
        let guess = parts.whole_memory();
        if !self.pin.try_add(guess) {
            return Ok(self.in_parts(parts));
        }
        let place = parts.place();
        let mut stored = vec![0; place.len as usize];
        self.file.read_exact_at(&mut stored, place.offset)?;
        let mut sections = Vec::with_capacity(parts.count());
        for number in 0..parts.count() {
            let handle = parts.handle(number);
            let at = (handle.offset - place.offset) as usize;
            let part = &stored[at..at + handle.len as usize];
            let section = plain(part, self.ident, handle);
            sections.push(section.map_err(|wrong| self.wrong(handle, wrong))?);
        }
        let index = parts
            .whole(&sections)
            .map_err(|(number, wrong)| self.wrong(parts.handle(number), wrong))?;
        self.pin.release(guess);
        if self.pin.try_add(index.bytes()) {
            return Ok(TableIndex::Resident(index));
        }
        Ok(self.in_parts(parts))
    }

    fn in_parts(&mut self, parts: IndexParts) -> TableIndex {
        let index = TableIndex::InParts(parts);
        self.pin.add(index.bytes());
        index
    }

    /// Keeps an index of one section, which was read with the tail, if memory allows it. Otherwise
    /// uses it as the only part of an index in parts.
    fn whole_or_part(&mut self, index: Index, handle: Handle) -> TableIndex {
        let bytes = index.bytes();
        if bytes > INDEX_BYTES_KEPT && !self.pin.try_add(bytes) {
            if let Some(parts) = IndexParts::of_whole(&index, handle, INDEX_PART_BLOCKS_MAX) {
                return self.in_parts(parts);
            }
            self.pin.add(bytes);
        } else if bytes <= INDEX_BYTES_KEPT {
            self.pin.add(bytes);
        }
        TableIndex::Resident(index)
    }

    fn filter(&mut self, properties: &Properties, raw_max: u64) -> Result<Filtering> {
        match (properties.sections.filter_parts, properties.sections.filter) {
            (Some(parts), _) if self.pin.try_add(parts.bytes()) => {
                Ok(Filtering::Pinned(read_filter(&*self.file, self.ident, parts)?))
            }
            (Some(parts), _) => Ok(Filtering::InParts(parts)),
            (None, Some(handle)) => {
                let filter = Filter::decode(&self.section(handle, raw_max.min(handle.len))?)
                    .map_err(|wrong| self.wrong(handle, wrong))?;
                Ok(filter.map_or(Filtering::None, |filter| {
                    self.pin.add(filter.bytes());
                    Filtering::Pinned(filter)
                }))
            }
            (None, None) => Ok(Filtering::None),
        }
    }
}

/// Bytes that an open table holds in memory besides index, filter and dictionary.
fn small_bytes(contents: [Option<&TableMeta>; 2]) -> u64 {
    let bounds = |meta: &TableMeta| meta.smallest.capacity() + meta.largest.capacity();
    let bounds: usize = contents.into_iter().flatten().map(bounds).sum();
    (bounds + size_of::<Table>()) as u64
}

/// Reads all parts of a filter with one read.
fn read_filter(file: &dyn ReadFile, ident: TableIdent, parts: FilterParts) -> Result<Filter> {
    let mut stored = vec![0; parts.len() as usize];
    file.read_exact_at(&mut stored, parts.offset)?;
    let mut bytes = Vec::with_capacity(parts.bytes() as usize);
    for number in 0..parts.count() {
        let handle = parts.handle(number);
        let at = (handle.offset - parts.offset) as usize;
        let part = &stored[at..at + handle.len as usize];
        let part = plain(part, ident, handle);
        bytes.extend_from_slice(
            part.map_err(|wrong| wrong.in_file(file.path().display(), handle.offset))?,
        );
    }
    Ok(Filter::from_bytes(&bytes))
}

/// The end of a file from `offset` on, and the footer decoded from it.
pub(crate) struct Tail {
    offset: u64,
    bytes: Vec<u8>,
    pub(crate) footer: Footer,
}

/// Reads the last `tail_bytes` of `file`, or a guess if not known, and decodes the footer.
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
    /// Reads the part of the tail that was not read yet.
    pub(crate) fn complete(self, file: &dyn ReadFile) -> Result<Self> {
        let wanted = self.footer.tail_offset;
        if wanted >= self.offset {
            return Ok(self);
        }
        if file.len() - wanted > TAIL_BYTES_MAX {
            let wrong = Malformed { at: 0, expected: "a tail of at most 2 GiB" };
            return Err(wrong.in_file(file.path().display(), wanted));
        }
        let mut bytes = vec![0; (file.len() - wanted) as usize];
        let (missing, known) = bytes.split_at_mut((self.offset - wanted) as usize);
        file.read_exact_at(missing, wanted)?;
        known.copy_from_slice(&self.bytes);
        Ok(Self { offset: wanted, bytes, footer: self.footer })
    }

    /// Returns the stored bytes at `handle`, or `None` if they are not within the bytes read.
    pub(crate) fn part(&self, handle: Handle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        let end = usize::try_from(handle.end()?.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..end)
    }
}
