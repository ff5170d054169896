//! Two small sections: range deletes and attachments.
//!
//! ```text
//! range deletes   count varint | count x (SeqNo varint | start bytes | end bytes)
//! attachments     count varint | count x (id varint | bytes)
//! ```

use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::sorted::SortedMap;
use flagstone_base::{Decoder, Malformed, SeqNo, Slice};
use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;

/// The longest varint, in bytes.
const VARINT_BYTES_MAX: usize = 10;

/// A range delete: deletes the keys from `start` up to `end` (exclusive) as of `seqno`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RangeDelete<'a> {
    /// The first key deleted.
    pub start: &'a [u8],
    /// The end of the range, which is not deleted.
    pub end: &'a [u8],
    /// Entries below this SeqNo are deleted.
    pub seqno: SeqNo,
}

impl RangeDelete<'_> {
    /// Returns whether `key` is in the range.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start && key < self.end
    }
}

impl fmt::Debug for RangeDelete<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start.escape_ascii(), self.end.escape_ascii());
        write!(f, "[{start}..{end}){}", self.seqno)
    }
}

/// The range deletes of a table, ordered by start, then newest first. They may overlap. They keep
/// the bytes of their section and nothing else.
#[derive(Clone, Default)]
pub struct RangeDeletes {
    section: Slice,
    count: u64,
    global: Option<SeqNo>,
}

impl RangeDeletes {
    /// Checks `section` and returns its range deletes, which all have the SeqNo `global` if it is
    /// set.
    pub(crate) fn decode(section: Slice, global: Option<SeqNo>) -> Result<Self, Malformed> {
        let count = check_ranges(&section)?;
        Ok(Self { section, count, global })
    }

    /// The number of range deletes.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns all range deletes, decoded one at a time.
    pub fn iter(&self) -> impl Iterator<Item = RangeDelete<'_>> + Clone {
        let mut walk =
            RangeDeleteIter { decoder: Decoder::new(&self.section), left: 0, global: self.global };
        // The section was checked by `decode`.
        walk.left = walk.decoder.varint("a count").unwrap_or(0);
        walk
    }
}

impl fmt::Debug for RangeDeletes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over encoded range deletes that were checked.
#[derive(Clone)]
struct RangeDeleteIter<'a> {
    decoder: Decoder<'a>,
    left: u64,
    global: Option<SeqNo>,
}

impl<'a> Iterator for RangeDeleteIter<'a> {
    type Item = RangeDelete<'a>;

    fn next(&mut self) -> Option<RangeDelete<'a>> {
        self.left = self.left.checked_sub(1)?;
        let range = next_range(&mut self.decoder).ok()?;
        Some(RangeDelete { seqno: self.global.unwrap_or(range.seqno), ..range })
    }
}

fn next_range<'a>(decoder: &mut Decoder<'a>) -> Result<RangeDelete<'a>, Malformed> {
    let seqno = SeqNo::new(decoder.varint("the SeqNo of a range delete")?);
    let (start, end) =
        (decoder.bytes("the start of a range")?, decoder.bytes("the end of a range")?);
    Ok(RangeDelete { start, end, seqno })
}

/// Checks a section of range deletes without using memory. Returns their number.
pub(crate) fn check_ranges(section: &[u8]) -> Result<u64, Malformed> {
    let mut decoder = Decoder::new(section);
    let count = decoder.varint("the number of range deletes")?;
    let mut last: &[u8] = &[];
    for _ in 0..count {
        let at = decoder.position();
        let range = next_range(&mut decoder)?;
        if range.start >= range.end || last > range.start {
            return Err(Malformed { at, expected: "range deletes in order" });
        }
        last = range.start;
    }
    decoder.finish("the end of the range deletes")?;
    Ok(count)
}

/// Builds the section of range deletes. It takes the bytes of the section, and while it sorts 40
/// bytes more for each range if they did not come in order.
pub(crate) struct RangesBuilder {
    /// Space for the count, then the range deletes in the order they were added.
    bytes: Vec<u8>,
    count: u64,
    /// The start of the last range delete, as its place in `bytes`, and its SeqNo.
    last: (Range<usize>, Reverse<SeqNo>),
    is_sorted: bool,
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl Default for RangesBuilder {
    fn default() -> Self {
        Self {
            bytes: vec![0; VARINT_BYTES_MAX],
            count: 0,
            last: (0..0, Reverse(SeqNo::MAX)),
            is_sorted: true,
            smallest: Vec::new(),
            largest: Vec::new(),
        }
    }
}

impl RangesBuilder {
    pub(crate) fn add(&mut self, range: RangeDelete<'_>) {
        let (last, newest_first) = (&self.bytes[self.last.0.clone()], Reverse(range.seqno));
        self.is_sorted &= (last, self.last.1) <= (range.start, newest_first);
        if self.count == 0 || range.start < self.smallest.as_slice() {
            self.smallest = range.start.to_vec();
        }
        if range.end > self.largest.as_slice() {
            self.largest.clear();
            self.largest.extend_from_slice(range.end);
        }
        put_varint(&mut self.bytes, range.seqno.get());
        put_bytes(&mut self.bytes, range.start);
        self.last = (self.bytes.len() - range.start.len()..self.bytes.len(), newest_first);
        put_bytes(&mut self.bytes, range.end);
        self.count += 1;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The approximate length of the section.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.len() - VARINT_BYTES_MAX
    }

    /// The smallest start, or `None` if there are no range deletes.
    pub(crate) fn smallest(&self) -> Option<&[u8]> {
        (!self.is_empty()).then_some(&self.smallest)
    }

    /// The largest end, or `None` if there are no range deletes.
    pub(crate) fn largest(&self) -> Option<&[u8]> {
        (!self.is_empty()).then_some(&self.largest)
    }

    /// Returns the section. Sorts the range deletes first if they did not come in order.
    pub(crate) fn section(&mut self) -> &[u8] {
        if !self.is_sorted {
            self.sort();
        }
        let mut count = Vec::with_capacity(VARINT_BYTES_MAX);
        put_varint(&mut count, self.count);
        let from = VARINT_BYTES_MAX - count.len();
        self.bytes[from..VARINT_BYTES_MAX].copy_from_slice(&count);
        &self.bytes[from..]
    }

    fn sort(&mut self) {
        let decoder = Decoder::new(&self.bytes[VARINT_BYTES_MAX..]);
        let mut ranges: Vec<RangeDelete<'_>> =
            RangeDeleteIter { decoder, left: self.count, global: None }.collect();
        ranges.sort_unstable_by_key(|range| (range.start, Reverse(range.seqno), range.end));
        let mut sorted = Vec::with_capacity(self.bytes.len());
        sorted.resize(VARINT_BYTES_MAX, 0);
        for range in ranges {
            put_varint(&mut sorted, range.seqno.get());
            put_bytes(&mut sorted, range.start);
            put_bytes(&mut sorted, range.end);
        }
        self.bytes = sorted;
        self.is_sorted = true;
    }
}

/// Encodes the section of attachments.
pub(crate) fn encode_attachments(attachments: &SortedMap<u32, Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, attachments.len() as u64);
    for (id, bytes) in attachments.iter() {
        put_varint(&mut out, u64::from(*id));
        put_bytes(&mut out, bytes);
    }
    out
}

/// Decodes a section of attachments, which share the memory of `bytes`.
pub(crate) fn decode_attachments(bytes: Vec<u8>) -> Result<Vec<(u32, Slice)>, Malformed> {
    let bytes = Slice::from(bytes);
    let mut decoder = Decoder::new(&bytes);
    let count = decoder.varint("the number of attachments")?;
    let room = count.min(decoder.remaining() as u64 / 2) as usize;
    let mut attachments: Vec<(u32, Slice)> = Vec::with_capacity(room);
    for _ in 0..count {
        let at = decoder.position();
        let id = decoder.varint_u32("the id of an attachment")?;
        if attachments.last().is_some_and(|(last, _)| *last >= id) {
            return Err(Malformed { at, expected: "attachments in the order of their ids" });
        }
        let len = decoder.bytes("an attachment")?.len();
        attachments.push((id, bytes.slice(decoder.position() - len..decoder.position())));
    }
    decoder.finish("the end of the attachments")?;
    Ok(attachments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range<'a>(start: &'a str, end: &'a str, seqno: u64) -> RangeDelete<'a> {
        RangeDelete { start: start.as_bytes(), end: end.as_bytes(), seqno: SeqNo::new(seqno) }
    }

    #[test]
    fn ranges_are_stored_in_order_however_they_came() {
        let ordered =
            [range("", "z", 1), range("b", "c", 9), range("b", "d", 4), range("x", "y", 2)];
        let section = |order: [usize; 4]| {
            let mut builder = RangesBuilder::default();
            order.iter().for_each(|at| builder.add(ordered[*at]));
            assert_eq!((builder.smallest(), builder.largest()), (Some(&b""[..]), Some(&b"z"[..])));
            builder.section().to_vec()
        };
        let expected = section([0, 1, 2, 3]);
        assert_eq!(section([3, 2, 0, 1]), expected);
        assert_eq!(section([0, 2, 1, 3]), expected);
        let decoded = RangeDeletes::decode(Slice::from(expected), None).unwrap();
        assert!(decoded.iter().eq(ordered));
    }
}
