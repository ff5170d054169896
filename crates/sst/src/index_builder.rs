//! Builds the index of a table while the table is written, cut into parts.

use crate::format::BLOCK_TRAILER_BYTES;
use flagstone_base::SeqNo;
use flagstone_base::bytes::common_prefix;
use flagstone_base::codec::{put_bytes, put_varint};

/// A part is full when its separators, apart from the first, take this many bytes.
const PART_BYTES: usize = 16 << 10;

/// An index section while it is built; `index.rs` draws its bytes.
#[derive(Default)]
pub(crate) struct IndexSection {
    blocks: Vec<u8>,
    count: u64,
    last_separator: Vec<u8>,
    continued: Vec<u8>,
    continued_count: u64,
    continued_last: u64,
}

impl IndexSection {
    /// Adds the next block: its stored length, its separator, and its first SeqNo if it is
    /// continued.
    pub(crate) fn add(&mut self, len: u64, separator: &[u8], continued: Option<SeqNo>) {
        let shared = common_prefix(&self.last_separator, separator);
        put_varint(&mut self.blocks, len);
        put_varint(&mut self.blocks, shared as u64);
        put_bytes(&mut self.blocks, &separator[shared..]);
        if let Some(seqno) = continued {
            put_varint(&mut self.continued, self.count - self.continued_last);
            put_varint(&mut self.continued, seqno.get());
            self.continued_last = self.count;
            self.continued_count += 1;
        }
        self.count += 1;
        self.last_separator.clear();
        self.last_separator.extend_from_slice(separator);
    }

    const fn bytes(&self) -> usize {
        self.blocks.len() + self.continued.len()
    }

    /// Returns the bytes of the section, whose first block begins at `first_offset`.
    pub(crate) fn encode(&self, first_offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes() + 30);
        put_varint(&mut out, self.count);
        put_varint(&mut out, first_offset);
        put_varint(&mut out, self.continued_count);
        out.extend_from_slice(&self.blocks);
        out.extend_from_slice(&self.continued);
        out
    }
}

/// Builds the index of a table while the table is written.
pub(crate) struct IndexBuilder {
    /// A part is full when it has this many blocks.
    part_blocks: usize,
    part: IndexSection,
    /// The separator of the first block of the part and, if that block is continued, its first
    /// SeqNo.
    part_first: (Vec<u8>, Option<SeqNo>),
    /// The offset where the first block of the part begins, and where its last block ends.
    part_offset: u64,
    end: u64,
    /// The sections of the finished parts, the index of these parts, and the bytes of all of them.
    parts: Vec<Vec<u8>>,
    top: IndexTop,
    bytes: usize,
}

/// The index of a finished table.
pub(crate) enum BuiltIndex {
    /// One section holds the whole index.
    Whole(Vec<u8>),
    InParts {
        parts: Vec<Vec<u8>>,
        top: IndexTop,
    },
}

/// The index of the parts, while it is not known where the first part will be written.
pub(crate) struct IndexTop {
    section: IndexSection,
    extents: Vec<u8>,
}

impl IndexTop {
    /// Returns the section of the top, once the first part was written at `offset`.
    pub(crate) fn encode(&self, offset: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, &self.section.encode(offset));
        out.extend_from_slice(&self.extents);
        out
    }
}

impl IndexBuilder {
    /// Creates a builder for a table whose first block begins at `offset`. Parts have up to
    /// `part_blocks` blocks.
    pub(crate) fn new(offset: u64, part_blocks: usize) -> Self {
        Self {
            part_blocks,
            part: IndexSection::default(),
            part_first: (Vec::new(), None),
            part_offset: offset,
            end: offset,
            parts: Vec::new(),
            top: IndexTop { section: IndexSection::default(), extents: Vec::new() },
            bytes: 0,
        }
    }

    /// Adds the next block: its stored length, its first entry, and the last key before it.
    pub(crate) fn add(&mut self, len: u64, first: (&[u8], SeqNo), last_before: Option<&[u8]>) {
        let (key, seqno) = first;
        let separator = match last_before {
            Some(last) => &key[..(common_prefix(last, key) + 1).min(key.len())],
            None => key,
        };
        let continued = (last_before == Some(key)).then_some(seqno);
        let bytes = self.part.bytes().saturating_sub(self.part_first.0.len());
        if self.part.count as usize >= self.part_blocks || bytes >= PART_BYTES {
            self.finish_part();
        }
        if self.part.count == 0 {
            self.part_first.0.clear();
            self.part_first.0.extend_from_slice(separator);
            self.part_first.1 = continued;
        }
        self.part.add(len, separator, continued);
        self.end += len;
    }

    fn finish_part(&mut self) {
        let part = std::mem::take(&mut self.part);
        let bytes = part.encode(self.part_offset);
        let stored = (bytes.len() + BLOCK_TRAILER_BYTES) as u64;
        self.top.section.add(stored, &self.part_first.0, self.part_first.1);
        put_varint(&mut self.top.extents, part.count);
        put_varint(&mut self.top.extents, self.end - self.part_offset);
        self.part_offset = self.end;
        self.bytes += bytes.len();
        self.parts.push(bytes);
    }

    /// Bytes of the index so far.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes + self.part.bytes() + self.top.section.bytes() + self.top.extents.len()
    }

    /// Returns the index of all blocks added.
    pub(crate) fn finish(mut self) -> BuiltIndex {
        if self.parts.is_empty() {
            return BuiltIndex::Whole(self.part.encode(self.part_offset));
        }
        self.finish_part();
        BuiltIndex::InParts { parts: self.parts, top: self.top }
    }
}
