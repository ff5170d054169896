//! Verifies a table: reads everything and believes nothing.

use crate::format::{FOOTER_BYTES, HEADER_BYTES, decode_header};
use crate::meta::TableMeta;
use crate::table::Table;
use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest};
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{EntryRef, Error, Kind, Result, SeqNo};
use std::fmt;
use std::sync::Arc;

/// How much is read at once for the checksum of the whole file.
const READ_BYTES: usize = 256 << 10;

/// What a verified table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Bytes of the file, all of them read.
    pub bytes: u64,
    /// Data blocks.
    pub blocks: u64,
    /// Puts, deletes and merge operands.
    pub entries: u64,
    /// Distinct keys among them.
    pub keys: u64,
    /// Range deletes.
    pub range_deletes: u64,
    /// The CRC-32C of the whole file.
    pub checksum: u32,
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes, {} blocks, {} entries of {} keys, {} range deletes, checksum {:08x}",
            self.bytes, self.blocks, self.entries, self.keys, self.range_deletes, self.checksum
        )
    }
}

impl Table {
    /// What a manifest keeps of this table. For a table opened without it (by a repair) the whole
    /// file is read for its checksum.
    ///
    /// # Errors
    /// What reading the file answers.
    pub fn meta(&self) -> Result<TableMeta> {
        match &self.meta {
            Some(meta) => Ok(meta.clone()),
            None => Ok(TableMeta {
                bytes: self.bytes(),
                tail_bytes: self.bytes() - self.footer.tail_offset,
                checksum: self.checksum()?,
                ..self.properties.content.clone()
            }),
        }
    }

    /// Reads all of the file from the disk, past the cache, and checks: header; the checksum of
    /// every block and of the whole file; the order of entries; that every block begins where the
    /// index says; bounds, SeqNos and counts; that the filter denies no key.
    ///
    /// # Errors
    /// Corruption that tells the first thing wrong; what reading the file answers.
    pub fn verify(self: &Arc<Self>) -> Result<VerifyReport> {
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, 0)?;
        decode_header(&header)
            .map_err(|wrong| wrong.in_file(self.path().display(), 0))?
            .check(self.path().display(), self.ident)?;
        let checksum = self.checksum()?;
        if let Some(meta) = self.meta.as_ref().filter(|meta| meta.checksum != checksum) {
            return Err(self.wrong(
                0,
                format_args!("checksum {checksum:08x} of the file: expected {:08x}", meta.checksum),
            ));
        }
        if self.index.start() != HEADER_BYTES as u64 {
            return Err(self.wrong(0, format_args!("a gap between header and first block")));
        }
        let (content, keys) = self.verify_entries()?;
        self.verify_content(content)?;
        Ok(VerifyReport {
            bytes: self.bytes(),
            blocks: self.index.count() as u64,
            entries: self.properties.content.entries,
            keys,
            range_deletes: self.range_deletes().len() as u64,
            checksum,
        })
    }

    /// The CRC-32C of the whole file.
    fn checksum(&self) -> Result<u32> {
        let mut digest = Digest::new(Crc32Iscsi);
        let mut buffer = vec![0; READ_BYTES];
        let mut offset = 0;
        while offset < self.bytes() {
            let len = (self.bytes() - offset).min(READ_BYTES as u64) as usize;
            self.file.read_exact_at(&mut buffer[..len], offset)?;
            digest.update(&buffer[..len]);
            offset += len as u64;
        }
        Ok(digest.finalize() as u32)
    }

    /// Walks all entries from the disk and recounts the content; answers it and the distinct keys.
    fn verify_entries(self: &Arc<Self>) -> Result<(TableMeta, u64)> {
        let mut content = TableMeta {
            number: self.ident.number,
            seqno_min: SeqNo::MAX,
            seqno_max: SeqNo::ZERO,
            ..TableMeta::default()
        };
        let mut keys = 0;
        let mut last: Option<(Vec<u8>, SeqNo)> = None;
        for number in 0..self.index.count() {
            let handle = self.index.handle(number);
            let mut stored = vec![0; handle.len as usize];
            self.file.read_exact_at(&mut stored, handle.offset)?;
            let block = self.open_stored(number, &stored, false)?;
            let wrong =
                |what: &str| self.wrong(handle.offset, format_args!("block {number}: {what}"));
            let malformed = |wrong| self.wrong_in_block(number, wrong);
            for index in 0..block.count() {
                let parsed = block.parse(index).map_err(malformed)?;
                let mut key =
                    block.shared(index, parsed.shared as usize).map_err(malformed)?.to_vec();
                key.extend_from_slice(&block.bytes()[parsed.suffix()]);
                let value = &block.bytes()[parsed.value()];
                let entry = EntryRef { key: &key, trailer: parsed.trailer, value };
                let hash = remix(key_hash(&key, self.properties.hash_seed));
                if index == 0 {
                    self.verify_separator(number, entry, last.as_ref().map(|(key, _)| &key[..]))?;
                }
                let is_new = last.as_ref().is_none_or(|(last, _)| *last != key);
                let in_order = last.as_ref().is_none_or(|(last, seqno)| {
                    *last < key || (*last == key && *seqno > entry.seqno())
                });
                if !in_order {
                    return Err(wrong("entries out of order"));
                }
                if block.fingerprint_at(index) != crate::block::fingerprint(hash) {
                    return Err(wrong("a fingerprint that is not its key's"));
                }
                if self.properties.filter_key == 0 && !self.may_contain(hash) {
                    return Err(wrong("a key that the filter denies"));
                }
                keys += u64::from(is_new);
                recount(&mut content, entry);
                last = Some((key, parsed.trailer.seqno()));
            }
        }
        content.largest = last.map(|(key, _)| key).unwrap_or_default();
        Ok((content, keys))
    }

    /// Checks the separator of block `number` against its first entry and the key before.
    fn verify_separator(
        &self,
        number: usize,
        first: EntryRef<'_>,
        before: Option<&[u8]>,
    ) -> Result<()> {
        let separator = self.index.separator(number);
        let continues = before == Some(first.key);
        let fits = separator.as_slice() <= first.key
            && before.is_none_or(|before| continues || before < separator.as_slice())
            && (!continues || separator == first.key)
            && self.index.continued(number).is_some() == continues;
        if fits {
            return Ok(());
        }
        let offset = self.index.handle(number).offset;
        Err(self.wrong(offset, format_args!("block {number}: not what the index tells of it")))
    }

    /// Compares what was counted with what the table tells of itself.
    fn verify_content(&self, mut counted: TableMeta) -> Result<()> {
        for range in self.range_deletes() {
            if counted.entries == 0 && counted.range_deletes == 0
                || range.start[..] < counted.smallest[..]
            {
                counted.smallest = range.start.to_vec();
            }
            if range.end[..] > counted.largest[..] {
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
        if told != counted {
            let offset = self.bytes() - FOOTER_BYTES as u64;
            return Err(self.wrong(
                offset,
                format_args!("the properties tell of {told}, the blocks hold {counted}"),
            ));
        }
        Ok(())
    }

    #[cold]
    fn wrong(&self, offset: u64, what: fmt::Arguments<'_>) -> Error {
        Error::corruption(self.path().display(), offset, what)
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
