//! Two small sections: range deletes and attachments.
//!
//! ```text
//! range deletes   count varint | count x (SeqNo varint | start bytes | end bytes)
//! attachments     count varint | count x (id varint | bytes)
//! ```

use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::{Decoder, Malformed, SeqNo, Slice};
use std::collections::BTreeMap;
use std::fmt;

/// The keys from `start` up to `end` (exclusive) are absent as of `seqno`.
#[derive(Clone, PartialEq, Eq)]
pub struct RangeDelete {
    /// The first key deleted.
    pub start: Slice,
    /// The first key no longer deleted.
    pub end: Slice,
    /// Entries below this SeqNo are deleted.
    pub seqno: SeqNo,
}

impl RangeDelete {
    /// Whether `key` lies in the range.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && key < &self.end[..]
    }
}

impl fmt::Debug for RangeDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start.escape_ascii(), self.end.escape_ascii());
        write!(f, "[{start}..{end}){}", self.seqno)
    }
}

/// The bytes of the section of range deletes, which are sorted first.
pub(crate) fn encode_ranges(ranges: &mut [RangeDelete]) -> Vec<u8> {
    ranges.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| b.seqno.cmp(&a.seqno)));
    let mut out = Vec::new();
    put_varint(&mut out, ranges.len() as u64);
    for range in ranges {
        put_varint(&mut out, range.seqno.get());
        put_bytes(&mut out, &range.start);
        put_bytes(&mut out, &range.end);
    }
    out
}

/// Reads a section of range deletes; their bounds share its memory.
pub(crate) fn decode_ranges(
    bytes: Vec<u8>,
    global: Option<SeqNo>,
) -> Result<Vec<RangeDelete>, Malformed> {
    let bytes = Slice::from(bytes);
    let mut decoder = Decoder::new(&bytes);
    let count = decoder.varint("the number of range deletes")?;
    // A range takes at least four bytes here.
    let room = count.min(decoder.remaining() as u64 / 4) as usize;
    let mut ranges: Vec<RangeDelete> = Vec::with_capacity(room);
    for _ in 0..count {
        let at = decoder.position();
        let seqno = SeqNo::new(decoder.varint("the SeqNo of a range delete")?);
        let mut next = |expected| {
            let len = decoder.bytes(expected)?.len();
            Ok(bytes.slice(decoder.position() - len..decoder.position()))
        };
        let (start, end) = (next("the start of a range")?, next("the end of a range")?);
        if start >= end || ranges.last().is_some_and(|last| last.start > start) {
            return Err(Malformed { at, expected: "range deletes in order" });
        }
        ranges.push(RangeDelete { start, end, seqno: global.unwrap_or(seqno) });
    }
    decoder.finish("the end of the range deletes")?;
    Ok(ranges)
}

/// The bytes of the section of attachments.
pub(crate) fn encode_attachments(attachments: &BTreeMap<u32, Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, attachments.len() as u64);
    for (id, bytes) in attachments {
        put_varint(&mut out, u64::from(*id));
        put_bytes(&mut out, bytes);
    }
    out
}

/// Reads a section of attachments; they share its memory.
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
