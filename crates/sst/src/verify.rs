//! Verifies a table: reads everything and trusts nothing.

use crate::block::Block;
use crate::expiries::ExpirySampler;
use crate::format::{EXPIRIES, FOOTER_BYTES};
use crate::index::Index;
use crate::lookup::CacheUse;
use crate::meta::TableMeta;
use crate::ranges::RangeDeletes;
use crate::sample::Sampler;
use crate::table::Table;
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{EntryRef, Kind, Result, SeqNo, interrupt};
use std::fmt;
use std::sync::Arc;

/// The contents of a verified table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifiedTable {
    /// Bytes of the file, all of which were read.
    pub bytes: u64,
    /// The number of data blocks.
    pub blocks: u64,
    /// The number of puts, deletes and merge operands.
    pub entries: u64,
    /// The number of distinct keys.
    pub keys: u64,
    /// The number of range deletes.
    pub range_deletes: u64,
    /// The CRC-32C of the whole file.
    pub checksum: u32,
}

impl fmt::Display for VerifiedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes, {} blocks, {} entries of {} keys, {} range deletes, checksum {:08x}",
            self.bytes, self.blocks, self.entries, self.keys, self.range_deletes, self.checksum
        )
    }
}

impl Table {
    /// Reads the whole file past the cache and checks the header; the checksum of every block and
    /// of the whole file; the order of entries; that every block begins as the index says; bounds,
    /// SeqNos and counts; that the filter denies no key; that the attachments can be decoded; and
    /// that the sample is that of the entries.
    ///
    /// # Errors
    /// Corruption, which names the first fault found; any error of reading the file.
    pub fn verify(self: &Arc<Self>) -> Result<VerifiedTable> {
        self.check_header()?;
        let mut walk = BlockVerifier::new(self);
        let checksum = self.read_stored(|index, number, stored| {
            interrupt::check()?;
            let block = self.open_stored(number, index.offset(number), stored, CacheUse::Pass)?;
            walk.block(index, number, &block)
        })?;
        self.check_checksum(checksum)?;
        self.check_filter_parts()?;
        self.attachments()?;
        if let Some(sample) = self.sample(0)?
            && sample != *walk.sampler.sample()
        {
            let offset = self.bytes() - FOOTER_BYTES as u64;
            return Err(self.wrong(offset, format_args!("the sample is not that of the blocks")));
        }
        let (content, keys) = walk.finish();
        let range_deletes = self.range_deletes()?;
        self.verify_content(content, &range_deletes)?;
        Ok(VerifiedTable {
            bytes: self.bytes(),
            blocks: self.index.count() as u64,
            entries: self.properties.content.entries,
            keys,
            range_deletes: range_deletes.count(),
            checksum,
        })
    }

    /// Checks the index entry of block `number` against the first entry of the block and the key
    /// before it.
    fn verify_separator(
        &self,
        index: &Index,
        number: usize,
        first: EntryRef<'_>,
        before: Option<&[u8]>,
    ) -> Result<()> {
        let separator = index.separator(number);
        let continues = before == Some(first.key);
        let fits = separator.as_slice() <= first.key
            && before.is_none_or(|before| continues || before < separator.as_slice())
            && (!continues || separator == first.key)
            && index.continued(number) == continues.then(|| first.seqno());
        if fits {
            return Ok(());
        }
        let offset = index.offset(number);
        Err(self.wrong(offset, format_args!("block {number}: not as the index describes it")))
    }

    /// Compares the counted content with the properties of the table.
    fn verify_content(&self, mut counted: TableMeta, range_deletes: &RangeDeletes) -> Result<()> {
        for range in range_deletes.iter() {
            if counted.entries == 0 && counted.range_deletes == 0
                || range.start < counted.smallest.as_slice()
            {
                counted.smallest = range.start.to_vec();
            }
            if range.end > counted.largest.as_slice() {
                counted.largest = range.end.to_vec();
                counted.largest_exclusive = true;
            }
            counted.range_deletes += 1;
            counted.seqno_min = counted.seqno_min.min(range.seqno);
            counted.seqno_max = counted.seqno_max.max(range.seqno);
        }
        let mut told = self.properties.content.clone();
        if self.meta.as_ref().is_some_and(|meta| meta.global_seqno.is_some()) {
            (told.seqno_min, told.seqno_max) = (counted.seqno_min, counted.seqno_max);
        }
        if table_is_older(self) {
            counted.older_versions = 0;
        }
        let has_bit = self.footer.label.label.read_incompatible & EXPIRIES != 0;
        if has_bit != (counted.expiries.count > 0) {
            let (bit, count) = (u8::from(has_bit), counted.expiries.count);
            let found = format_args!("feature bit {bit} of expiries, but {count} entries have one");
            return Err(self.wrong(self.bytes() - FOOTER_BYTES as u64, found));
        }
        if told != counted {
            let offset = self.bytes() - FOOTER_BYTES as u64;
            return Err(self.wrong(
                offset,
                format_args!("the properties record {told}, the blocks have {counted}"),
            ));
        }
        Ok(())
    }
}

/// Returns whether the table was written before older versions were counted. Samples came at the
/// same time.
fn table_is_older(table: &Table) -> bool {
    table.properties.sample_shift.is_none()
}

/// Visits all entries, block by block, and counts the content.
struct BlockVerifier<'t> {
    table: &'t Table,
    content: TableMeta,
    sampler: Sampler,
    expiries: ExpirySampler,
    keys: u64,
    /// The key of the current entry, and the entry before it.
    key: Vec<u8>,
    last: Option<(Vec<u8>, SeqNo)>,
}

impl<'t> BlockVerifier<'t> {
    fn new(table: &'t Table) -> Self {
        let content = TableMeta {
            number: table.ident.number,
            seqno_min: SeqNo::MAX,
            seqno_max: SeqNo::ZERO,
            // The intended compression. Blocks cannot contradict it: any of them may be stored
            // uncompressed.
            compression: table.properties.content.compression,
            ..TableMeta::default()
        };
        let (sampler, expiries) = (Sampler::default(), ExpirySampler::default());
        Self { table, content, sampler, expiries, keys: 0, key: Vec::new(), last: None }
    }

    /// Checks all entries of block `number`, which `index_of` lists.
    fn block(&mut self, index_of: &Index, number: usize, block: &Block) -> Result<()> {
        let malformed = |wrong| self.table.wrong_in_block(number, wrong);
        for index in 0..block.count() {
            let parsed = block.parse(index).map_err(malformed)?;
            block.read_key(index, &parsed, &mut self.key).map_err(malformed)?;
            let value = &block.bytes()[parsed.value()];
            let entry = EntryRef { key: &self.key, trailer: parsed.trailer, value };
            let last = self.last.as_ref();
            if index == 0 {
                let before = last.map(|(key, _)| &key[..]);
                self.table.verify_separator(index_of, number, entry, before)?;
            }
            let is_new = last.is_none_or(|(last, _)| *last != self.key);
            let in_order = last.is_none_or(|(last, seqno)| {
                *last < self.key || (!is_new && *seqno > entry.seqno())
            });
            let hash = remix(key_hash(&self.key, self.table.properties.hash_seed));
            self.sampler.offer(entry, hash, is_new);
            let wrong = if in_order {
                self.wrong_with_hash(hash, block.fingerprint_at(index))?
            } else {
                Some("entries out of order")
            };
            if let Some(what) = wrong {
                let offset = index_of.offset(number);
                return Err(self.table.wrong(offset, format_args!("block {number}: {what}")));
            }
            self.keys += u64::from(is_new);
            recount(&mut self.content, entry);
            entry.trailer.expiry().into_iter().for_each(|expiry| self.expiries.add(expiry));
            self.content.older_versions += u64::from(!is_new);
            let seqno = entry.seqno();
            let (last, last_seqno) = self.last.get_or_insert_default();
            std::mem::swap(last, &mut self.key);
            *last_seqno = seqno;
        }
        Ok(())
    }

    /// Checks the fingerprint of the current entry, and that the filter does not deny its key.
    /// Returns what is wrong.
    fn wrong_with_hash(&self, hash: u64, fingerprint: u8) -> Result<Option<&'static str>> {
        let properties = &self.table.properties;
        if fingerprint != crate::block::fingerprint(hash) {
            return Ok(Some("a fingerprint that is not its key's"));
        }
        let is_denied = properties.filter_key == 0 && !self.table.may_contain(hash)?;
        Ok(is_denied.then_some("a key that the filter denies"))
    }

    /// Returns the counted content and the number of distinct keys.
    fn finish(mut self) -> (TableMeta, u64) {
        self.content.expiries = self.expiries.summary();
        self.content.largest = self.last.map(|(key, _)| key).unwrap_or_default();
        (self.content, self.keys)
    }
}

fn recount(content: &mut TableMeta, entry: EntryRef<'_>) {
    if content.entries == 0 {
        content.smallest = entry.key.to_vec();
    }
    content.entries += 1;
    content.deletes += u64::from(entry.kind() == Kind::Delete);
    content.merges += u64::from(entry.kind() == Kind::Merge);
    content.key_bytes_raw += entry.key.len() as u64;
    content.value_bytes_raw += entry.value.len() as u64;
    content.seqno_min = content.seqno_min.min(entry.seqno());
    content.seqno_max = content.seqno_max.max(entry.seqno());
}
