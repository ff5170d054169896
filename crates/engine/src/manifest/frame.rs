//! The bytes of a manifest file: a header, then frames with one snapshot and the edits after it.
//!
//! ```text
//! header, 64 bytes   label "FSMANIFS" of crate base | made from manifest u64 (0: none)
//!                    | zero 4 | crc u32 of the 60 bytes before
//! frame              length u32 | crc u32 | kind u8 | fields of the edit
//!                                           `------ length bytes ------'
//! ```
//!
//! The crc of a frame covers the database id, the file number, the frame's offset and its length
//! before its bytes, so a frame of another file or offset is not valid. A payload has at least its
//! kind, which is not 0, so a run of zeroes is never a frame.

use super::edit::Edit;
use flagstone_base::checksum::{crc32c_of_parts, fits};
use flagstone_base::codec::{put_u32, put_u64};
use flagstone_base::label::put_checksum;
use flagstone_base::{
    DatabaseId, Error, FileFormat, FileNumber, Label, Malformed, Result, Undecoded,
};
use std::fmt::{self, Display};

const FORMAT: FileFormat = FileFormat::new("manifest", *b"FSMANIFS", 2);
/// The length of the header of a file.
pub(super) const HEADER_BYTES: usize = 64;
/// The length of what precedes the payload of a frame.
pub(super) const FRAME_HEADER_BYTES: usize = 8;
/// The longest payload of a frame: enough for about 1.5 million tables.
pub(super) const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// The longest file: a snapshot, edits of twice its length, and the edit that exceeded the limit.
pub(super) const FILE_BYTES_MAX: u64 = 4 * (PAYLOAD_BYTES_MAX as u64 + 64);

const KIND_SNAPSHOT: u8 = 1;
const KIND_EDIT: u8 = 2;

/// The identity of a file: its database and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ident {
    pub(super) id: DatabaseId,
    pub(super) number: FileNumber,
}

/// The header of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    label: Label,
    /// The manifest whose state the snapshot holds; 0 for a new database.
    pub(super) made_from: FileNumber,
}

impl Header {
    pub(super) const fn new(ident: Ident, made_from: FileNumber) -> Self {
        Self { label: FORMAT.label(ident.id, ident.number.0), made_from }
    }

    pub(super) const fn ident(&self) -> Ident {
        Ident { id: self.label.database, number: FileNumber(self.label.number) }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        FORMAT.encode(&self.label, out);
        put_u64(out, self.made_from.0);
        put_u32(out, 0);
        put_checksum(out, start);
    }

    /// Decodes the header at the start of `file`; version and identity are not checked.
    pub(super) fn decode(file: &[u8]) -> Result<Self, Malformed> {
        let (label, mut decoder) = FORMAT.header(file, HEADER_BYTES)?;
        Ok(Self { label, made_from: FileNumber(decoder.u64("a file number")?) })
    }

    /// Refuses a file that needs a newer reader, or whose identity is not `expected`.
    pub(super) fn check(&self, file: impl Display, expected: Ident) -> Result<()> {
        FORMAT.check(&self.label, &file)?;
        FORMAT.check_owner(&self.label, file, expected.id, expected.number.0)
    }

    /// Returns why this version of flagstone must not write the database, if so.
    pub(super) fn write_refusal(&self) -> Option<String> {
        FORMAT.write_refusal(&self.label)
    }
}

/// Shows, for example,
/// `manifest 000007 of database 30..66, made from 000005, format 2, features 0x0 0x0 0x0`.
impl Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ident { id, number } = self.ident();
        let Self { label, made_from } = self;
        write!(f, "manifest {number} of database {id}, made from {made_from}, {label}")
    }
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// The whole state: the first frame of every file, and only the first.
    Snapshot,
    /// A change of the state that the frames before give.
    Edit,
}

fn frame_crc(ident: Ident, offset: u64, len: [u8; 4], payload: &[u8]) -> u32 {
    let (number, offset) = (ident.number.0.to_le_bytes(), offset.to_le_bytes());
    crc32c_of_parts(&[&ident.id.0, &number, &offset, &len, payload])
}

/// Appends the frame of `edit` to `out`; `offset` is its offset in the file.
///
/// # Errors
/// InvalidInput when the edit is too long; then nothing was appended.
pub(super) fn put_frame(
    out: &mut Vec<u8>,
    ident: Ident,
    offset: u64,
    kind: FrameKind,
    edit: &Edit,
) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    out.push(match kind {
        FrameKind::Snapshot => KIND_SNAPSHOT,
        FrameKind::Edit => KIND_EDIT,
    });
    edit.encode(out);
    let payload = &out[start + FRAME_HEADER_BYTES..];
    if payload.len() > PAYLOAD_BYTES_MAX {
        let text = format!(
            "an edit of {} bytes: a manifest takes at most {PAYLOAD_BYTES_MAX} at once",
            payload.len()
        );
        out.truncate(start);
        return Err(Error::invalid(text));
    }
    let len = (payload.len() as u32).to_le_bytes();
    let crc = frame_crc(ident, offset, len, payload).to_le_bytes();
    out[start..start + 4].copy_from_slice(&len);
    out[start + 4..start + 8].copy_from_slice(&crc);
    Ok(())
}

/// Returns the payload of the frame at the start of `bytes`, which begin at `offset` in the file,
/// or `None` when there is no whole frame with a valid checksum. The second value is the number of
/// bytes that were checksummed.
pub(super) fn frame_at(bytes: &[u8], ident: Ident, offset: u64) -> (Option<&[u8]>, usize) {
    let Some((header, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else {
        return (None, 0);
    };
    let [a, b, c, d, crc @ ..] = *header;
    let len = [a, b, c, d];
    let payload = match rest.get(..u32::from_le_bytes(len) as usize) {
        Some(payload) if matches!(payload.first(), Some(&(KIND_SNAPSHOT | KIND_EDIT))) => payload,
        _ => return (None, 0),
    };
    let fits = fits(frame_crc(ident, offset, len, payload), u32::from_le_bytes(crc));
    (fits.then_some(payload), payload.len())
}

/// Decodes the payload of a frame.
pub(super) fn decode_payload(payload: &[u8]) -> Result<(FrameKind, Edit), Undecoded> {
    let (kind, fields) = match payload.split_first() {
        Some((&KIND_SNAPSHOT, fields)) => (FrameKind::Snapshot, fields),
        Some((&KIND_EDIT, fields)) => (FrameKind::Edit, fields),
        _ => return Err(Malformed { at: 0, expected: "a snapshot or an edit" }.into()),
    };
    Ok((kind, Edit::decode(fields).map_err(|wrong| wrong.moved(1))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::{ErrorKind, SeqNo};

    const IDENT: Ident = Ident { id: DatabaseId(*b"0123456789abcdef"), number: FileNumber(7) };

    #[test]
    fn a_header_has_golden_bytes() {
        let mut bytes = Vec::new();
        Header::new(IDENT, FileNumber(5)).encode(&mut bytes);
        let golden = [
            &b"FSMANIFS"[..],
            &[2, 0, 0, 0],
            &[0; 12],
            b"0123456789abcdef",
            &[7, 0, 0, 0, 0, 0, 0, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0],
            &[0; 4],
            &0x5B76_BAE2_u32.to_le_bytes(),
        ];
        assert_eq!(bytes, golden.concat());
        assert_eq!(Header::decode(&bytes), Ok(Header::new(IDENT, FileNumber(5))));
    }

    #[test]
    fn a_frame_has_golden_bytes() {
        let edit = Edit { last_seqno: Some(SeqNo::new(300)), ..Edit::default() };
        let mut bytes = Vec::new();
        put_frame(&mut bytes, IDENT, 64, FrameKind::Edit, &edit).unwrap();
        let crc = 0x994C_3F2F_u32.to_le_bytes();
        assert_eq!(bytes, [&[5, 0, 0, 0][..], &crc, &[2], &[13, 2, 0xAC, 2]].concat());
        let (payload, _) = frame_at(&bytes, IDENT, 64);
        assert_eq!(decode_payload(payload.unwrap()), Ok((FrameKind::Edit, edit)));
    }

    #[test]
    fn a_frame_of_another_offset_file_or_database_is_refused() {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, IDENT, 64, FrameKind::Edit, &Edit::default()).unwrap();
        assert!(frame_at(&bytes, IDENT, 64).0.is_some());
        assert!(frame_at(&bytes, IDENT, 65).0.is_none());
        assert!(frame_at(&bytes, Ident { number: FileNumber(8), ..IDENT }, 64).0.is_none());
        assert!(frame_at(&bytes, Ident { id: DatabaseId([0; 16]), ..IDENT }, 64).0.is_none());
        assert!(frame_at(&[0; 100], IDENT, 64).0.is_none());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(frame_at(&damaged, IDENT, 64).0.is_none());
        }
    }

    #[test]
    fn other_versions_and_features_are_told_apart() {
        let header = Header::new(IDENT, FileNumber(0));
        assert!(header.check("f", IDENT).is_ok() && header.write_refusal().is_none());
        let with = |label: Label| Header { label, ..header };
        let label = header.label;
        for header in [
            with(Label { version: 1, ..label }),
            with(Label { version: 3, ..label }),
            with(Label { read_incompatible: 4, ..label }),
        ] {
            assert_eq!(header.check("f", IDENT).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        let header = with(Label { compatible: 1, write_incompatible: 2, ..label });
        assert!(header.check("f", IDENT).is_ok() && header.write_refusal().is_some());
        let other = Ident { number: FileNumber(8), ..IDENT };
        let error = header.check("f", other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}
