//! The label of a file: which kind of file it is, in which format, with which features, and whose.
//!
//! ```text
//! label   magic 8 | version u32 | flags u32, in segments of the log only
//!         | compatible u32 | read-incompatible u32 | write-incompatible u32
//!         | database 16 | number u64
//! ```
//!
//! Every binary file begins with a header that begins with a label and ends with a CRC-32C of the
//! bytes before it. Tables have a second label in their footer. In every version of a format the
//! label has this form and the checksum this place, so that a reader can tell a newer file from a
//! damaged one.

use crate::checksum::{crc32c, fits};
use crate::codec::{Decoder, Malformed, put_u32, put_u64};
use crate::error::{Error, ErrorKind, Result};
use crate::number::{DatabaseId, FileNumber};
use std::fmt::{self, Display};

/// A kind of file, and what this code reads of it.
#[derive(Clone, Copy, Debug)]
pub struct FileFormat {
    /// What messages call the file, for example `manifest`.
    pub name: &'static str,
    /// The first bytes of the label.
    pub magic: [u8; 8],
    /// The version that this code writes, and the only one that it reads.
    pub version: u32,
    /// The read-incompatible features that this code knows.
    pub read_features: u32,
    /// The write-incompatible features that this code knows.
    pub write_features: u32,
    /// Whether the label has flags.
    pub has_flags: bool,
}

/// The label of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The version of the format.
    pub version: u32,
    /// Facts about this one file, which are no features; 0 in formats without flags.
    pub flags: u32,
    /// Features that an older reader may ignore.
    pub compatible: u32,
    /// Features that a reader must know.
    pub read_incompatible: u32,
    /// Features that a writer of the file, or of its successor, must know.
    pub write_incompatible: u32,
    /// The database that the file belongs to.
    pub database: DatabaseId,
    /// The number of the file, which is also in its name.
    pub number: u64,
}

impl FileFormat {
    /// A format without features and flags.
    pub const fn new(name: &'static str, magic: [u8; 8], version: u32) -> Self {
        let (read_features, write_features) = (0, 0);
        Self { name, magic, version, read_features, write_features, has_flags: false }
    }

    /// The number of bytes of a label.
    pub const fn label_bytes(&self) -> usize {
        if self.has_flags { 52 } else { 48 }
    }

    /// The label of a new file.
    pub const fn label(&self, database: DatabaseId, number: u64) -> Label {
        let (compatible, read_incompatible, write_incompatible) = (0, 0, 0);
        let version = self.version;
        Label {
            version,
            flags: 0,
            compatible,
            read_incompatible,
            write_incompatible,
            database,
            number,
        }
    }

    /// Appends `label`.
    pub fn encode(&self, label: &Label, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.magic);
        put_u32(out, label.version);
        if self.has_flags {
            put_u32(out, label.flags);
        }
        put_u32(out, label.compatible);
        put_u32(out, label.read_incompatible);
        put_u32(out, label.write_incompatible);
        out.extend_from_slice(&label.database.0);
        put_u64(out, label.number);
    }

    /// Reads a label. [`FileFormat::check`] judges it.
    ///
    /// # Errors
    /// Too few bytes, or another magic number.
    pub fn decode(&self, decoder: &mut Decoder<'_>) -> Result<Label, Malformed> {
        let start = decoder.position();
        if decoder.array("a magic number")? != self.magic {
            return Err(Malformed { at: start, expected: "the magic number of this kind of file" });
        }
        let version = decoder.u32("a format version")?;
        let flags = if self.has_flags { decoder.u32("the flags of a file")? } else { 0 };
        Ok(Label {
            version,
            flags,
            compatible: decoder.u32("feature bits")?,
            read_incompatible: decoder.u32("feature bits")?,
            write_incompatible: decoder.u32("feature bits")?,
            database: DatabaseId(decoder.array("a database id")?),
            number: decoder.u64("the number of a file")?,
        })
    }

    /// Reads the label of the header of `len` bytes that `bytes` begins with. The decoder is at the
    /// fields after the label and ends before the checksum.
    ///
    /// # Errors
    /// Too few bytes, another magic number, or a wrong checksum.
    pub fn header<'a>(
        &self,
        bytes: &'a [u8],
        len: usize,
    ) -> Result<(Label, Decoder<'a>), Malformed> {
        self.decode(&mut Decoder::new(bytes))?;
        let mut decoder = Decoder::new(checked(bytes, len)?);
        Ok((self.decode(&mut decoder)?, decoder))
    }

    /// Refuses a file of another format version, or with a feature that a reader must know and this
    /// code does not.
    ///
    /// # Errors
    /// Unsupported. The text names the version, or the unknown features.
    pub fn check(&self, label: &Label, file: impl Display) -> Result<()> {
        if label.version != self.version {
            return Err(other_version(self.name, label.version.into(), self.version).context(file));
        }
        let unknown = label.read_incompatible & !self.read_features;
        if unknown == 0 {
            return Ok(());
        }
        let text = format!(
            "{file}: the {} needs {}, unknown to this flagstone; a newer flagstone wrote it: open \
             it with that one",
            self.name,
            Features(unknown)
        );
        Err(Error::new(ErrorKind::Unsupported, text))
    }

    /// Refuses a file that is not number `number` of `database`.
    ///
    /// # Errors
    /// Corruption.
    pub fn check_owner(
        &self,
        label: &Label,
        file: impl Display,
        database: DatabaseId,
        number: u64,
    ) -> Result<()> {
        if (label.database, label.number) == (database, number) {
            return Ok(());
        }
        let (name, [found, number]) = (self.name, [label.number, number].map(FileNumber));
        let found = format_args!(
            "{name} {found} of database {}: expected {name} {number} of database {database}",
            label.database
        );
        Err(Error::corruption(file, 0, found))
    }

    /// Returns why this version of flagstone must not write to the file or its successor, if so.
    pub fn write_refusal(&self, label: &Label) -> Option<String> {
        let unknown = label.write_incompatible & !self.write_features;
        (unknown != 0).then(|| {
            format!(
                "the {} has {}, which this flagstone cannot keep: open it for reading only, or \
                 with a newer one",
                self.name,
                Features(unknown)
            )
        })
    }
}

/// The error of a file `name` in format version `found`, of which this code reads `known`.
#[cold]
pub fn other_version(name: &str, found: u64, known: u32) -> Error {
    let advice = if found < u64::from(known) {
        "a development version wrote it: open it with that one, or load the data again"
    } else {
        "a newer flagstone wrote it: open it with that one"
    };
    let text = format!("{name} format {found}; this flagstone reads format {known}; {advice}");
    Error::new(ErrorKind::Unsupported, text)
}

/// Shows feature bits as `feature 0x2` or `features 0x1 0x4`, as docs/format lists them.
struct Features(u32);

impl Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.count_ones() == 1 { "feature" } else { "features" })?;
        let mut bits = (0..u32::BITS).map(|bit| 1_u32 << bit).filter(|bit| self.0 & bit != 0);
        bits.try_for_each(|bit| write!(f, " {bit:#x}"))
    }
}

/// For example `format 2, features 0x0 0x1 0x0`: compatible, read-incompatible, write-incompatible.
impl Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, compatible, read_incompatible, write_incompatible, .. } = self;
        write!(
            f,
            "format {version}, features {compatible:#x} {read_incompatible:#x} \
             {write_incompatible:#x}"
        )
    }
}

/// Ends the header that begins at `start` of `out`: appends the CRC-32C of its bytes.
pub fn put_checksum(out: &mut Vec<u8>, start: usize) {
    let crc = crc32c(&out[start..]);
    put_u32(out, crc);
}

/// The header of `len` bytes that `bytes` begins with, without the checksum at its end.
///
/// # Errors
/// Too few bytes, or a wrong checksum.
pub fn checked(bytes: &[u8], len: usize) -> Result<&[u8], Malformed> {
    let header = bytes.get(..len).and_then(|header| header.split_last_chunk::<4>());
    match header {
        Some((body, crc)) if fits(crc32c(body), u32::from_le_bytes(*crc)) => Ok(body),
        _ => Err(Malformed { at: 0, expected: "a header or footer with its checksum" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: FileFormat =
        FileFormat { read_features: 5, ..FileFormat::new("trial", *b"FLAGTRY\n", 3) };

    fn label() -> Label {
        let label = FORMAT.label(DatabaseId(*b"0123456789abcdef"), 7);
        Label { compatible: 9, read_incompatible: 4, write_incompatible: 2, ..label }
    }

    #[test]
    fn a_label_has_these_bytes_and_comes_back() {
        let golden = [
            &b"FLAGTRY\n"[..],
            &[3, 0, 0, 0],
            &[9, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0],
            b"0123456789abcdef",
            &[7, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let mut bytes = Vec::new();
        FORMAT.encode(&label(), &mut bytes);
        assert_eq!(bytes, golden);
        assert_eq!(bytes.len(), FORMAT.label_bytes());
        assert_eq!(FORMAT.decode(&mut Decoder::new(&bytes)), Ok(label()));
        let flagged = FileFormat { has_flags: true, ..FORMAT };
        let label = Label { flags: 0x0102, ..label() };
        bytes.clear();
        flagged.encode(&label, &mut bytes);
        assert_eq!(bytes, [&golden[..12], &[2, 1, 0, 0], &golden[12..]].concat());
        assert_eq!(bytes.len(), flagged.label_bytes());
        assert_eq!(flagged.decode(&mut Decoder::new(&bytes)), Ok(label));
        bytes[0] ^= 1;
        assert!(flagged.decode(&mut Decoder::new(&bytes)).is_err());
    }

    #[test]
    fn a_newer_an_older_and_a_version_with_unknown_features_are_told_apart() {
        assert!(FORMAT.check(&label(), "f").is_ok());
        let refused = |label: Label| {
            let error = FORMAT.check(&label, "f").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            error.to_string()
        };
        assert_eq!(
            refused(Label { version: 4, ..label() }),
            "f: trial format 4; this flagstone reads format 3; a newer flagstone wrote it: open it \
             with that one"
        );
        assert_eq!(
            refused(Label { version: 2, ..label() }),
            "f: trial format 2; this flagstone reads format 3; a development version wrote it: \
             open it with that one, or load the data again"
        );
        assert_eq!(
            refused(Label { read_incompatible: 7, ..label() }),
            "f: the trial needs feature 0x2, unknown to this flagstone; a newer flagstone wrote \
             it: open it with that one"
        );
        assert!(refused(Label { read_incompatible: 26, ..label() }).contains("features 0x2 0x8"));
    }

    #[test]
    fn another_owner_is_corruption_and_an_unknown_write_feature_forbids_writing() {
        let (database, other) = (label().database, DatabaseId([0; 16]));
        assert!(FORMAT.check_owner(&label(), "f", database, 7).is_ok());
        for (database, number) in [(database, 8), (other, 7)] {
            let error = FORMAT.check_owner(&label(), "f", database, number).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().starts_with("f, offset 0: trial 000007 of database 3031"));
        }
        assert!(FORMAT.write_refusal(&label()).unwrap().contains("feature 0x2,"));
        let knows = FileFormat { write_features: 2, ..FORMAT };
        assert_eq!(knows.write_refusal(&label()), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let mut bytes = vec![7; 3];
        FORMAT.encode(&label(), &mut bytes);
        put_checksum(&mut bytes, 3);
        let header = &bytes[3..];
        assert_eq!(checked(header, 52), Ok(&header[..48]));
        let (read, decoder) = FORMAT.header(header, 52).unwrap();
        assert_eq!((read, decoder.position(), decoder.is_done()), (label(), 48, true));
        assert!(checked(header, 53).is_err() && checked(header, 3).is_err());
        for bit in 0..header.len() * 8 {
            let mut damaged = header.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(FORMAT.header(&damaged, 52).is_err(), "{bit}");
        }
    }
}
