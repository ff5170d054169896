//! Writes a table: entries in order, then the sections, then the footer.

use crate::block::{BlockBuilder, check_entries};
use crate::compressibility::Compressibility;
use crate::expiries::ExpirySampler;
use crate::filter::Filter;
use crate::format::{BLOCK_RAW_MAX, FOOTER_BYTES, Footer, HEADER_BYTES};
use crate::format::{DICTIONARY, EXPIRIES, INDEX_IN_PARTS};
use crate::format::{TableLabel, encode_header, seal_block, section_raw_max};
use crate::index_builder::{BuiltIndex, IndexBuilder};
use crate::learned::{BLOCK_PART, Dictionary, HeldBlock, Learned, choose, short_block_bytes};
use crate::meta::TableMeta;
use crate::options::{BuilderOptions, TableIdent};
use crate::output::Output;
use crate::properties::{FilterParts, Handle, Properties, Sections};
use crate::ranges::{RangeDelete, RangesBuilder, encode_attachments};
use crate::sample::Sampler;
use flagstone_base::bytes::order;
use flagstone_base::compress::Packing;
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::key::{check_key, check_value};
use flagstone_base::{Compression, EntryCheck, EntryRef, Error, Kind, Result, SeqNo};
use flagstone_env::WriteFile;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

/// Writes one table.
///
/// Memory: a block or two (until a dictionary is chosen, the blocks of its sample, and 10 MiB while
/// one is trained), the gathered output (256 KiB, and as much again for each append that a
/// streamed file has queued), 8 bytes a distinct key for the filter, about 20 bytes a block for the
/// index, and the range deletes and attachments.
///
/// A builder that is dropped before [`TableBuilder::finish`], or after an error, leaves a file that
/// is not a table. The caller removes it.
pub struct TableBuilder {
    output: Output,
    ident: TableIdent,
    options: BuilderOptions,
    block: BlockBuilder,
    /// A block ends before it is longer than this.
    block_bytes: usize,
    /// What is known about dictionaries, and the one of this table once it is chosen.
    learned: Learned,
    dictionary: Option<Arc<Dictionary>>,
    /// The blocks by which a dictionary will be chosen, and their bytes. `None` once it is chosen,
    /// or if there will be none.
    sample: Option<(Vec<HeldBlock>, usize)>,
    /// The checks of the entries in `block`; empty if the options turn checks off.
    checks: Vec<EntryCheck>,
    stored: Vec<u8>,
    compressibility: Compressibility,
    index: IndexBuilder,
    /// The first key of the current block and its SeqNo, and the last key before that block.
    block_first: (Vec<u8>, SeqNo),
    block_before: Option<Vec<u8>>,
    last: Option<(Vec<u8>, SeqNo)>,
    /// The hash of the last key, plain and remixed, and the remixed hashes for the filter.
    last_key_hash: u64,
    last_hash: u64,
    filter_hashes: Vec<u64>,
    filter_last: Vec<u8>,
    sampler: Sampler,
    expiries: ExpirySampler,
    ranges: RangesBuilder,
    attachments: BTreeMap<u32, Vec<u8>>,
    properties: Properties,
}

impl TableBuilder {
    /// Begins a table in the new file `file`. `ident` becomes its identity.
    ///
    /// # Errors
    /// InvalidInput for options out of their limits; any error of appending to the file.
    pub fn new(
        file: Box<dyn WriteFile>,
        ident: TableIdent,
        options: impl Into<BuilderOptions>,
    ) -> Result<Self> {
        let options = options.into();
        options.check()?;
        let mut output = Output::new(file);
        output.append(&encode_header(ident))?;
        let content = TableMeta {
            number: ident.number,
            seqno_min: SeqNo::MAX,
            seqno_max: SeqNo::ZERO,
            compression: Some(options.compression()),
            ..TableMeta::default()
        };
        let properties = Properties {
            content,
            keyspace: options.keyspace,
            owner: options.owner,
            tree: options.tree,
            hash_seed: options.hash_seed,
            filter_key: options.filter_key.id,
            ..Properties::default()
        };
        let index = IndexBuilder::new(HEADER_BYTES as u64, options.index_part_blocks);
        let (tables, sample) = (options.tables, options.dictionary_level().map(|_| <_>::default()));
        let block_bytes = match sample {
            Some(_) => short_block_bytes(tables.block_bytes),
            None => tables.block_bytes,
        };
        Ok(Self {
            output,
            ident,
            options,
            block: BlockBuilder::default(),
            block_bytes,
            learned: Learned::Nothing,
            dictionary: None,
            sample,
            checks: Vec::new(),
            stored: Vec::new(),
            compressibility: Compressibility::default(),
            index,
            block_first: (Vec::new(), SeqNo::ZERO),
            block_before: None,
            last: None,
            last_key_hash: 0,
            last_hash: 0,
            filter_hashes: Vec::new(),
            filter_last: Vec::new(),
            sampler: Sampler::default(),
            expiries: ExpirySampler::default(),
            ranges: RangesBuilder::default(),
            attachments: BTreeMap::new(),
            properties,
        })
    }

    /// Tells the builder what the table before, of the same keys, has taught about dictionaries. To
    /// be called before the first entry.
    pub fn learn(&mut self, learned: Learned) {
        if matches!(learned, Learned::Unhelpful) && self.is_empty() {
            (self.sample, self.block_bytes) = (None, self.options.tables.block_bytes);
        }
        self.learned = learned;
    }

    /// What is known about dictionaries now, for the next table.
    pub fn learned(&self) -> Learned {
        self.learned.clone()
    }

    /// Adds a put, delete or merge operand. Entries must come strictly in [`EntryRef::order`].
    ///
    /// # Errors
    /// InvalidInput for an entry out of order (which includes the same key and SeqNo again), a
    /// range delete, or a key or value beyond its limit; any error of appending to the file;
    /// Corruption as in [`TableBuilder::add_checked`].
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        self.add_checked(entry, None)
    }

    /// As [`TableBuilder::add`]. `check` is the check that the entry has carried since it was
    /// written, including its SeqNo. Without one, the check is computed here. Before a block is
    /// appended to the file, its entries are compared with their checks.
    ///
    /// # Errors
    /// As [`TableBuilder::add`]; Corruption if an entry of a full block changed in memory.
    pub fn add_checked(&mut self, entry: EntryRef<'_>, check: Option<EntryCheck>) -> Result<()> {
        let position = match &self.last {
            Some((key, _)) => order(key, entry.key),
            None => Ordering::Less,
        };
        match (position, &self.last) {
            (Ordering::Less, _) => check_key(entry.key)?,
            (Ordering::Equal, Some((_, seqno))) if entry.seqno() < *seqno => {}
            _ => {
                self.check_changed(&entry, check)?;
                return Err(out_of_order(entry));
            }
        }
        let new_key = position == Ordering::Less;
        check_value(entry.value)?;
        if entry.kind() == Kind::RangeDelete {
            return Err(Error::invalid("a range delete among the entries of a table"));
        }
        if new_key {
            self.hash(entry.key);
        }
        let size = entry.key.len() + entry.value.len() + 16;
        if !self.block.is_empty() && self.block.bytes_estimated() + size > self.block_bytes {
            self.finish_block()?;
        }
        if self.block.is_empty() {
            self.block_first.0.clear();
            self.block_first.0.extend_from_slice(entry.key);
            self.block_first.1 = entry.seqno();
        }
        self.block.add(entry, self.last_hash);
        if self.options.entry_checks {
            let computed = || self.check_of(&entry);
            self.checks.push(check.unwrap_or_else(computed));
        }
        self.sampler.offer(entry, self.last_hash, new_key);
        self.count(entry, new_key);
        match &mut self.last {
            Some((key, seqno)) => {
                if new_key {
                    key.clear();
                    key.extend_from_slice(entry.key);
                }
                *seqno = entry.seqno();
            }
            None => {
                self.properties.content.smallest = entry.key.to_vec();
                self.last = Some((entry.key.to_vec(), entry.seqno()));
            }
        }
        Ok(())
    }

    /// Hashes a new key for its block and for the filter.
    fn hash(&mut self, key: &[u8]) {
        let seed = self.options.hash_seed;
        self.last_key_hash = key_hash(key, seed);
        self.last_hash = remix(self.last_key_hash);
        if self.options.tables.filter_bits == 0 {
            return;
        }
        if self.options.filter_key.id == 0 {
            self.filter_hashes.push(self.last_hash);
            return;
        }
        let part = (self.options.filter_key.extract)(key);
        if self.filter_hashes.is_empty() || part != self.filter_last {
            self.filter_hashes.push(remix(key_hash(part, seed)));
            self.filter_last.clear();
            self.filter_last.extend_from_slice(part);
        }
    }

    /// Computes the check of an entry of the last key.
    fn check_of(&self, entry: &EntryRef<'_>) -> EntryCheck {
        EntryCheck::of_trailer(self.last_key_hash, entry.trailer, entry.value)
    }

    /// Returns Corruption if the order is wrong because an entry changed in memory, so that the
    /// caller is not blamed.
    #[cold]
    fn check_changed(&self, entry: &EntryRef<'_>, check: Option<EntryCheck>) -> Result<()> {
        let seed = self.options.hash_seed;
        if !self.options.entry_checks {
            return Ok(());
        }
        if let Some(check) = check {
            check.verify(entry, seed)?;
        }
        match self.block.is_empty() {
            true => Ok(()),
            false => check_entries(self.block.clone().finish(), &self.checks, seed),
        }
    }

    fn count(&mut self, entry: EntryRef<'_>, new_key: bool) {
        let content = &mut self.properties.content;
        content.entries += 1;
        content.older_versions += u64::from(!new_key);
        match entry.kind() {
            Kind::Delete => content.deletes += 1,
            Kind::Merge => content.merges += 1,
            Kind::Put => entry.trailer.expiry().into_iter().for_each(|at| self.expiries.add(at)),
            Kind::RangeDelete => {}
        }
        content.key_bytes_raw += entry.key.len() as u64;
        content.value_bytes_raw += entry.value.len() as u64;
        content.seqno_min = content.seqno_min.min(entry.seqno());
        content.seqno_max = content.seqno_max.max(entry.seqno());
    }

    /// Adds a range delete: as of `seqno` the keys from `start` up to `end` (exclusive) are absent.
    /// Range deletes may come in any order, best by start, then newest first. Their bytes stay in
    /// memory until the table is finished.
    ///
    /// # Errors
    /// InvalidInput for an empty range, or a bound longer than a key may be.
    pub fn add_range_delete(&mut self, start: &[u8], end: &[u8], seqno: SeqNo) -> Result<()> {
        if !start.is_empty() {
            check_key(start)?;
        }
        check_key(end)?;
        if start >= end {
            return Err(Error::invalid(format!(
                "a range delete from {} to {}: expected the start below the end",
                start.escape_ascii(),
                end.escape_ascii()
            )));
        }
        self.ranges.add(RangeDelete { start, end, seqno });
        let content = &mut self.properties.content;
        content.range_deletes += 1;
        content.seqno_min = content.seqno_min.min(seqno);
        content.seqno_max = content.seqno_max.max(seqno);
        Ok(())
    }

    /// Attaches opaque bytes to the table. The same `id` again replaces them.
    pub fn attach(&mut self, id: u32, bytes: &[u8]) {
        self.attachments.insert(id, bytes.to_vec());
    }

    /// Estimates the length of the file if it were finished now, without its attachments, which do
    /// not count towards the size of a table.
    pub fn bytes_estimated(&self) -> u64 {
        let filter =
            self.filter_hashes.len() as u64 * u64::from(self.options.tables.filter_bits) / 8;
        let held = self.sample.as_ref().map_or(0, |(_, bytes)| bytes / BLOCK_PART);
        let dictionary = self.dictionary.as_ref().map_or(0, |it| it.packer().bytes().len());
        let blocks = held + self.block.bytes_estimated();
        let rest = blocks + dictionary + self.index.bytes() + self.ranges.bytes() + 400;
        self.output.position() + filter + rest as u64
    }

    /// The number of entries added, without range deletes.
    pub const fn entries(&self) -> u64 {
        self.properties.content.entries
    }

    /// The number of range deletes added.
    pub const fn range_deletes(&self) -> u64 {
        self.properties.content.range_deletes
    }

    /// Returns whether neither an entry nor a range delete was added.
    pub const fn is_empty(&self) -> bool {
        self.entries() == 0 && self.range_deletes() == 0
    }

    /// The last key added.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.last.as_ref().map(|(key, _)| key.as_slice())
    }

    fn finish_block(&mut self) -> Result<()> {
        let last = self.last.take();
        let done = self.end_block(last.as_ref().map_or(&[], |(key, _)| key));
        self.last = last;
        done
    }

    /// Ends the current block, whose last key is `last`: writes it, or adds it to the sample.
    fn end_block(&mut self, last: &[u8]) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (mut checks, first) = (take(&mut self.checks), take(&mut self.block_first));
        if let Some((sample, bytes)) = &mut self.sample {
            let raw = self.block.take();
            *bytes += raw.len();
            sample.push(HeldBlock { raw, checks, first, last: last.to_vec() });
            let is_full = *bytes >= self.options.dictionary_sample_bytes;
            return if is_full { self.choose_dictionary() } else { Ok(()) };
        }
        let mut block = take(&mut self.block);
        let done = self.write_block(block.finish(), &checks, (&first.0, first.1), last);
        block.clear();
        checks.clear();
        (self.block, self.checks, self.block_first) = (block, checks, first);
        done
    }

    /// Writes a finished block, whose last key is `last`.
    fn write_block(
        &mut self,
        raw: &[u8],
        checks: &[EntryCheck],
        first: (&[u8], SeqNo),
        last: &[u8],
    ) -> Result<()> {
        let raw_len = raw.len() as u64;
        let offset = self.output.position();
        let compression =
            self.compressibility.choose(self.options.compression(), raw, &mut self.stored);
        let packing = match (&self.dictionary, compression) {
            (Some(dictionary), Compression::Zstd(_)) => Packing::With(dictionary.packer()),
            _ => compression.into(),
        };
        let shrank = seal_block(raw, packing, self.ident, offset, &mut self.stored);
        self.compressibility.note(shrank);
        // The check comes after compression, so that it also finds a bit that flipped before or
        // during it.
        if self.options.entry_checks {
            check_entries(raw, checks, self.options.hash_seed)?;
        }
        self.output.append(&self.stored)?;
        self.properties.data_blocks += 1;
        self.properties.data_bytes_raw += raw_len;
        self.properties.block_bytes_max = self.properties.block_bytes_max.max(raw_len);
        let len = self.stored.len() as u64;
        if self.stored.capacity() > 4 << 20 {
            let stored = take(&mut self.stored).capacity();
            flagstone_env::os::freed(stored);
        }
        self.index.add(len, first, self.block_before.as_deref());
        let before = self.block_before.get_or_insert_default();
        before.clear();
        before.extend_from_slice(last);
        Ok(())
    }

    /// Chooses a dictionary by the sample, or none, and writes the blocks of the sample.
    fn choose_dictionary(&mut self) -> Result<()> {
        let Some((sample, _)) = self.sample.take() else { return Ok(()) };
        if let Some(level) = self.options.dictionary_level() {
            self.learned = choose(&sample, &self.learned, level);
        }
        let Learned::Dictionary(dictionary) = &self.learned else { return self.join(&sample) };
        self.dictionary = Some(Arc::clone(dictionary));
        sample.into_iter().try_for_each(|block| {
            let first = (block.first.0.as_slice(), block.first.1);
            self.write_block(&block.raw, &block.checks, first, &block.last)
        })
    }

    /// Writes the entries of short blocks in blocks of the full length, because the table gets no
    /// dictionary. The last of these is the current block then.
    fn join(&mut self, sample: &[HeldBlock]) -> Result<()> {
        self.block_bytes = self.options.tables.block_bytes;
        let mut last = Vec::new();
        for held in sample {
            held.visit(|entry, fingerprint, check| {
                let size = entry.key.len() + entry.value.len() + 16;
                if self.block.bytes_estimated() + size > self.block_bytes {
                    self.end_block(&last)?;
                }
                if self.block.is_empty() {
                    self.block_first = (entry.key.to_vec(), entry.seqno());
                }
                self.block.add(entry, u64::from(fingerprint));
                self.checks.extend(check);
                last.clear();
                last.extend_from_slice(entry.key);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Writes one section after the data blocks.
    fn section(&mut self, raw: &[u8], compression: Compression) -> Result<Handle> {
        if raw.len() > BLOCK_RAW_MAX {
            return Err(Error::invalid(format!(
                "a section of a table has {} bytes: expected at most {BLOCK_RAW_MAX}",
                raw.len()
            )));
        }
        let offset = self.output.position();
        seal_block(raw, compression, self.ident, offset, &mut self.stored);
        if section_raw_max(self.stored.len() as u64) < raw.len() as u64 {
            seal_block(raw, Compression::None, self.ident, offset, &mut self.stored);
        }
        self.output.append(&self.stored)?;
        let largest = &mut self.properties.block_bytes_max;
        *largest = (*largest).max(raw.len() as u64);
        Ok(Handle { offset, len: self.stored.len() as u64 })
    }

    /// Writes the filter parts, directly after the data blocks.
    fn filter(&mut self) -> Result<Option<FilterParts>> {
        if self.filter_hashes.is_empty() {
            return Ok(None);
        }
        let filter = Filter::build(&self.filter_hashes, self.options.tables.filter_bits);
        self.filter_hashes = Vec::new();
        let (offset, blocks) = (self.output.position(), filter.blocks().len() as u32);
        for part in filter.parts() {
            self.section(&part, Compression::None)?;
        }
        Ok(Some(FilterParts { offset, blocks }))
    }

    /// Writes the parts of an index in parts, directly before the tail. Returns their place, and
    /// the section for the tail.
    fn index(&mut self) -> Result<(Option<Handle>, Vec<u8>)> {
        let next = IndexBuilder::new(HEADER_BYTES as u64, self.options.index_part_blocks);
        match std::mem::replace(&mut self.index, next).finish() {
            BuiltIndex::Whole(section) => Ok((None, section)),
            BuiltIndex::InParts { parts, top } => {
                let offset = self.output.position();
                for part in parts {
                    self.section(&part, Compression::None)?;
                }
                let len = self.output.position() - offset;
                Ok((Some(Handle { offset, len }), top.encode(offset)))
            }
        }
    }

    fn sections(&mut self, index: &[u8]) -> Result<Sections> {
        let compression = self.options.compression();
        let mut sections = Sections::default();
        if !self.ranges.is_empty() {
            // Never compressed: in memory range deletes take many times their stored bytes.
            let mut ranges = std::mem::take(&mut self.ranges);
            sections.range_deletes = Some(self.section(ranges.section(), Compression::None)?);
        }
        if !self.attachments.is_empty() {
            let raw = encode_attachments(&self.attachments);
            sections.attachments = Some(self.section(&raw, compression)?);
        }
        if let Some(raw) = self.sampler.encode() {
            sections.sample = Some(self.section(&raw, compression)?);
        }
        if let Some(dictionary) = self.dictionary.take() {
            // Never compressed: it holds what the blocks have in common, once.
            self.properties.dictionary_share = dictionary.share();
            let bytes = dictionary.packer().bytes();
            sections.dictionary = Some(self.section(bytes, Compression::None)?);
        }
        // Never compressed: the index is read at every open.
        sections.index = Some(self.section(index, Compression::None)?);
        Ok(sections)
    }

    /// Sets the bounds to cover entries and range deletes.
    fn bound(&mut self, first: Vec<u8>) {
        let content = &mut self.properties.content;
        let entries_first = (content.entries > 0).then_some(first.as_slice());
        let firsts = [self.ranges.smallest(), entries_first].into_iter().flatten();
        content.smallest = firsts.min().unwrap_or_default().to_vec();
        let end = self.ranges.largest().unwrap_or_default();
        let last = self.last.as_ref().map_or(&[][..], |(key, _)| key);
        content.largest_exclusive = end > last;
        content.largest = end.max(last).to_vec();
    }

    /// Writes the sections and the footer, and syncs the file (not its directory). Returns the
    /// record of the table for the manifest.
    ///
    /// # Errors
    /// InvalidInput for a table with neither entries nor range deletes; any error of writing or
    /// syncing the file.
    pub fn finish(mut self) -> Result<TableMeta> {
        if self.is_empty() {
            return Err(Error::invalid("a table without entries"));
        }
        self.finish_block()?;
        if let Some((sample, _)) = self.sample.take() {
            self.join(&sample)?;
        }
        self.finish_block()?;
        let first = self.properties.content.smallest.clone();
        self.bound(first);
        let filter_parts = self.filter()?;
        let (index_parts, index) = self.index()?;
        let tail_offset = self.output.position();
        self.properties.sections = Sections { filter_parts, index_parts, ..self.sections(&index)? };
        self.properties.sample_shift = Some(self.sampler.shift());
        self.properties.content.expiries = self.expiries.summary();
        let mut raw = Vec::new();
        self.properties.encode(&mut raw);
        let properties = self.section(&raw, Compression::None)?;
        let mut read_incompatible = if index_parts.is_some() { INDEX_IN_PARTS } else { 0 };
        if self.properties.content.expiries.count > 0 {
            read_incompatible |= EXPIRIES;
        }
        if self.properties.sections.dictionary.is_some() {
            read_incompatible |= DICTIONARY;
        }
        let label = TableLabel::new(self.ident, read_incompatible);
        let footer = Footer { properties, tail_offset, label }.encode();
        debug_assert_eq!(footer.len(), FOOTER_BYTES);
        self.output.append(&footer)?;
        let (bytes, checksum) = self.output.finish()?;
        let tail_bytes = bytes - tail_offset;
        Ok(TableMeta {
            bytes,
            tail_bytes,
            checksum,
            salt: self.ident.salt,
            ..self.properties.content
        })
    }
}

#[cold]
fn out_of_order(entry: EntryRef<'_>) -> Error {
    Error::invalid(format!(
        "{}{:?} added to a table out of order",
        entry.key.escape_ascii(),
        entry.trailer
    ))
}
