//! Detects a lost first write: a file with the header of an older segment that holds records of a
//! later one.
//!
//! ```text
//! header of 3 | records of 3 ..    | records of 9, "synced up to" .. | records of 3, of 1 ..
//!             \-- lost: 9's first -/                                  left over from before
//! ```
//! A crash leaves such a file only while nothing in the later segment was synced, its header
//! included. If later records say that they were synced, the file is damaged. Their salt is lost
//! with the header, so a record alone cannot be checked. But the share of the salt in the checksums
//! is the same for all records of a segment: at least two records that agree in it are taken for
//! real. Fragments of old and new records, as a power cut leaves them, do not agree.

use crate::record::{HEADER_BYTES, RecordHeader, RecordPlace};
use crate::segment::{FIRST_RECORD, SegmentHeader};
use flagstone_base::SeqNo;
use flagstone_base::checksum::crc32c;

/// The largest number of possible records that are examined: crafted bytes may hold one at every
/// offset.
const CANDIDATES_MAX: usize = 1024;

/// Returns whether `bytes` hold synced records of segment `number`. `bytes` begin at the offset of
/// a segment's first record; `older` is the header in front of them.
pub(crate) fn holds_a_later_segment(bytes: &[u8], number: u64, older: &SegmentHeader) -> bool {
    let (start, next) = after_records(bytes, older);
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let later = (start..used).filter_map(|at| {
        let (header, payload) = framed(bytes, at)?;
        let could_be = header.first_seqno >= next && header.count > 0 && !payload.is_empty();
        let claims_too_much = u64::from(header.synced_through) > offset(at);
        (could_be && !claims_too_much && !is_of(older, bytes, at)).then_some((at, header, payload))
    });
    let mut shares: Vec<(u32, bool)> = Vec::new();
    for (at, header, payload) in later.take(CANDIDATES_MAX) {
        if crc32c(payload) != header.payload_checksum {
            continue;
        }
        let place = RecordPlace { segment: number, salt: 0, offset: offset(at) };
        let Some(share) = RecordHeader::salt_share(&bytes[at..], place) else { continue };
        let is_synced = u64::from(header.synced_through) > FIRST_RECORD;
        match shares.iter_mut().find(|(other, _)| *other == share) {
            Some((_, other)) if *other || is_synced => return true,
            Some(_) => {}
            None => shares.push((share, is_synced)),
        }
    }
    false
}

const fn offset(at: usize) -> u64 {
    FIRST_RECORD + at as u64
}

/// The header and the payload at `at`, if a record could be there; checksums are not checked.
fn framed(bytes: &[u8], at: usize) -> Option<(RecordHeader, &[u8])> {
    let (header, rest) = bytes.get(at..)?.split_at_checked(HEADER_BYTES)?;
    let header = RecordHeader::decode_unchecked(header).ok()?;
    Some((header, rest.get(..header.payload_len as usize)?))
}

/// Returns whether a valid record header of `segment` is at `at`.
fn is_of(segment: &SegmentHeader, bytes: &[u8], at: usize) -> bool {
    let place = RecordPlace { segment: segment.number(), salt: segment.salt, offset: offset(at) };
    let header = bytes.get(at..at + HEADER_BYTES);
    header.is_some_and(|header| RecordHeader::decode(header, place).is_ok())
}

/// The end of the leading valid records of `segment` in `bytes`, and the SeqNo after them.
fn after_records(bytes: &[u8], segment: &SegmentHeader) -> (usize, SeqNo) {
    let (mut at, mut next) = (0, segment.first_seqno);
    while is_of(segment, bytes, at) {
        // A record that continues after `bytes` is taken for valid.
        let Some((header, payload)) = framed(bytes, at) else { return (bytes.len(), next) };
        if crc32c(payload) != header.payload_checksum {
            break;
        }
        at += HEADER_BYTES + payload.len();
        next = header.next_seqno();
    }
    (at, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RecordKind, payload_checksum};
    use flagstone_base::DatabaseId;

    const PAYLOAD: &[u8] =
        b"one payload for all records, as of a counter that somebody increments \
                             again and again, so that old and new records have the same places and \
                             the same checksums of payloads";

    fn segment(number: u64) -> SegmentHeader {
        let salt = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let header = SegmentHeader::new(DatabaseId([7; 16]), number, salt);
        SegmentHeader { first_seqno: SeqNo::new(number * 1000), ..header }
    }

    /// Twenty records of a segment. If `is_synced`, those from the second on say that the first was
    /// synced.
    fn records(of: &SegmentHeader, is_synced: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for n in 0..20 {
            let offset = offset(bytes.len());
            let header = RecordHeader {
                payload_len: PAYLOAD.len() as u32,
                payload_checksum: payload_checksum(PAYLOAD),
                kind: RecordKind(1),
                first_seqno: of.first_seqno.plus(n),
                count: 1,
                synced_through: if is_synced && n > 0 { FIRST_RECORD as u32 + 100 } else { 0 },
            };
            let place = RecordPlace { segment: of.number(), salt: of.salt, offset };
            bytes.extend_from_slice(&header.encode(place));
            bytes.extend_from_slice(PAYLOAD);
        }
        bytes
    }

    #[test]
    fn later_records_that_were_synced_are_noticed_wherever_the_lost_write_ended() {
        let (older, later) = (segment(3), segment(9));
        let (old, new) = (records(&older, true), records(&later, true));
        assert!(!holds_a_later_segment(&old, 9, &older));
        let record = old.len() / 20;
        for lost in (0..old.len() - 3 * record).step_by(7) {
            let bytes = [&old[..lost], &new[lost..]].concat();
            assert!(holds_a_later_segment(&bytes, 9, &older), "{lost} bytes are lost");
        }
        // A file that was filled with zeroes in advance.
        let prepared = SegmentHeader { first_seqno: SeqNo::ZERO, ..segment(0) };
        let zeroes = vec![0; old.len()];
        assert!(!holds_a_later_segment(&zeroes, 9, &prepared));
        assert!(holds_a_later_segment(&[&zeroes[..999], &new[999..]].concat(), 9, &prepared));
    }

    /// A crash may keep the header of a file that was being filled, and lose the zeroes: a valid
    /// log was refused for the records that an earlier use of the file had left.
    #[test]
    fn a_file_that_was_half_filled_in_advance_is_not_a_lost_segment() {
        let (older, later) = (segment(3), segment(9));
        let prepared = SegmentHeader { first_seqno: later.first_seqno, ..segment(0) };
        assert!(!holds_a_later_segment(&records(&older, true), 9, &prepared));
        let new = records(&later, true);
        let lost = [vec![0; 999], new[999..].to_vec()].concat();
        assert!(holds_a_later_segment(&lost, 9, &prepared));
    }

    /// A header that crosses a sector boundary is half old, half new. All payloads are equal.
    #[test]
    fn sectors_of_old_and_new_records_side_by_side_are_a_crash() {
        let (older, later) = (segment(3), segment(9));
        let (old, new) = (records(&older, true), records(&later, false));
        let sectors = old.len().div_ceil(512);
        for kept in 0..1_u32 << sectors {
            let mut bytes = old.clone();
            for at in (0..sectors).filter(|at| kept >> at & 1 == 1) {
                let end = (at * 512 + 512).min(old.len());
                bytes[at * 512..end].copy_from_slice(&new[at * 512..end]);
            }
            assert!(!holds_a_later_segment(&bytes, 9, &older), "sectors {kept:b}");
        }
    }
}
