//! One record of the log: a header of 28 bytes, then the payload.
//!
//! ```text
//!  0  u32  length of the payload
//!  4  u32  checksum of the payload (CRC-32C), computed by the caller of `enqueue`
//!  8  u64  first SeqNo : 56 (high bits) | kind : 8
//! 16  u32  count: the number of SeqNos that the record takes
//! 20  u32  synced_through: the segment was known to be synced up to this offset
//! 24  u32  checksum of the header (CRC-32C): segment number u64, salt u64, offset of the record
//!          u64, then bytes 0..24
//! 28  payload
//! ```
//!
//! The checksum of the header binds a record to its place. So an old record in a recycled file, or
//! a copy of a record inside a payload, is never taken for a record. The header's checksum covers
//! the checksum of the payload, not the payload: framing a record costs a checksum of 48 bytes,
//! however large the payload is.

use flagstone_base::checksum::{crc32c, crc32c_of_parts, fits};
use flagstone_base::{Decoder, Malformed, SeqNo};
use std::fmt;

/// The length of the header in front of each payload, in bytes.
pub const HEADER_BYTES: usize = 28;

/// The longest payload: 2 GiB - 1, so that a batch of at most 1 GiB fits with its overhead.
pub const PAYLOAD_BYTES_MAX: usize = (2 << 30) - 1;

/// The kind of a record, chosen by the caller. The log itself interprets only
/// [`RecordKind::VOID`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordKind(pub u8);

impl RecordKind {
    /// A record whose SeqNos hold no writes: the writes failed, or were never logged. Only the log
    /// itself creates such records. The payload is empty.
    pub const VOID: Self = Self(0);

    /// A record whose SeqNos may hold writes that the log does not have, for readers of changes.
    /// The payload is empty. The log creates such records itself for writes that have failed, if
    /// it keeps changes.
    pub const GAP: Self = Self(3);
}

/// The checksum that [`crate::Log::enqueue`] takes with a payload. Compute it outside of locks.
#[inline]
pub fn payload_checksum(payload: &[u8]) -> u32 {
    crc32c(payload)
}

/// The [`payload_checksum`] of the concatenation of `parts`.
#[inline]
pub fn payload_checksum_of_parts(parts: &[&[u8]]) -> u32 {
    crc32c_of_parts(parts)
}

/// The place of a record. No two records of a database ever have the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) segment: u64,
    pub(crate) salt: u64,
    pub(crate) offset: u64,
}

/// The header of a record, in front of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The length of the payload in bytes.
    pub payload_len: u32,
    /// The CRC-32C of the payload.
    pub payload_checksum: u32,
    /// The kind of the record.
    pub kind: RecordKind,
    /// The first SeqNo of the record.
    pub first_seqno: SeqNo,
    /// The number of SeqNos that the record takes.
    pub count: u32,
    /// The offset up to which the segment was known to be synced.
    pub synced_through: u32,
}

fn checksum(place: RecordPlace, fields: &[u8; 24]) -> u32 {
    let mut covered = [0; 48];
    covered[..8].copy_from_slice(&place.segment.to_le_bytes());
    covered[8..16].copy_from_slice(&place.salt.to_le_bytes());
    covered[16..24].copy_from_slice(&place.offset.to_le_bytes());
    covered[24..].copy_from_slice(fields);
    crc32c(&covered)
}

impl RecordHeader {
    /// The bytes of the header at `place`.
    pub(crate) fn encode(&self, place: RecordPlace) -> [u8; HEADER_BYTES] {
        let mut fields = [0; 24];
        fields[..4].copy_from_slice(&self.payload_len.to_le_bytes());
        fields[4..8].copy_from_slice(&self.payload_checksum.to_le_bytes());
        let word = self.first_seqno.get() << 8 | u64::from(self.kind.0);
        fields[8..16].copy_from_slice(&word.to_le_bytes());
        fields[16..20].copy_from_slice(&self.count.to_le_bytes());
        fields[20..].copy_from_slice(&self.synced_through.to_le_bytes());
        let mut bytes = [0; HEADER_BYTES];
        bytes[..24].copy_from_slice(&fields);
        bytes[24..].copy_from_slice(&checksum(place, &fields).to_le_bytes());
        bytes
    }

    /// Decodes the fields without checking the checksum: a cheap first test.
    #[inline]
    pub(crate) fn decode_unchecked(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let payload_len = decoder.u32("the length of a payload")?;
        let payload_checksum = decoder.u32("the checksum of a payload")?;
        let word = decoder.u64("a SeqNo and a kind")?;
        let count = decoder.u32("a count of SeqNos")?;
        let synced_through = decoder.u32("a synced offset")?;
        Ok(Self {
            payload_len,
            payload_checksum,
            kind: RecordKind(word as u8),
            first_seqno: SeqNo::new(word >> 8),
            count,
            synced_through,
        })
    }

    /// Decodes the header at `place` and checks its checksum.
    pub(crate) fn decode(bytes: &[u8], place: RecordPlace) -> Result<Self, Malformed> {
        let header = Self::decode_unchecked(bytes)?;
        let mut decoder = Decoder::new(bytes);
        let fields = decoder.array("the fields of a record header")?;
        let found = decoder.u32("the checksum of a record header")?;
        let fits = fits(checksum(place, &fields), found)
            && header.payload_len as usize <= PAYLOAD_BYTES_MAX
            && u64::from(header.synced_through) <= place.offset;
        if fits { Ok(header) } else { Err(Malformed { at: 0, expected: "a record header" }) }
    }

    /// The share of the segment's salt in the checksum of the header at `place`; `place.salt` is
    /// ignored. CRCs are linear, so the share is the same for all records of a segment, wherever
    /// they are. For other bytes it is practically random.
    pub(crate) fn salt_share(bytes: &[u8], place: RecordPlace) -> Option<u32> {
        let mut decoder = Decoder::new(bytes);
        let fields = decoder.array("the fields of a record header").ok()?;
        let found = decoder.u32("the checksum of a record header").ok()?;
        Some(found ^ checksum(RecordPlace { salt: 0, ..place }, &fields))
    }

    /// The first SeqNo of the next record.
    pub const fn next_seqno(&self) -> SeqNo {
        self.first_seqno.plus(self.count as u64)
    }

    /// The length of header and payload together, in bytes.
    pub const fn framed_len(&self) -> u64 {
        HEADER_BYTES as u64 + self.payload_len as u64
    }
}

impl fmt::Display for RecordHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RecordKind::VOID => f.write_str("void")?,
            RecordKind(kind) => write!(f, "kind {kind}")?,
        }
        let (first, end) = (self.first_seqno, self.next_seqno());
        write!(f, " {first}..{end} {} bytes, synced {}", self.payload_len, self.synced_through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RecordPlace = RecordPlace { segment: 7, salt: 0x1122_3344_5566_7788, offset: 192 };

    fn header() -> RecordHeader {
        RecordHeader {
            payload_len: 5,
            payload_checksum: payload_checksum(b"hello"),
            kind: RecordKind(2),
            first_seqno: SeqNo::new(100),
            count: 3,
            synced_through: 192,
        }
    }

    #[test]
    fn a_record_header_has_these_bytes() {
        let hex: String = header().encode(PLACE).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, GOLDEN);
        assert_eq!(RecordHeader::decode(&header().encode(PLACE), PLACE), Ok(header()));
        assert_eq!(header().to_string(), "kind 2 #100..#103 5 bytes, synced 192");
    }

    const GOLDEN: &str = "050000004cbb719a026400000000000003000000c0000000527cee06";

    #[test]
    fn a_flipped_bit_or_another_place_is_refused() {
        let bytes = header().encode(PLACE);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(RecordHeader::decode(&damaged, PLACE).is_err(), "bit {bit}");
        }
        for other in [
            RecordPlace { segment: 8, ..PLACE },
            RecordPlace { salt: 1, ..PLACE },
            RecordPlace { offset: 193, ..PLACE },
        ] {
            assert!(RecordHeader::decode(&bytes, other).is_err());
        }
        assert!(RecordHeader::decode(&bytes[..27], PLACE).is_err());
    }
}
