//! Reads a table once and determines which blocks are good, and which bytes and keys are lost.

use super::walk::{block_end, seek_block};
use crate::block::Block;
use crate::cache::BlockCache;
use crate::format::{BLOCK_RAW_MAX, BLOCK_TRAILER_BYTES, FOOTER_BYTES, HEADER_BYTES};
use crate::format::{decode_header, open_block, open_data_block};
use crate::meta::TableMeta;
use crate::open::read_tail;
use crate::options::TableIdent;
use crate::properties::{Handle, Properties};
use crate::ranges::{RangeDeletes, decode_attachments};
use crate::table::Table;
use flagstone_base::compress::DICTIONARY_TAG;
use flagstone_base::dictionary::{Unpacker, may_be_dictionary};
use flagstone_base::{EntryRef, Error, Malformed, Result, SeqNo, Slice};
use flagstone_env::ReadFile;
use flagstone_env::disk::Access;
use std::ops::Range;
use std::sync::Arc;

/// A file without a whole tail is held in memory while it is searched for blocks. A longer file is
/// given up.
const WALKED_BYTES_MAX: u64 = 1 << 30;
/// A part that the system cannot read is lost in pieces of this size.
const READ_BYTES: usize = 64 << 10;
/// The place of the compression in a stored block, counted from its end.
const TAG_FROM_END: usize = 5;

/// The readable contents of a damaged table.
pub struct Salvage {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) ident: TableIdent,
    pub(super) global: Option<SeqNo>,
    pub(super) blocks: Vec<Handle>,
    /// The dictionary of the blocks. Without it the blocks that need it are lost.
    pub(super) dictionary: Option<Unpacker>,
    properties: Option<Properties>,
    range_deletes: Option<RangeDeletes>,
    attachments: Option<Vec<(u32, Slice)>>,
    lost: Vec<LostPart>,
}

/// A part of a table that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPart {
    /// The range of file offsets.
    pub bytes: Range<u64>,
    /// No key below this one is lost with this part.
    pub from: Vec<u8>,
    /// No key above this one is lost with this part. `None` if not known.
    pub to: Option<Vec<u8>>,
    /// A description of the damage.
    pub what: String,
}

impl Salvage {
    /// Reads the whole table `ident` in `file`. `known` is the manifest's record of it, if there is
    /// one.
    ///
    /// Memory: 32 bytes a block; also the whole file, if its tail or index is damaged and it is no
    /// longer than 1 GiB.
    pub fn of(file: Arc<dyn ReadFile>, ident: TableIdent, known: Option<&TableMeta>) -> Self {
        file.advise(Access::Sequential);
        let salt = known.map_or_else(|| salt_in(&*file), |meta| meta.salt);
        let ident = TableIdent { salt, ..ident };
        let salvage = Self {
            ident,
            global: known.and_then(|meta| meta.global_seqno),
            blocks: Vec::new(),
            dictionary: None,
            properties: None,
            range_deletes: None,
            attachments: None,
            lost: Vec::new(),
            file,
        };
        let mut survey = Survey { salvage, last: None, pending: None, known };
        // A cache of size zero: everything is read once.
        let opened =
            Table::open(Arc::clone(&survey.salvage.file), ident, None, &BlockCache::new(0));
        match opened.and_then(|table| Ok((table.handles()?, table))) {
            Ok((blocks, table)) => survey.by_index(&table, blocks),
            Err(error) => survey.by_walking(&error),
        }
        survey.finish()
    }

    /// The properties of the table, or `None` if they are damaged.
    pub const fn properties(&self) -> Option<&Properties> {
        self.properties.as_ref()
    }

    /// The range deletes, or `None` if they are lost, or if it is not known whether there were any.
    pub const fn range_deletes(&self) -> Option<&RangeDeletes> {
        self.range_deletes.as_ref()
    }

    /// The attachments, ordered by id, or `None` if they are lost.
    pub fn attachments(&self) -> Option<&[(u32, Slice)]> {
        self.attachments.as_deref()
    }

    /// The lost parts, ordered by offset.
    pub fn lost(&self) -> &[LostPart] {
        &self.lost
    }
}

/// A survey in progress.
struct Survey<'a> {
    salvage: Salvage,
    /// Key and SeqNo of the last good entry.
    last: Option<(Vec<u8>, SeqNo)>,
    /// The lost part after that entry, so far.
    pending: Option<LostPart>,
    known: Option<&'a TableMeta>,
}

impl Survey<'_> {
    fn by_index(&mut self, table: &Table, blocks: Vec<Handle>) {
        self.salvage.properties = Some(table.properties().clone());
        self.salvage.range_deletes = table.range_deletes().ok();
        self.salvage.attachments = table.attachments().ok();
        let dictionary = table.dictionary().ok().flatten();
        self.salvage.dictionary = dictionary.and_then(|bytes| Unpacker::new(&bytes));
        for handle in blocks {
            // The index was checked: no block is longer than the file.
            let mut stored = vec![0; handle.len as usize];
            let read = self.salvage.file.read_exact_at(&mut stored, handle.offset);
            let taken = read.and_then(|()| self.take(handle, &stored));
            if let Err(error) = taken {
                self.lose(handle.offset..handle.offset + handle.len, &error);
            }
        }
    }

    fn by_walking(&mut self, why: &Error) {
        let file = Arc::clone(&self.salvage.file);
        if file.len() > WALKED_BYTES_MAX {
            return self.lose(0..file.len(), why);
        }
        let bytes = read_what_can_be(&*file);
        let ident = self.salvage.ident;
        let stored = |handle: Handle| {
            let end = usize::try_from(handle.end()?).ok()?;
            bytes.get(handle.offset as usize..end)
        };
        let open = |handle: Handle| {
            let path = file.path();
            let stored = stored(handle).unwrap_or_default();
            open_block(stored, ident, handle.offset, BLOCK_RAW_MAX, path, |len| vec![0; len])
        };
        let is_cut = self.known.is_some_and(|meta| meta.bytes > file.len());
        let global = self.salvage.global;
        let ranges = |section: Vec<u8>| RangeDeletes::decode(Slice::from(section), global).ok();
        let (blocks, behind) = walk(&bytes, ident, is_cut);
        let ends_at_footer =
            |handle: &Handle| handle.end() == file.len().checked_sub(FOOTER_BYTES as u64);
        let properties = blocks.last().copied().filter(ends_at_footer).and_then(|handle| {
            let properties = Properties::decode(&open(handle).ok()?).ok()?;
            (properties.content.number == ident.number).then_some(properties)
        });
        let mut data_end = self.known.map(|meta| meta.bytes.saturating_sub(meta.tail_bytes));
        if let Ok(tail) = read_tail(&*file, None) {
            data_end = data_end.or(Some(tail.footer.tail_offset));
        }
        if let Some(properties) = properties {
            let sections = properties.sections;
            // The filter parts and index parts are between the data blocks and the tail.
            let filter = sections.filter_parts.map(|parts| parts.offset);
            let index = sections.index_parts.map(|parts| parts.offset);
            data_end = filter.or(index).or(data_end);
            self.salvage.range_deletes = match sections.range_deletes {
                None => Some(RangeDeletes::default()),
                Some(handle) => open(handle).ok().and_then(ranges),
            };
            self.salvage.attachments = match sections.attachments {
                None => Some(Vec::new()),
                Some(handle) => open(handle).ok().and_then(|raw| decode_attachments(raw).ok()),
            };
            self.salvage.properties = Some(properties);
        } else if let Some(known) = self.known {
            self.salvage.range_deletes = match (known.range_deletes, data_end) {
                (0, _) => Some(RangeDeletes::default()),
                // Range deletes are the first section.
                (count, Some(offset)) => blocks
                    .iter()
                    .find(|handle| handle.offset == offset)
                    .and_then(|handle| open(*handle).ok())
                    .and_then(ranges)
                    .filter(|ranges| ranges.count() == count),
                _ => None,
            };
        }
        // The dictionary can be told from all other blocks, so it is found without the properties.
        self.salvage.dictionary = blocks.iter().rev().find_map(|handle| {
            let payload = stored(*handle)?.split_last_chunk::<BLOCK_TRAILER_BYTES>()?.0;
            Unpacker::new(&may_be_dictionary(payload).then(|| open(*handle).ok()).flatten()?)
        });
        let mut at = HEADER_BYTES as u64;
        for handle in blocks {
            if data_end.is_some_and(|end| handle.offset >= end) {
                break;
            }
            if handle.offset > at {
                self.lose(at..handle.offset, why);
            }
            at = handle.offset + handle.len;
            // A block with a valid checksum but without entries is a part of the filter, or a
            // section. One that needs a dictionary has entries.
            let block = stored(handle).unwrap_or_default();
            let tag = block.len().checked_sub(TAG_FROM_END).map(|at| block[at]);
            if let Err(error) = self.take(handle, block)
                && tag == Some(DICTIONARY_TAG)
            {
                self.lose(handle.offset..at, &error);
            }
        }
        let end = data_end.unwrap_or(behind);
        if end > at {
            self.lose(at..end, why);
        }
    }

    /// Accepts a block if all of its entries can be read and are in order.
    fn take(&mut self, handle: Handle, stored: &[u8]) -> Result<()> {
        let path = self.salvage.file.path();
        let (ident, offset) = (self.salvage.ident, handle.offset);
        let dictionary = self.salvage.dictionary.as_ref();
        let take = |len| vec![0; len];
        let raw = open_data_block(stored, ident, offset, BLOCK_RAW_MAX, path, dictionary, take)?;
        let wrong = |wrong: Malformed| wrong.in_file(path.display(), handle.offset);
        let block = Block::new(Slice::from(raw), self.salvage.global).map_err(wrong)?;
        let mut last = self.last.clone();
        let (mut first, mut in_order) = (None, true);
        visit_entries(&block, |entry: EntryRef<'_>| {
            in_order &= last.as_ref().is_none_or(|(key, seqno)| {
                key[..] < *entry.key || (key[..] == *entry.key && *seqno > entry.seqno())
            });
            first.get_or_insert_with(|| entry.key.to_vec());
            let (key, seqno) = last.get_or_insert_default();
            key.clear();
            key.extend_from_slice(entry.key);
            *seqno = entry.seqno();
        })
        .map_err(wrong)?;
        if !in_order {
            return Err(Error::corruption(path.display(), handle.offset, "entries out of order"));
        }
        self.last = last;
        self.salvage.blocks.push(handle);
        if let Some(mut part) = self.pending.take() {
            part.to = first;
            self.salvage.lost.push(part);
        }
        Ok(())
    }

    fn lose(&mut self, bytes: Range<u64>, why: &Error) {
        if let Some(part) = &mut self.pending {
            part.bytes.end = part.bytes.end.max(bytes.end);
            return;
        }
        let before = self.last.as_ref().map(|(key, _)| key.clone());
        let from = before.or_else(|| Some(self.content()?.smallest.clone()));
        let what = why.to_string();
        let part = LostPart { bytes, from: from.unwrap_or_default(), to: None, what };
        self.pending = Some(part);
    }

    /// The bounds and counts, if known.
    fn content(&self) -> Option<&TableMeta> {
        let own = self.salvage.properties.as_ref().map(|properties| &properties.content);
        self.known.or(own)
    }

    fn finish(mut self) -> Salvage {
        if let Some(mut part) = self.pending.take() {
            part.to = self.content().map(|content| content.largest.clone());
            self.salvage.lost.push(part);
        }
        self.salvage
    }
}

/// Returns the salt in the footer or the header. Without the salt no block can be checked.
fn salt_in(file: &dyn ReadFile) -> u32 {
    let mut header = [0; HEADER_BYTES];
    let header_label = || {
        file.read_exact_at(&mut header, 0).ok()?;
        decode_header(&header).ok()
    };
    let label = read_tail(file, None).ok().map(|tail| tail.footer.label).or_else(header_label);
    label.map_or(0, |label| label.salt)
}

/// Returns the stored blocks from the front on, and the offset up to which the file was searched.
fn walk(bytes: &[u8], ident: TableIdent, is_cut: bool) -> (Vec<Handle>, u64) {
    let (mut blocks, mut at) = (Vec::new(), HEADER_BYTES);
    let end = bytes.len().saturating_sub(FOOTER_BYTES);
    while at < bytes.len() {
        let found = match block_end(bytes, ident, at, usize::MAX) {
            Some(end) => Some((at, end)),
            // No block follows the one at which the file was cut.
            None if is_cut || at >= end => None,
            None => seek_block(bytes, ident, at),
        };
        let Some((start, end)) = found else { break };
        blocks.push(Handle { offset: start as u64, len: (end - start) as u64 });
        at = end;
    }
    let rest = if at >= end { at } else { bytes.len() };
    (blocks, rest as u64)
}

/// Returns the bytes of a file, with zeros in place of pieces that cannot be read.
fn read_what_can_be(file: &dyn ReadFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len() as usize];
    let mut at = 0;
    for piece in bytes.chunks_mut(READ_BYTES) {
        if file.read_exact_at(piece, at).is_err() {
            piece.fill(0);
        }
        at += piece.len() as u64;
    }
    bytes
}

/// Calls `visit` for every entry of a block.
fn visit_entries(block: &Block, mut visit: impl FnMut(EntryRef<'_>)) -> Result<(), Malformed> {
    let mut key = Vec::new();
    for index in 0..block.count() {
        let parsed = block.parse(index)?;
        block.read_key(index, &parsed, &mut key)?;
        let value = &block.bytes()[parsed.value()];
        visit(EntryRef { key: &key, trailer: parsed.trailer, value });
    }
    Ok(())
}
