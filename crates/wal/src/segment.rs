//! The header of a segment, which is one file of the log. Its 112 bytes are written twice, 4 KiB
//! apart, so that the loss of one sector or page hides neither the segment nor its damage.
//!
//! ```text
//!  0  52 bytes  label "flagWAL\n" of crate base; format version 3;
//!               flags: 1 = first of a session (SeqNos may jump), 2 = the file was recycled,
//!               4 = writes that are not logged are noted;
//!               number of the segment, as in the file's name
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

use flagstone_base::label::put_checksum;
use flagstone_base::{
    DatabaseId, Error, ErrorKind, FileFormat, FileNumber, Label, Malformed, Result, SeqNo,
};
use std::fmt;
use std::path::Path;

const FORMAT: FileFormat =
    FileFormat { has_flags: true, ..FileFormat::new("log segment", *b"flagWAL\n", 3) };
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
/// Flag of a segment in which gaps are noted: readers of changes miss nothing without being told.
pub(crate) const FLAG_COMPLETE: u32 = 4;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Version, flags, features, database and number.
    pub(crate) label: Label,
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
            label: FORMAT.label(database, number),
            salt,
            previous: 0,
            previous_end: 0,
            first_seqno: SeqNo::ZERO,
            manifest: ManifestPlace::default(),
            prepared: 0,
        }
    }

    pub(crate) const fn has(&self, flag: u32) -> bool {
        self.label.flags & flag != 0
    }

    /// The number of the segment; 0 if none was begun.
    pub(crate) const fn number(&self) -> u64 {
        self.label.number
    }

    /// The features that a writer must know to continue the log, and this code does not.
    pub(crate) const fn unknown_write_features(&self) -> u32 {
        self.label.write_incompatible & !FORMAT.write_features
    }

    /// Appends both copies, and zeroes up to the first record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        FORMAT.encode(&self.label, out);
        let first = self.first_seqno.get();
        let manifest = self.manifest;
        let words = [
            self.salt,
            self.previous,
            self.previous_end,
            first,
            manifest.number.0,
            manifest.end,
            self.prepared,
        ];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        put_checksum(out, start);
        out.resize(start + SECOND_COPY, 0);
        out.extend_from_within(start..start + COPY_BYTES);
        out.resize(start + FIRST_RECORD as usize, 0);
    }

    /// Decodes both copies of the header from the first bytes of a file; `None` for a damaged copy.
    pub(crate) fn copies(bytes: &[u8]) -> [Option<Self>; 2] {
        [0, SECOND_COPY].map(|at| Self::decode_copy(bytes.get(at..)?).ok())
    }

    /// Decodes the header from the first bytes of a file. One intact copy is enough; if the two
    /// differ, the one with the larger number counts. `None` without an intact copy.
    pub(crate) fn decode(bytes: &[u8]) -> Option<FoundHeader> {
        let copies = Self::copies(bytes);
        let header = copies.into_iter().flatten().max_by_key(SegmentHeader::number)?;
        Some(FoundHeader { header, is_whole: copies[0] == copies[1] })
    }

    fn decode_copy(bytes: &[u8]) -> Result<Self, Malformed> {
        let (label, mut decoder) = FORMAT.header(bytes, COPY_BYTES)?;
        let mut word = || decoder.u64("a word of a segment header");
        let (salt, previous, previous_end) = (word()?, word()?, word()?);
        let first_seqno = SeqNo::new(word()?);
        let manifest = ManifestPlace { number: FileNumber(word()?), end: word()? };
        let prepared = word()?;
        Ok(Self { label, salt, previous, previous_end, first_seqno, manifest, prepared })
    }

    /// Refuses a format that this code cannot read, and a segment of another database.
    pub(crate) fn check_readable(&self, path: &Path, database: DatabaseId) -> Result<()> {
        let path = path.display();
        FORMAT.check(&self.label, &path)?;
        let owner = self.label.database;
        if owner == database {
            return Ok(());
        }
        let text = format!("{path}: belongs to database {owner}, not to {database}");
        Err(Error::new(ErrorKind::Unsupported, text))
    }
}

impl fmt::Display for SegmentHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Label { database, number, .. } = self.label;
        if number == 0 {
            return write!(f, "prepared for {database}, not begun");
        }
        write!(f, "segment {number} of {database}, from {}", self.first_seqno)?;
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
        if self.has(FLAG_COMPLETE) {
            f.write_str(", notes gaps")?;
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
    /// The salt in the header, which no other segment has.
    pub salt: u64,
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
        let Self { number, bytes, first_seqno, next_seqno, salt: _ } = self;
        write!(f, "{number} [{first_seqno}..{next_seqno}] {bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        let header = SegmentHeader::new(DatabaseId(*b"0123456789abcdef"), 7, 0x1122_3344_5566_7788);
        SegmentHeader {
            label: Label { flags: FLAG_RECYCLED, ..header.label },
            previous: 6,
            previous_end: 4096,
            first_seqno: SeqNo::new(1000),
            manifest: ManifestPlace { number: FileNumber(5), end: 300 },
            prepared: 1 << 20,
            ..header
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
        let (label, mine) = (header().label, header().label.database);
        let with = |label| SegmentHeader { label, ..header() };
        let path = Path::new("000007.wal");
        assert!(header().check_readable(path, mine).is_ok());
        for (refused, database) in [
            (with(Label { version: 1, ..label }), mine),
            (with(Label { version: 4, ..label }), mine),
            (with(Label { version: 2, ..label }), mine),
            (with(Label { read_incompatible: 8, ..label }), mine),
            (header(), DatabaseId::default()),
        ] {
            let error = refused.check_readable(path, database).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
}
