//! An index in memory: tells which block may hold a key. It covers a whole table, one part of an
//! index, or the parts themselves (`index_parts.rs`).
//!
//! Each block has a separator: the shortest prefix of its first key that is above the last key of
//! the block before (for the first block, its whole first key). A block that begins inside the
//! versions of one key is *continued*: its separator is that key, and the index keeps its first
//! SeqNo too.
//!
//! ```text
//! section   blocks varint | first offset varint | continued varint
//!           | blocks x (stored length varint | shared varint | suffix bytes)
//!           | continued x (block number, as distance from the one before, varint | SeqNo varint)
//! ```
//!
//! In memory the prefix that all separators share is cut off. The next eight bytes of each
//! separator, its *front*, form a column of big-endian integers (16 KiB for 2,000 blocks). A search
//! is a binary search among every sixteenth front, which stay in the processor's caches, then a
//! count among sixteen fronts: one cache miss where a plain binary search has several. The rest of
//! a separator is compared only where fronts are equal.

use crate::properties::Handle;
use crate::separators::Separators;
use flagstone_base::bytes::common_prefix;
use flagstone_base::key::{KEY_BYTES_MAX, key_front as front};
use flagstone_base::{Decoder, Malformed, SeqNo};
use std::ops::Range;

/// The distance between two fronts of the guide: two cache lines.
const GUIDE_STEP: usize = 16;

/// The index of consecutive blocks. Blocks are numbered as in their table.
#[derive(Default)]
pub(crate) struct Index {
    /// The number of the first block.
    first: usize,
    /// The prefix that all separators share.
    common: Vec<u8>,
    /// The eight bytes of each separator after `common`, padded with zeros.
    fronts: Vec<u64>,
    /// Every sixteenth of `fronts`.
    guide: Vec<u64>,
    /// The offset of each block, and the end of the last one.
    offsets: Vec<u64>,
    /// The separators without `common`.
    rests: Separators,
    /// The continued blocks, each with its first SeqNo.
    continued: Vec<(u32, SeqNo)>,
}

/// Reads the blocks that an index section lists, one after another.
struct Blocks<'a> {
    decoder: Decoder<'a>,
    count: usize,
    continued: usize,
    offset: u64,
    /// The separator of the last block read.
    separator: Vec<u8>,
}

impl<'a> Blocks<'a> {
    /// Starts before the first block of `section`.
    fn of(section: &'a [u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(section);
        let count = decoder.varint_u32("the number of blocks")? as usize;
        let offset = decoder.varint("the offset of the first block")?;
        let continued = decoder.varint_u32("the number of continued blocks")? as usize;
        // A block takes at least three bytes here, a continued block two more.
        if count > decoder.remaining() / 3 || continued > count {
            return Err(decoder.refuse("as many blocks as it says"));
        }
        Ok(Self { decoder, count, continued, offset, separator: Vec::new() })
    }

    /// Reads the next block and returns how many bytes its separator shares with the one before.
    /// Sets `offset` to the end of the block.
    fn next(&mut self) -> Result<usize, Malformed> {
        let at = self.decoder.position();
        let len = self.decoder.varint("the length of a block")?;
        let shared = self.decoder.varint_usize("a shared length")?;
        let suffix = self.decoder.bytes("a separator")?;
        let fits = shared <= self.separator.len() && shared + suffix.len() <= KEY_BYTES_MAX;
        let Some(end) = self.offset.checked_add(len).filter(|_| fits && len > 0) else {
            return Err(Malformed { at, expected: "a block's place and separator" });
        };
        if self.separator[shared..] > *suffix {
            return Err(Malformed { at, expected: "separators in order" });
        }
        self.offset = end;
        self.separator.truncate(shared);
        self.separator.extend_from_slice(suffix);
        Ok(shared)
    }
}

/// Reads an index from one section, or from several consecutive ones: first measures all sections,
/// then fills the index.
#[derive(Default)]
pub(crate) struct IndexReader {
    index: Index,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Bytes of all separators when whole.
    whole_bytes: u64,
    section_bytes: usize,
}

impl IndexReader {
    /// Checks and measures the next section.
    pub(crate) fn measure(&mut self, section: &[u8]) -> Result<(), Malformed> {
        let mut blocks = Blocks::of(section)?;
        let Index { offsets, .. } = &mut self.index;
        let before = offsets.len().saturating_sub(1);
        offsets.reserve(blocks.count + 1);
        match offsets.last() {
            None => offsets.push(blocks.offset),
            Some(end) if *end == blocks.offset => {}
            Some(_) => return Err(Malformed { at: 0, expected: "the blocks that follow" }),
        }
        for number in 0..blocks.count {
            let at = blocks.decoder.position();
            blocks.next()?;
            offsets.push(blocks.offset);
            self.whole_bytes += blocks.separator.len() as u64;
            if number == 0 && before == 0 {
                self.first.clone_from(&blocks.separator);
            } else if number == 0 && self.last > blocks.separator {
                return Err(Malformed { at, expected: "separators in order" });
            }
        }
        self.continued(&mut blocks, before)?;
        blocks.decoder.finish("the end of the index")?;
        self.section_bytes += section.len();
        self.last = blocks.separator;
        Ok(())
    }

    /// Reads the continued blocks of a section; `before` is the number of blocks in the sections
    /// before.
    fn continued(&mut self, blocks: &mut Blocks<'_>, before: usize) -> Result<(), Malformed> {
        self.index.continued.reserve(blocks.continued);
        let (decoder, mut block) = (&mut blocks.decoder, 0_u32);
        for nth in 0..blocks.continued {
            let at = decoder.position();
            let distance = decoder.varint_u32("the distance to a continued block")?;
            let seqno = SeqNo::new(decoder.varint("the SeqNo of a continued block")?);
            block = match block.checked_add(distance) {
                // The first block of a part may be continued.
                Some(next) if (distance > 0 || nth == 0) && (next as usize) < blocks.count => next,
                _ => return Err(Malformed { at, expected: "the number of a block" }),
            };
            self.index.continued.push((before as u32 + block, seqno));
        }
        Ok(())
    }

    /// The number of blocks measured, and the end of the last one.
    pub(crate) fn measured(&self) -> (usize, u64) {
        (self.index.offsets.len().saturating_sub(1), self.index.end())
    }

    /// Returns the index of all `sections`, which were measured in this order.
    pub(crate) fn fill(self, sections: &[&[u8]]) -> Result<Index, Malformed> {
        let (count, _end) = self.measured();
        let mut index = self.index;
        let common = common_prefix(&self.first, &self.last);
        index.common = self.first[..common].to_vec();
        let whole_bytes = self.whole_bytes - (common * count) as u64;
        index.rests = Separators::new(count, whole_bytes, self.section_bytes);
        index.fronts.reserve_exact(count);
        for section in sections {
            let mut blocks = Blocks::of(section)?;
            for _ in 0..blocks.count {
                let shared = blocks.next()?;
                let rest = &blocks.separator[common..];
                index.fronts.push(front(rest));
                index.rests.push(shared.saturating_sub(common), rest);
            }
        }
        index.guide = index.fronts.iter().copied().step_by(GUIDE_STEP).collect();
        index.offsets.shrink_to_fit();
        index.continued.shrink_to_fit();
        index.rests.shrink_to_fit();
        Ok(index)
    }
}

impl Index {
    /// Decodes a section. The index takes a fixed multiple of the section's bytes in memory.
    pub(crate) fn decode(section: &[u8]) -> Result<Self, Malformed> {
        let mut reader = IndexReader::default();
        reader.measure(section)?;
        reader.fill(&[section])
    }

    /// Returns the index with `first` as the number of its first block.
    pub(crate) fn starting_at(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// The stored length of the longest block.
    pub(crate) fn block_len_max(&self) -> u64 {
        self.offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// Returns the number of fronts below `front`.
    #[inline]
    fn below(&self, front: u64) -> usize {
        let end = self.guide.partition_point(|&other| other < front) * GUIDE_STEP;
        let start = end.saturating_sub(GUIDE_STEP);
        let among = &self.fronts[start..end.min(self.fronts.len())];
        start + among.iter().map(|&other| usize::from(other < front)).sum::<usize>()
    }

    /// The number of blocks.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.rests.count()
    }

    /// The numbers of the blocks.
    #[inline]
    pub(crate) fn blocks(&self) -> Range<usize> {
        self.first..self.first + self.count()
    }

    /// The offset where block `number` begins. For the number after the last block, the end of
    /// that.
    #[inline]
    pub(crate) fn offset(&self, number: usize) -> u64 {
        self.offsets[number - self.first]
    }

    /// The place where block `number` is stored.
    #[inline]
    pub(crate) fn handle(&self, number: usize) -> Handle {
        let offset = self.offset(number);
        Handle { offset, len: self.offset(number + 1) - offset }
    }

    /// Returns the largest block end at or below `limit`, among `number` and later blocks, or the
    /// end of `number` if all ends are above `limit`.
    pub(crate) fn end_within(&self, number: usize, limit: u64) -> u64 {
        let ends = &self.offsets[number - self.first + 1..];
        ends[ends.partition_point(|end| *end <= limit).saturating_sub(1)]
    }

    /// Returns the smallest block start at or above `limit`, among `number` and earlier blocks, or
    /// the start of `number` if all starts are below `limit`.
    pub(crate) fn start_within(&self, number: usize, limit: u64) -> u64 {
        let starts = &self.offsets[..=number - self.first];
        starts[starts.partition_point(|start| *start < limit).min(starts.len() - 1)]
    }

    /// The end of the last block.
    pub(crate) fn end(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// The start of the first block.
    pub(crate) fn start(&self) -> u64 {
        self.offsets.first().copied().unwrap_or(0)
    }

    /// Returns all bytes of the separator of block `number`.
    pub(crate) fn separator(&self, number: usize) -> Vec<u8> {
        let mut separator = self.common.clone();
        self.rests.append(number - self.first, &mut separator);
        separator
    }

    /// Returns the first SeqNo of block `number` if the block is continued.
    #[inline]
    pub(crate) fn continued(&self, number: usize) -> Option<SeqNo> {
        self.continued_at(number - self.first)
    }

    /// As [`Index::continued`]; `place` counts from the first block of this index.
    fn continued_at(&self, place: usize) -> Option<SeqNo> {
        let found = self.continued.binary_search_by_key(&place, |(block, _)| *block as usize);
        found.ok().map(|at| self.continued[at].1)
    }

    /// Returns the number of separators at or below `key`.
    #[inline]
    fn at_or_below(&self, key: &[u8]) -> usize {
        let rest = if self.common.is_empty() {
            key
        } else if let Some(rest) = key.strip_prefix(self.common.as_slice()) {
            rest
        } else {
            return if key < self.common.as_slice() { 0 } else { self.count() };
        };
        let front = front(rest);
        let from = self.below(front);
        if self.fronts.get(from) != Some(&front) {
            return from;
        }
        let mut to = from + self.fronts[from..].partition_point(|&other| other == front);
        let mut from = from;
        while from < to {
            let middle = from + (to - from) / 2;
            if self.rests.order(middle, rest).is_le() {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// Returns the block that holds the first entry at or after (`key`, `at`), unless that entry is
    /// the first of the next block. Returns `None` if `key` is below the first key.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], at: SeqNo) -> Option<usize> {
        let mut place = self.at_or_below(key).checked_sub(1)?;
        if self.continued.is_empty() {
            return Some(self.first + place);
        }
        // Go back over blocks that begin with versions of this key older than `at`.
        while let Some(first) = self.continued_at(place) {
            if !self.begins_with(place, key) || first >= at || place == 0 {
                break;
            }
            place -= 1;
        }
        Some(self.first + place)
    }

    /// Returns whether the separator of the block at `place` is `key`.
    fn begins_with(&self, place: usize, key: &[u8]) -> bool {
        let rest = key.strip_prefix(self.common.as_slice());
        rest.is_some_and(|rest| self.rests.is(place, rest))
    }

    /// Returns the last block that may hold a key below `key`, or `None` if there is none.
    pub(crate) fn find_before(&self, key: &[u8]) -> Option<usize> {
        let mut place = self.at_or_below(key).checked_sub(1)?;
        // A block that begins with `key` itself has nothing below `key`. Only the first block is
        // returned even then; the cursor finds nothing in it.
        while place > 0 && self.continued_at(place).is_some() && self.begins_with(place, key) {
            place -= 1;
        }
        Some(self.first + place)
    }

    /// Bytes that the index takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.common.capacity()
            + (self.fronts.capacity() + self.guide.capacity()) * 8
            + self.offsets.capacity() * 8
            + self.rests.memory()
            + self.continued.capacity() * size_of::<(u32, SeqNo)>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index_builder::{BuiltIndex, IndexBuilder};

    /// Returns the section of an index that is not in parts.
    fn whole(builder: IndexBuilder) -> Vec<u8> {
        match builder.finish() {
            BuiltIndex::Whole(section) => section,
            BuiltIndex::InParts { .. } => panic!("it has parts"),
        }
    }

    fn index(blocks: &[(&[u8], &[u8], u64)]) -> Vec<u8> {
        let mut builder = IndexBuilder::new(64, 4096);
        let mut last = None;
        for (first, end, seqno) in blocks {
            builder.add(10, (first, SeqNo::new(*seqno)), last);
            last = Some(*end);
        }
        whole(builder)
    }

    #[test]
    fn a_key_is_found_in_the_block_that_may_hold_it() {
        let bytes = index(&[(b"xabc", b"xabd", 1), (b"xm", b"xq", 1), (b"xqq", b"xz", 1)]);
        let index = Index::decode(&bytes).unwrap();
        assert_eq!(index.common, b"x");
        let find = |key: &[u8]| index.find(key, SeqNo::MAX);
        assert_eq!(find(b"w"), None);
        assert_eq!(find(b"xabb"), None);
        assert_eq!(find(b"xabc"), Some(0));
        assert_eq!(find(b"xl"), Some(0));
        assert_eq!(find(b"xm"), Some(1));
        assert_eq!(find(b"xq"), Some(1));
        assert_eq!(find(b"xqq"), Some(2));
        assert_eq!(find(b"z"), Some(2));
        assert_eq!(index.handle(2), Handle { offset: 84, len: 10 });
    }

    #[test]
    fn blocks_end_within_a_limit_or_with_the_first() {
        let bytes = index(&[(b"a", b"b", 1), (b"c", b"d", 1), (b"e", b"f", 1)]);
        let index = Index::decode(&bytes).unwrap();
        let ends = |number| [0, 74, 83, 84, 93, 94, 95, 1000].map(|l| index.end_within(number, l));
        assert_eq!(ends(0), [74, 74, 74, 84, 84, 94, 94, 94]);
        assert_eq!(ends(1), [84, 84, 84, 84, 84, 94, 94, 94]);
        assert_eq!(ends(2), [94; 8]);
    }

    #[test]
    fn every_key_is_found_among_many_blocks() {
        for count in [1_u32, 15, 16, 17, 32, 33, 100, 1000] {
            let mut builder = IndexBuilder::new(64, 4096);
            let key = |i: u32| (3 * i + 1000).to_be_bytes();
            for i in 0..count {
                let last = i.checked_sub(1).map(|before| (3 * before + 1001).to_be_bytes());
                let last = last.as_ref().map(<[u8; 4]>::as_slice);
                builder.add(10, (key(i).as_slice(), SeqNo::new(1)), last);
            }
            let index = Index::decode(&whole(builder)).unwrap();
            for i in 0..count {
                let found = index.find(&key(i), SeqNo::MAX);
                assert_eq!(found, Some(i as usize), "{i} of {count}");
                assert_eq!(index.find(&(3 * i + 1001).to_be_bytes(), SeqNo::MAX), found);
            }
            assert_eq!(index.find(&999_u32.to_be_bytes(), SeqNo::MAX), None);
        }
    }

    #[test]
    fn a_key_over_many_blocks_is_found_by_its_seqno() {
        let bytes =
            index(&[(b"a", b"k", 99), (b"k", b"k", 50), (b"k", b"k", 30), (b"k", b"z", 10)]);
        let index = Index::decode(&bytes).unwrap();
        let find = |at| index.find(b"k", SeqNo::new(at));
        assert_eq!([60, 50, 49, 30, 29, 10, 9].map(find), [0, 1, 1, 2, 2, 3, 3].map(Some));
        assert_eq!(index.find_before(b"k"), Some(0));
        assert_eq!(index.find_before(b"l"), Some(3));
    }

    #[test]
    fn no_mutated_byte_makes_it_panic() {
        let good = index(&[(b"a", b"k", 99), (b"k", b"k", 50), (b"kk", b"kl", 30)]);
        for at in 0..good.len() {
            for flip in 1..=255 {
                let mut broken = good.clone();
                broken[at] ^= flip;
                let Ok(index) = Index::decode(&broken) else { continue };
                for key in [b"".as_slice(), b"a", b"k", b"kkk", b"z"] {
                    let _ = (index.find(key, SeqNo::MAX), index.find_before(key));
                }
            }
        }
    }
}
