//! The header of a segment, one file of the log: 96 bytes, written twice, so that one damaged copy
//! neither hides the segment nor its damage.
//!
//! ```text
//!  0  8 bytes   magic "flagWAL\n"
//!  8  u32       format version: 1
//! 12  u32       flags: 1 = first of a session (SeqNos may jump), 2 = the file was recycled
//! 16  u32       compatible feature bits: readers that do not know one read on
//! 20  u32       read-incompatible feature bits: readers that do not know one refuse
//! 24  u32       write-incompatible feature bits: a reader may read, nobody may write on
//! 28  16 bytes  database id
//! 44  u64       segment number, as in the file's name
//! 52  u64       salt: random, part of every record's checksum
//! 60  u64       number of the previous segment, 0 = none
//! 68  u64       where the previous segment's valid records end: known synced up to there
//! 76  u64       SeqNo of the first record
//! 84  8 bytes   zero
//! 92  u32       CRC-32C of bytes 0..92
//! 96  the same 96 bytes again; the first record begins at 192
//! ```
//!
//! A file whose header bears another number than its name, or none, is an empty segment: made
//! ready to be used, or recycled and not yet written again.

use flagstone_base::checksum::{crc32c, fits};
use flagstone_base::{DatabaseId, Decoder, Error, ErrorKind, FileNumber, Malformed, Result, SeqNo};
use std::fmt;
use std::path::Path;

const MAGIC: [u8; 8] = *b"flagWAL\n";
const VERSION: u32 = 1;
const COPY_BYTES: usize = 96;

/// Where the first record of a segment begins.
pub const FIRST_RECORD: u64 = 2 * COPY_BYTES as u64;

/// The first segment since the log was opened: its SeqNos need not join the ones before.
pub(crate) const FLAG_SESSION: u32 = 1;
/// The file held another segment before.
pub(crate) const FLAG_RECYCLED: u32 = 2;

/// What stands at the start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) flags: u32,
    pub(crate) read_incompatible: u32,
    pub(crate) write_incompatible: u32,
    pub(crate) version: u32,
    pub(crate) database: DatabaseId,
    pub(crate) number: u64,
    pub(crate) salt: u64,
    pub(crate) previous: u64,
    pub(crate) previous_end: u64,
    pub(crate) first_seqno: SeqNo,
}

/// A header that was read, and whether both its copies were whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundHeader {
    pub(crate) header: SegmentHeader,
    pub(crate) is_whole: bool,
}

impl SegmentHeader {
    pub(crate) fn new(database: DatabaseId, number: u64, salt: u64) -> Self {
        Self {
            flags: 0,
            read_incompatible: 0,
            write_incompatible: 0,
            version: VERSION,
            database,
            number,
            salt,
            previous: 0,
            previous_end: 0,
            first_seqno: SeqNo::ZERO,
        }
    }

    pub(crate) const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Appends both copies.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        let words = [self.version, self.flags, 0, self.read_incompatible, self.write_incompatible];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out.extend_from_slice(&self.database.0);
        let first = self.first_seqno.get();
        let words = [self.number, self.salt, self.previous, self.previous_end, first, 0];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        let checksum = crc32c(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_within(start..);
    }

    /// The header that `bytes` begins with, from whichever copy is whole; `None` without one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<FoundHeader> {
        let mut copies = bytes.chunks_exact(COPY_BYTES).take(2).map(|c| Self::decode_copy(c).ok());
        let (first, second) = (copies.next().flatten(), copies.next().flatten());
        let header = first.or(second)?;
        Some(FoundHeader { header, is_whole: first == second })
    }

    fn decode_copy(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.array("the magic of a segment")? != MAGIC {
            return Err(Malformed { at: 0, expected: "the magic of a segment" });
        }
        let mut word = || decoder.u32("a word of a segment header");
        let (version, flags, _compatible) = (word()?, word()?, word()?);
        let (read_incompatible, write_incompatible) = (word()?, word()?);
        let database = DatabaseId(decoder.array("a database id")?);
        let mut word = || decoder.u64("a word of a segment header");
        let (number, salt, previous, previous_end) = (word()?, word()?, word()?, word()?);
        let (first_seqno, _reserved) = (SeqNo::new(word()?), word()?);
        let covered = &bytes[..decoder.position()];
        let checksum = decoder.u32("the checksum of a segment header")?;
        if !fits(crc32c(covered), checksum) {
            return Err(Malformed { at: 0, expected: "a whole segment header" });
        }
        Ok(Self {
            flags,
            read_incompatible,
            write_incompatible,
            version,
            database,
            number,
            salt,
            previous,
            previous_end,
            first_seqno,
        })
    }

    /// Refuses what this code cannot read, and segments of other databases.
    pub(crate) fn check_readable(&self, path: &Path, database: DatabaseId) -> Result<()> {
        let path = path.display();
        let refusal = if self.version > VERSION {
            format!("{path}: format version {}, this build reads up to {VERSION}", self.version)
        } else if self.read_incompatible != 0 {
            format!("{path}: unknown read-incompatible features {:#x}", self.read_incompatible)
        } else if self.database != database {
            format!("{path}: belongs to database {}, not to {database}", self.database)
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Unsupported, refusal))
    }
}

impl fmt::Display for SegmentHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} of {}, from {}", self.number, self.database, self.first_seqno)?;
        if self.previous == 0 {
            f.write_str(", behind none")?;
        } else {
            write!(f, ", behind {} which ends at {}", self.previous, self.previous_end)?;
        }
        if self.has(FLAG_SESSION) {
            f.write_str(", begins a session")?;
        }
        if self.has(FLAG_RECYCLED) {
            f.write_str(", recycled")?;
        }
        Ok(())
    }
}

/// A segment of the log: its file, its size, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The number in its name.
    pub number: FileNumber,
    /// How many of its bytes are in use.
    pub bytes: u64,
    /// The first SeqNo it may hold.
    pub first_seqno: SeqNo,
    /// The SeqNo behind its last one; equal to the first when it holds none.
    pub next_seqno: SeqNo,
}

impl SegmentInfo {
    /// The last SeqNo it holds, if any.
    pub fn last_seqno(&self) -> Option<SeqNo> {
        let some = self.next_seqno > self.first_seqno;
        some.then(|| SeqNo::new(self.next_seqno.get() - 1))
    }

    /// Whether all it holds is at or below `seqno`.
    pub(crate) fn ends_by(&self, seqno: SeqNo) -> bool {
        self.next_seqno.get() <= seqno.get().saturating_add(1)
    }
}

impl fmt::Display for SegmentInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, bytes, first_seqno, next_seqno } = self;
        write!(f, "{number} [{first_seqno}..{next_seqno}] {bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            flags: FLAG_RECYCLED,
            previous: 6,
            previous_end: 4096,
            first_seqno: SeqNo::new(1000),
            ..SegmentHeader::new(DatabaseId(*b"0123456789abcdef"), 7, 0x1122_3344_5566_7788)
        }
    }

    fn bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        header().encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_segment_header_has_these_bytes_twice() {
        let bytes = bytes();
        assert_eq!(bytes.len() as u64, FIRST_RECORD);
        assert_eq!(bytes[..COPY_BYTES], bytes[COPY_BYTES..]);
        let hex: String = bytes[..COPY_BYTES].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, GOLDEN);
        let found = SegmentHeader::decode(&bytes);
        assert_eq!(found, Some(FoundHeader { header: header(), is_whole: true }));
    }

    const GOLDEN: &str = "666c616757414c0a0100000002000000000000000000000000000000303132333435\
        36373839616263646566070000000000000088776655443322110600000000000000001000000000\
        0000e803000000000000000000000000000005956201";

    #[test]
    fn one_damaged_copy_is_noticed_and_the_other_one_serves() {
        let bytes = bytes();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = SegmentHeader::decode(&damaged);
            assert_eq!(found, Some(FoundHeader { header: header(), is_whole: false }), "{bit}");
            damaged[(bit / 8 + COPY_BYTES) % bytes.len()] ^= 1;
            assert_eq!(SegmentHeader::decode(&damaged), None);
        }
        assert_eq!(SegmentHeader::decode(&bytes[..95]), None);
        assert_eq!(SegmentHeader::decode(&[]), None);
    }

    #[test]
    fn newer_and_foreign_segments_are_refused_by_kind() {
        let mine = header().database;
        let path = Path::new("000007.wal");
        assert!(header().check_readable(path, mine).is_ok());
        for (refused, database) in [
            (SegmentHeader { version: 2, ..header() }, mine),
            (SegmentHeader { read_incompatible: 8, ..header() }, mine),
            (header(), DatabaseId::default()),
        ] {
            let error = refused.check_readable(path, database).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
}
