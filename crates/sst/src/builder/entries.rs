//! The builder of a table, and how it takes entries and range deletes.

use crate::block::{BlockBuilder, check_entries};
use crate::compressibility::Compressibility;
use crate::expiries::ExpirySampler;
use crate::format::{HEADER_BYTES, encode_header};
use crate::index_builder::IndexBuilder;
use crate::learned::{BLOCK_PART, Dictionary, HeldBlock, Learned, short_block_bytes};
use crate::meta::TableMeta;
use crate::options::{BuilderOptions, TableIdent};
use crate::output::Output;
use crate::properties::Properties;
use crate::ranges::{RangeDelete, RangesBuilder};
use crate::sample::Sampler;
use flagstone_base::bytes::order;
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::key::{check_key, check_value};
use flagstone_base::sorted::SortedMap;
use flagstone_base::{EntryCheck, EntryRef, Error, Kind, Result, SeqNo};
use flagstone_env::WriteFile;
use std::cmp::Ordering;
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
    pub(super) output: Output,
    pub(super) ident: TableIdent,
    pub(super) options: BuilderOptions,
    pub(super) block: BlockBuilder,
    /// A block ends before it is longer than this.
    pub(super) block_bytes: usize,
    /// What is known about dictionaries, and the one of this table once it is chosen.
    pub(super) learned: Learned,
    pub(super) dictionary: Option<Arc<Dictionary>>,
    /// The blocks by which a dictionary will be chosen, and their bytes. `None` once it is chosen,
    /// or if there will be none.
    pub(super) sample: Option<(Vec<HeldBlock>, usize)>,
    /// The checks of the entries in `block`; empty if the options turn checks off.
    pub(super) checks: Vec<EntryCheck>,
    pub(super) stored: Vec<u8>,
    pub(super) compressibility: Compressibility,
    pub(super) index: IndexBuilder,
    /// The first key of the current block and its SeqNo, and the last key before that block.
    pub(super) block_first: (Vec<u8>, SeqNo),
    pub(super) block_before: Option<Vec<u8>>,
    pub(super) last: Option<(Vec<u8>, SeqNo)>,
    /// The hash of the last key, plain and remixed, and the remixed hashes for the filter.
    pub(super) last_key_hash: u64,
    pub(super) last_hash: u64,
    pub(super) filter_hashes: Vec<u64>,
    pub(super) filter_last: Vec<u8>,
    pub(super) sampler: Sampler,
    pub(super) expiries: ExpirySampler,
    pub(super) ranges: RangesBuilder,
    pub(super) attachments: SortedMap<u32, Vec<u8>>,
    pub(super) properties: Properties,
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
            attachments: SortedMap::new(),
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
        if self.block.is_empty() {
            Ok(())
        } else {
            check_entries(self.block.clone().finish(), &self.checks, seed)
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
}

#[cold]
fn out_of_order(entry: EntryRef<'_>) -> Error {
    Error::invalid(format!(
        "{}{:?} added to a table out of order",
        entry.key.escape_ascii(),
        entry.trailer
    ))
}
