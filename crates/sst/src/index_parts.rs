//! An index in parts, so that an open table needs a few hundred bytes of memory instead of 30 for
//! each of its blocks.
//!
//! A part is the index of up to 256 consecutive blocks, stored like a data block. The top is an
//! index whose blocks are the parts: the separator of a part is that of its first block, and a part
//! is continued if its first block is. So a key is looked up in the top as in a whole index, then
//! in the part found.
//!
//! ```text
//! parts     index section, index section, ...   stored blocks without a gap, before the tail
//! top       index section of the parts, as `bytes`
//!           | parts x (blocks varint | bytes of these blocks varint)
//! ```
//!
//! While memory allows it, opening a table joins all parts to one index, which stays in memory.
//! Otherwise only the top stays in memory, and the block cache holds the parts. An index of one
//! section is then its own only part.

use crate::format::HEADER_BYTES;
use crate::index::{Index, IndexReader};
use crate::index_builder::IndexSection;
use crate::properties::Handle;
use flagstone_base::{Decoder, Malformed, SeqNo};
use std::ops::Range;

/// The limit on the length of a part: its separators take 16 KiB, apart from the first and the
/// last, which take up to 64 KiB each.
const PART_LEN_MAX: u64 = 256 << 10;
/// The limit on the blocks of a table whose index is in parts: the cache must be able to number
/// them, and the parts of index and filter too.
const BLOCKS_MAX: u32 = 1 << 31;
/// Bytes that a block takes in a whole index in memory, besides its separator.
const BLOCK_MEMORY: u64 = 24;

/// The index of an open table.
pub(crate) enum TableIndex {
    /// The whole index stays in memory while the table is open.
    Resident(Index),
    /// The block cache holds the parts of the index.
    InParts(IndexParts),
}

/// What stays in memory of an index in parts.
pub(crate) struct IndexParts {
    /// The index of the parts.
    top: Index,
    /// The number of the first block of each part, and the number of blocks in all.
    firsts: Vec<u32>,
    /// The offset of the first block of each part, and the end of the last block.
    offsets: Vec<u64>,
}

impl IndexParts {
    /// Decodes the section of the top.
    pub(crate) fn decode(section: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(section);
        let top = decoder.bytes("the index of the parts")?;
        let moved = decoder.position() - top.len();
        let top =
            Index::decode(top).map_err(|wrong| Malformed { at: moved + wrong.at, ..wrong })?;
        let (mut blocks, mut offset) = (0_u32, HEADER_BYTES as u64);
        let mut parts = Self {
            firsts: Vec::with_capacity(top.count() + 1),
            offsets: Vec::with_capacity(top.count() + 1),
            top,
        };
        for _ in parts.top.blocks() {
            parts.firsts.push(blocks);
            parts.offsets.push(offset);
            let at = decoder.position();
            let count = decoder.varint_u32("the number of blocks of a part")?;
            let bytes = decoder.varint("the bytes of the blocks of a part")?;
            let (sum, end) = (blocks.checked_add(count), offset.checked_add(bytes));
            (blocks, offset) = match (sum, end) {
                (Some(sum), Some(end)) if count > 0 && sum < BLOCKS_MAX => (sum, end),
                _ => return Err(Malformed { at, expected: "the blocks of a part" }),
            };
        }
        decoder.finish("the end of the index of the parts")?;
        parts.firsts.push(blocks);
        parts.offsets.push(offset);
        if parts.top.count() == 0 || parts.top.block_len_max() > PART_LEN_MAX {
            return Err(Malformed { at: 0, expected: "parts of an index of up to 256 KiB" });
        }
        Ok(parts)
    }

    /// Makes `index`, the only index section of its table, stored at `handle`, the only part of an
    /// index in parts. Returns `None` if the section is too long to be read for a lookup, as in
    /// some older tables.
    pub(crate) fn of_whole(index: &Index, handle: Handle, blocks_max: usize) -> Option<Self> {
        if index.count() == 0 || index.count() > blocks_max || handle.len > PART_LEN_MAX {
            return None;
        }
        let mut section = IndexSection::default();
        section.add(handle.len, &index.separator(0), index.continued(0));
        Some(Self {
            top: Index::decode(&section.encode(handle.offset)).ok()?,
            firsts: vec![0, index.count() as u32],
            offsets: vec![index.start(), index.end()],
        })
    }

    /// Joins the parts in `sections` to the whole index. An error comes with the number of the
    /// faulty part.
    pub(crate) fn whole(&self, sections: &[&[u8]]) -> Result<Index, (usize, Malformed)> {
        let mut reader = IndexReader::default();
        for (number, section) in sections.iter().enumerate() {
            reader.measure(section).map_err(|wrong| (number, wrong))?;
            let told = (self.firsts[number + 1] as usize, self.offsets[number + 1]);
            if reader.measured() != told {
                return Err((number, NOT_AS_TOLD));
            }
        }
        let index = reader.fill(sections).map_err(|wrong| (0, wrong))?;
        for number in self.top.blocks() {
            self.check_first(number, &index).map_err(|wrong| (number, wrong))?;
        }
        Ok(index)
    }

    /// Decodes part `number` from its section.
    pub(crate) fn part(&self, number: usize, section: &[u8]) -> Result<Index, Malformed> {
        let blocks = self.blocks(number);
        let part = Index::decode(section)?.starting_at(blocks.start);
        let told = (blocks, self.offsets[number + 1]);
        if (part.blocks(), part.end()) != told {
            return Err(NOT_AS_TOLD);
        }
        self.check_first(number, &part)?;
        Ok(part)
    }

    /// Checks that the first block of part `number` in `index` is as the top says.
    fn check_first(&self, number: usize, index: &Index) -> Result<(), Malformed> {
        let first = self.blocks(number).start;
        let is_told = index.offset(first) == self.offsets[number]
            && index.continued(first) == self.top.continued(number)
            && index.separator(first) == self.top.separator(number);
        if is_told { Ok(()) } else { Err(NOT_AS_TOLD) }
    }

    /// The number of parts.
    pub(crate) fn count(&self) -> usize {
        self.top.count()
    }

    /// The place where part `number` is stored.
    pub(crate) fn handle(&self, number: usize) -> Handle {
        self.top.handle(number)
    }

    /// The place where all parts are stored.
    pub(crate) fn place(&self) -> Handle {
        let offset = self.top.start();
        Handle { offset, len: self.top.end() - offset }
    }

    /// The numbers of the blocks of part `number`.
    pub(crate) fn blocks(&self, number: usize) -> Range<usize> {
        self.firsts[number] as usize..self.firsts[number + 1] as usize
    }

    /// The part that has block `block`, which must be a block of the table.
    pub(crate) fn part_of(&self, block: usize) -> usize {
        self.firsts.partition_point(|&first| first as usize <= block).saturating_sub(1)
    }

    /// Returns the part in which to call [`Index::find`].
    #[inline]
    pub(crate) fn find(&self, key: &[u8], at: SeqNo) -> Option<usize> {
        self.top.find(key, at)
    }

    /// Returns the part in which to call [`Index::find_before`].
    pub(crate) fn find_before(&self, key: &[u8]) -> Option<usize> {
        self.top.find_before(key)
    }

    /// Returns whether part `number` begins inside the versions of the last key of the part before.
    #[inline]
    pub(crate) fn is_continued(&self, number: usize) -> bool {
        number < self.count() && self.top.continued(number).is_some()
    }

    /// The offset where the first block of part `number` begins.
    pub(crate) fn offset(&self, number: usize) -> u64 {
        self.offsets[number]
    }

    /// An estimate of the bytes that the whole index would take in memory.
    pub(crate) fn whole_memory(&self) -> u64 {
        let blocks = self.firsts.last().copied().unwrap_or(0);
        u64::from(blocks) * BLOCK_MEMORY + self.place().len
    }
}

const NOT_AS_TOLD: Malformed =
    Malformed { at: 0, expected: "a part of the index as the top describes it" };

impl TableIndex {
    /// The number of data blocks of the table.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Resident(index) => index.count(),
            Self::InParts(parts) => parts.firsts.last().map_or(0, |&count| count as usize),
        }
    }

    /// The offset of the first data block.
    pub(crate) fn start(&self) -> u64 {
        match self {
            Self::Resident(index) => index.start(),
            Self::InParts(parts) => parts.offset(0),
        }
    }

    /// The end of the last data block.
    pub(crate) fn end(&self) -> u64 {
        match self {
            Self::Resident(index) => index.end(),
            Self::InParts(parts) => parts.offset(parts.count()),
        }
    }

    /// The offset where the data blocks of piece `number` begin; for the number after the last
    /// piece, where they end.
    pub(crate) fn piece_offset(&self, number: usize) -> u64 {
        match self {
            Self::Resident(index) => index.offset(number),
            Self::InParts(parts) => parts.offset(number),
        }
    }

    /// Bytes that the index takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Resident(index) => index.bytes(),
            Self::InParts(parts) => {
                let columns = parts.firsts.capacity() * 4 + parts.offsets.capacity() * 8;
                parts.top.bytes() + columns as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::BLOCK_TRAILER_BYTES;
    use crate::index_builder::{BuiltIndex, IndexBuilder};

    /// The first entry of a block, and the last key before it.
    type Block = ((Vec<u8>, SeqNo), Option<Vec<u8>>);

    /// Builds blocks of few keys, many of which continue over several blocks.
    fn blocks() -> Vec<Block> {
        let (mut blocks, mut last) = (Vec::new(), None);
        for key in 0..40_u8 {
            let key = [b'k', key / 5, key % 5];
            for nth in 0..u64::from(key[2]) * 3 % 7 {
                // The versions before the first version of another key fill no block of their own.
                let first = (key.to_vec(), SeqNo::new(100 - 10 * nth));
                blocks.push((first, last.replace(key.to_vec())));
            }
        }
        blocks
    }

    fn built(part_blocks: usize) -> BuiltIndex {
        let mut builder = IndexBuilder::new(64, part_blocks);
        for (nth, ((key, seqno), before)) in blocks().iter().enumerate() {
            builder.add(100 + nth as u64, (key, *seqno), before.as_deref());
        }
        builder.finish()
    }

    fn whole() -> Index {
        let BuiltIndex::Whole(section) = built(1000) else { panic!("it has parts") };
        Index::decode(&section).unwrap()
    }

    fn in_parts(part_blocks: usize) -> (IndexParts, Vec<Vec<u8>>) {
        let BuiltIndex::InParts { parts, top } = built(part_blocks) else { panic!("no parts") };
        (IndexParts::decode(&top.encode(9_000)).unwrap(), parts)
    }

    #[test]
    fn parts_find_what_the_whole_index_finds() {
        let whole = whole();
        for part_blocks in [1, 2, 3, 7, 50] {
            let (parts, sections) = in_parts(part_blocks);
            assert_eq!(parts.count(), whole.count().div_ceil(part_blocks));
            let part = |number| parts.part(number, &sections[number]).unwrap();
            for key in 0..=255_u8 {
                let keys =
                    [vec![b'k', key / 6, key % 6], vec![b'k', key / 6, key % 6, 0], vec![key]];
                for key in keys {
                    for at in [0, 5, 10, 35, 40, 45, 70, 95, 100, 101] {
                        let at = SeqNo::new(at);
                        let found = parts.find(&key, at).and_then(|p| part(p).find(&key, at));
                        assert_eq!(found, whole.find(&key, at), "{key:?} at {at}");
                    }
                    let before = parts.find_before(&key).and_then(|p| part(p).find_before(&key));
                    assert_eq!(before, whole.find_before(&key), "before {key:?}");
                }
            }
            for number in whole.blocks() {
                let part = part(parts.part_of(number));
                assert!(part.blocks().contains(&number));
                assert_eq!(part.handle(number), whole.handle(number));
                assert_eq!(part.separator(number), whole.separator(number));
                assert_eq!(part.continued(number), whole.continued(number));
            }
        }
    }

    #[test]
    fn all_parts_together_are_the_whole_index() {
        let (whole, (parts, sections)) = (whole(), in_parts(4));
        let sections: Vec<&[u8]> = sections.iter().map(Vec::as_slice).collect();
        let together = parts.whole(&sections).unwrap();
        assert_eq!(together.blocks(), whole.blocks());
        for number in whole.blocks() {
            assert_eq!(together.handle(number), whole.handle(number));
            assert_eq!(together.separator(number), whole.separator(number));
            assert_eq!(together.continued(number), whole.continued(number));
        }
        assert_eq!(together.bytes(), whole.bytes());
        let mut end = 9_000;
        for (number, section) in sections.iter().enumerate() {
            let handle = parts.handle(number);
            assert_eq!(handle.offset, end);
            assert_eq!(handle.len, (section.len() + BLOCK_TRAILER_BYTES) as u64);
            end += handle.len;
        }
        assert_eq!(parts.place(), Handle { offset: 9_000, len: end - 9_000 });
    }

    #[test]
    fn a_part_in_the_place_of_another_is_refused() {
        let (parts, mut sections) = in_parts(4);
        assert_eq!(parts.part(1, &sections[2]).err(), Some(NOT_AS_TOLD));
        sections.swap(1, 2);
        let sections: Vec<&[u8]> = sections.iter().map(Vec::as_slice).collect();
        assert_eq!(parts.whole(&sections).err().unwrap().0, 1);
    }

    #[test]
    fn no_mutated_byte_of_a_top_or_a_part_makes_it_panic() {
        let BuiltIndex::InParts { parts: sections, top } = built(9) else { panic!("no parts") };
        let top = top.encode(9_000);
        let whole = IndexParts::decode(&top).unwrap();
        let mutated = |bytes: &[u8], at: usize, flip| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= flip;
            bytes
        };
        for flip in [1, 2, 0x10, 0x7F, 0x80, 0xFF] {
            for at in 0..top.len() {
                let Ok(parts) = IndexParts::decode(&mutated(&top, at, flip)) else { continue };
                for (number, section) in sections.iter().enumerate().take(parts.count()) {
                    let _ = parts.part(number, section).map(|part| part.find(b"k", SeqNo::MAX));
                }
                let _ =
                    (parts.whole_memory(), parts.find(b"kk", SeqNo::MAX), parts.find_before(b"l"));
            }
            for at in 0..sections[1].len() {
                let _ = whole.part(1, &mutated(&sections[1], at, flip));
            }
        }
    }

    #[test]
    fn an_index_of_one_section_is_its_own_part() {
        let index = whole();
        let handle = Handle { offset: 9_000, len: 700 };
        let parts = IndexParts::of_whole(&index, handle, 1000).unwrap();
        assert_eq!((parts.count(), parts.handle(0)), (1, handle));
        let BuiltIndex::Whole(section) = built(1000) else { panic!("it has parts") };
        let part = parts.part(0, &section).unwrap();
        assert_eq!(part.blocks(), index.blocks());
        assert!(IndexParts::of_whole(&index, handle, index.count() - 1).is_none());
    }
}
