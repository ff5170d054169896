//! The bytes of a manifest file: its header, and frames of one snapshot and edits behind it.
//!
//! ```text
//! header, 64 bytes   magic "FSMANIFS" | version u32 | compatible u32 | read-incompatible u32
//!                    | write-incompatible u32 | database 16 | file number u64
//!                    | made from manifest u64 (0: none) | zero 4 | crc u32 of the 60 before
//! frame              length u32 | crc u32 | kind u8 | fields of the edit
//!                                           `------ length bytes ------'
//! ```
//!
//! The crc of a frame covers database, file number, its offset and its length before its bytes, so
//! a frame of another file or place is none. Kind and length make an empty frame impossible: a run
//! of zeroes is never one.

use super::edit::Edit;
use flagstone_base::checksum::{crc32c, crc32c_of_parts, fits};
use flagstone_base::codec::{put_u32, put_u64};
use flagstone_base::{
    DatabaseId, Decoder, Error, ErrorKind, FileNumber, Malformed, Result, Undecoded,
};
use std::fmt::{self, Display};

/// The version this code writes, and the newest it reads.
const VERSION: u32 = 2;
const MAGIC: [u8; 8] = *b"FSMANIFS";
/// What a file begins with.
pub(super) const HEADER_BYTES: usize = 64;
/// What a frame has before its payload.
pub(super) const FRAME_HEADER_BYTES: usize = 8;
/// No frame's payload is longer: about 1.5 million tables.
pub(super) const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// No file is longer: a snapshot, edits of twice its length, and the one that was too many.
pub(super) const FILE_BYTES_MAX: u64 = 4 * (PAYLOAD_BYTES_MAX as u64 + 64);

const KIND_SNAPSHOT: u8 = 1;
const KIND_EDIT: u8 = 2;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ident {
    pub(super) id: DatabaseId,
    pub(super) number: FileNumber,
}

/// The header of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    version: u32,
    /// Features an older reader may ignore.
    compatible: u32,
    /// Features a reader must know.
    read_incompatible: u32,
    /// Features a writer that goes on from this file must know.
    write_incompatible: u32,
    pub(super) ident: Ident,
    /// The manifest whose state the snapshot is; 0 for a new database.
    pub(super) made_from: FileNumber,
}

impl Header {
    pub(super) const fn new(ident: Ident, made_from: FileNumber) -> Self {
        let (compatible, read_incompatible, write_incompatible) = (0, 0, 0);
        Self {
            version: VERSION,
            compatible,
            read_incompatible,
            write_incompatible,
            ident,
            made_from,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        put_u32(out, self.version);
        put_u32(out, self.compatible);
        put_u32(out, self.read_incompatible);
        put_u32(out, self.write_incompatible);
        out.extend_from_slice(&self.ident.id.0);
        put_u64(out, self.ident.number.0);
        put_u64(out, self.made_from.0);
        put_u32(out, 0);
        let crc = crc32c(&out[start..]);
        put_u32(out, crc);
    }

    /// Reads the header at the start of `file`; version and identity are not judged.
    pub(super) fn decode(file: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(file);
        let bytes: [u8; HEADER_BYTES] = decoder.array("a header of 64 bytes")?;
        let mut decoder = Decoder::new(&bytes);
        if decoder.array("a magic number")? != MAGIC {
            return Err(Malformed { at: 0, expected: "the magic number of a manifest" });
        }
        let header = Self {
            version: decoder.u32("a version")?,
            compatible: decoder.u32("feature bits")?,
            read_incompatible: decoder.u32("feature bits")?,
            write_incompatible: decoder.u32("feature bits")?,
            ident: Ident {
                id: DatabaseId(decoder.array("a database id")?),
                number: FileNumber(decoder.u64("a file number")?),
            },
            made_from: FileNumber(decoder.u64("a file number")?),
        };
        decoder.u32("four bytes of room")?;
        let covered = decoder.position();
        if !fits(crc32c(&bytes[..covered]), decoder.u32("a checksum")?) {
            return Err(Malformed { at: 0, expected: "a header with its checksum" });
        }
        Ok(header)
    }

    /// Refuses a file that needs a newer reader, or that is another than `expected`.
    pub(super) fn check(&self, file: impl Display, expected: Ident) -> Result<()> {
        if self.version != VERSION || self.read_incompatible != 0 {
            let advice = match self.version < VERSION {
                true => {
                    "a development version wrote it: open it with that one, or load the data again"
                }
                false => "a newer flagstone wrote it: open it with that one",
            };
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{file}: manifest format {} with features {:#x}: this flagstone reads format \
                     {VERSION} without such features; {advice}",
                    self.version, self.read_incompatible
                ),
            ));
        }
        if self.ident != expected {
            let (found, Ident { id, number }) = (self.ident, expected);
            return Err(Error::corruption(
                file,
                0,
                format_args!(
                    "manifest {} of database {}: expected manifest {number} of database {id}",
                    found.number, found.id
                ),
            ));
        }
        Ok(())
    }

    /// Why this flagstone must not write the database, if so.
    pub(super) fn write_refusal(&self) -> Option<String> {
        let unknown = self.write_incompatible;
        (unknown != 0).then(|| {
            format!(
                "the manifest has the features {unknown:#x}, which this flagstone cannot keep: \
                 open it read-only, or with a newer one"
            )
        })
    }
}

/// `manifest 000007 of database 30..66, format 1, made from 000005, features 0x0 0x0 0x0`: the
/// compatible, read-incompatible and write-incompatible ones.
impl Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "manifest {} of database {}, format {}, made from {}, features {:#x} {:#x} {:#x}",
            self.ident.number,
            self.ident.id,
            self.version,
            self.made_from,
            self.compatible,
            self.read_incompatible,
            self.write_incompatible
        )
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// The whole state; the first frame of every file and no other.
    Snapshot,
    /// A change of the state before it.
    Edit,
}

fn frame_crc(ident: Ident, offset: u64, len: [u8; 4], payload: &[u8]) -> u32 {
    let (number, offset) = (ident.number.0.to_le_bytes(), offset.to_le_bytes());
    crc32c_of_parts(&[&ident.id.0, &number, &offset, &len, payload])
}

/// Appends the frame of `edit` that will stand at `offset`.
///
/// # Errors
/// InvalidInput when it is too long; then nothing was appended.
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

/// The payload of the frame that begins `bytes`, which stand at `offset` of the file; `None` when
/// there is no whole frame with its checksum. The second number is how many bytes were summed.
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

/// Reads the payload of a frame.
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
    use flagstone_base::SeqNo;

    const IDENT: Ident = Ident { id: DatabaseId(*b"0123456789abcdef"), number: FileNumber(7) };

    #[test]
    fn a_header_stands_in_these_bytes_for_ever() {
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
    fn a_frame_stands_in_these_bytes_for_ever() {
        let edit = Edit { last_seqno: Some(SeqNo::new(300)), ..Edit::default() };
        let mut bytes = Vec::new();
        put_frame(&mut bytes, IDENT, 64, FrameKind::Edit, &edit).unwrap();
        let crc = 0x994C_3F2F_u32.to_le_bytes();
        assert_eq!(bytes, [&[5, 0, 0, 0][..], &crc, &[2], &[13, 2, 0xAC, 2]].concat());
        let (payload, _) = frame_at(&bytes, IDENT, 64);
        assert_eq!(decode_payload(payload.unwrap()), Ok((FrameKind::Edit, edit)));
    }

    #[test]
    fn a_frame_of_another_place_file_or_database_is_none() {
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
        let newer = [
            Header { version: 1, ..header },
            Header { version: 3, ..header },
            Header { read_incompatible: 4, ..header },
        ];
        for header in newer {
            assert_eq!(header.check("f", IDENT).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        let header = Header { compatible: 1, write_incompatible: 2, ..header };
        assert!(header.check("f", IDENT).is_ok() && header.write_refusal().is_some());
        let other = Ident { number: FileNumber(8), ..IDENT };
        let error = header.check("f", other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}
