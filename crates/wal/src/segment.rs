//! The header of a segment, which is one file of the log. Its 112 bytes are written twice, 4 KiB
//! apart, so that the loss of one sector or page hides neither the segment nor its damage.
//!
//! ```text
//!  0  8 bytes   magic "flagWAL\n"
//!  8  u32       format version: 3
//! 12  u32       flags: 1 = first of a session (SeqNos may jump), 2 = the file was recycled
//! 16  u32       compatible feature bits: readers ignore unknown ones
//! 20  u32       read-incompatible feature bits: readers refuse a file with an unknown one
//! 24  u32       write-incompatible feature bits: a log with an unknown one is read, not continued
//! 28  16 bytes  database id
//! 44  u64       segment number, as in the file's name
//! 52  u64       salt: random, part of every record's checksum
//! 60  u64       number of the previous segment, 0 = none
//! 68  u64       end of the previous segment's valid records; it is known to be synced up to there
//! 76  u64       SeqNo of the first record
//! 84  u64       number of the manifest when the segment was begun
//! 92  u64       length up to which that manifest was synced then
//! 100 u64       length of the file when the segment was begun, a lower bound; 0 = the file grows
//! 108 u32       CRC-32C of bytes 0..108
//! 4096          the same 112 bytes again; the first record begins at 4608
//! ```
//!
//! No segment was begun yet in a file whose header has a smaller number than the file's name. The
//! number is 0 in a file that was filled with zeroes in advance; it is another one in a recycled
//! file. No segment was begun in a file that ends before the first record, either.

use flagstone_base::checksum::{crc32c, fits};
use flagstone_base::{DatabaseId, Decoder, Error, ErrorKind, FileNumber, Malformed, Result, SeqNo};
use std::fmt;
use std::path::Path;

const MAGIC: [u8; 8] = *b"flagWAL\n";
const VERSION: u32 = 3;
const COPY_BYTES: usize = 112;
/// The offset of the second copy.
pub(crate) const SECOND_COPY: usize = 4096;

/// The offset of the first record of a segment. It shares no sector with a copy of the header.
pub const FIRST_RECORD: u64 = SECOND_COPY as u64 + 512;

/// Flag of the first segment since the log was opened: its first SeqNo need not follow the last one
/// before.
pub(crate) const FLAG_SESSION: u32 = 1;
/// Flag of a recycled file: it held another segment before.
pub(crate) const FLAG_RECYCLED: u32 = 2;

/// The header of a segment.
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
    pub(crate) manifest: ManifestPlace,
    /// The length of the file when the segment was begun; 0 if the file grows.
    pub(crate) prepared: u64,
}

/// The length up to which a manifest is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestPlace {
    /// The number of the manifest's file.
    pub number: FileNumber,
    /// The synced length of the file, in bytes.
    pub end: u64,
}

/// A header that was read, and whether both copies were intact.
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
            manifest: ManifestPlace::default(),
            prepared: 0,
        }
    }

    pub(crate) const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Appends both copies, and zeroes up to the first record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        let words = [self.version, self.flags, 0, self.read_incompatible, self.write_incompatible];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out.extend_from_slice(&self.database.0);
        let first = self.first_seqno.get();
        let manifest = self.manifest;
        let words = [
            self.number,
            self.salt,
            self.previous,
            self.previous_end,
            first,
            manifest.number.0,
            manifest.end,
            self.prepared,
        ];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        let checksum = crc32c(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.resize(start + SECOND_COPY, 0);
        out.extend_from_within(start..start + COPY_BYTES);
        out.resize(start + FIRST_RECORD as usize, 0);
    }

    /// Decodes both copies of the header from the first bytes of a file; `None` for a damaged copy.
    pub(crate) fn copies(bytes: &[u8]) -> [Option<Self>; 2] {
        [0, SECOND_COPY].map(|at| {
            let copy = bytes.get(at..at + COPY_BYTES)?;
            Self::decode_copy(copy).ok()
        })
    }

    /// Decodes the header from the first bytes of a file. One intact copy is enough; if the two
    /// differ, the one with the larger number counts. `None` without an intact copy.
    pub(crate) fn decode(bytes: &[u8]) -> Option<FoundHeader> {
        let copies = Self::copies(bytes);
        let header = copies.into_iter().flatten().max_by_key(|header| header.number)?;
        Some(FoundHeader { header, is_whole: copies[0] == copies[1] })
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
        let first_seqno = SeqNo::new(word()?);
        let manifest = ManifestPlace { number: FileNumber(word()?), end: word()? };
        let prepared = word()?;
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
            manifest,
            prepared,
        })
    }

    /// Refuses a format that this code cannot read, and a segment of another database.
    pub(crate) fn check_readable(&self, path: &Path, database: DatabaseId) -> Result<()> {
        let path = path.display();
        let refusal = if self.version != VERSION {
            format!("{path}: format version {}, this build reads version {VERSION}", self.version)
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
        if self.number == 0 {
            return write!(f, "prepared for {}, not begun", self.database);
        }
        write!(f, "segment {} of {}, from {}", self.number, self.database, self.first_seqno)?;
        if self.previous == 0 {
            f.write_str(", no previous one")?;
        } else {
            write!(f, ", after {} which ends at {}", self.previous, self.previous_end)?;
        }
        if self.has(FLAG_SESSION) {
            f.write_str(", begins a session")?;
        }
        if self.has(FLAG_RECYCLED) {
            f.write_str(", recycled")?;
        }
        if self.manifest.number.0 > 0 {
            write!(f, ", manifest {} synced up to {}", self.manifest.number, self.manifest.end)?;
        }
        Ok(())
    }
}

/// A segment of the log: its file, its size, and its SeqNos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The number in the file's name.
    pub number: FileNumber,
    /// The number of bytes in use, the header included.
    pub bytes: u64,
    /// The first SeqNo that the segment may hold.
    pub first_seqno: SeqNo,
    /// The SeqNo after the last one in the segment; equal to `first_seqno` when the segment holds
    /// none.
    pub next_seqno: SeqNo,
}

impl SegmentInfo {
    /// The last SeqNo in the segment; `None` when it holds none.
    pub fn last_seqno(&self) -> Option<SeqNo> {
        let some = self.next_seqno > self.first_seqno;
        some.then(|| SeqNo::new(self.next_seqno.get() - 1))
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
            manifest: ManifestPlace { number: FileNumber(5), end: 300 },
            prepared: 1 << 20,
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
        assert_eq!(bytes[..COPY_BYTES], bytes[SECOND_COPY..][..COPY_BYTES]);
        let hex: String = bytes[..COPY_BYTES].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, GOLDEN);
        let found = SegmentHeader::decode(&bytes);
        assert_eq!(found, Some(FoundHeader { header: header(), is_whole: true }));
    }

    const GOLDEN: &str = "666c616757414c0a0300000002000000000000000000000000000000303132333435\
        36373839616263646566070000000000000088776655443322110600000000000000001000000000\
        0000e80300000000000005000000000000002c0100000000000000001000000000004a8452be";

    #[test]
    fn one_damaged_copy_is_noticed_and_the_other_one_is_used() {
        let bytes = bytes();
        for bit in 0..COPY_BYTES * 8 {
            for copy in [0, SECOND_COPY] {
                let mut damaged = bytes.clone();
                damaged[copy + bit / 8] ^= 1 << (bit % 8);
                let found = SegmentHeader::decode(&damaged);
                assert_eq!(found, Some(FoundHeader { header: header(), is_whole: false }), "{bit}");
                damaged[SECOND_COPY - copy + bit / 8] ^= 1;
                assert_eq!(SegmentHeader::decode(&damaged), None);
            }
        }
        assert_eq!(SegmentHeader::decode(&bytes[..COPY_BYTES - 1]), None);
        assert_eq!(SegmentHeader::decode(&[]), None);
    }

    #[test]
    fn newer_and_foreign_segments_are_refused_by_kind() {
        let mine = header().database;
        let path = Path::new("000007.wal");
        assert!(header().check_readable(path, mine).is_ok());
        for (refused, database) in [
            (SegmentHeader { version: 1, ..header() }, mine),
            (SegmentHeader { version: 4, ..header() }, mine),
            (SegmentHeader { version: 2, ..header() }, mine),
            (SegmentHeader { read_incompatible: 8, ..header() }, mine),
            (header(), DatabaseId::default()),
        ] {
            let error = refused.check_readable(path, database).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
}
