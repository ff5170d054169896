//! The file of a generation: a header with database, SeqNo and time, then the state as a manifest
//! of one snapshot.
//!
//! The bytes are drawn in `docs/format/backup.md`.

use crate::manifest::{ManifestState, decode_state, encode_state};
use flagstone_base::codec::put_u64;
use flagstone_base::hash::key_hash;
use flagstone_base::label::put_checksum;
use flagstone_base::{DatabaseId, Error, FileFormat, Label, Malformed, Result, SeqNo};
use flagstone_env::disk::{read_whole, replace_whole};
use flagstone_env::{Disk, names};
use flagstone_sst::TableMeta;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FORMAT: FileFormat = FileFormat::new("backup", *b"FSBACKUP", 2);
const HEADER_BYTES: usize = 96;
/// The longest file, in bytes: a snapshot of a manifest and both headers.
const FILE_BYTES_MAX: u64 = (256 << 20) + 4096;

/// One generation: the state of a database at one SeqNo.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) database: DatabaseId,
    pub(super) seqno: SeqNo,
    /// The wall-clock time since 1970, in whole milliseconds.
    pub(super) made_at: Duration,
    pub(super) state: ManifestState,
}

impl Generation {
    fn path(dir: &Path, number: u64) -> PathBuf {
        dir.join(names::backup_generation(number))
    }

    /// The tables of this generation.
    pub(super) fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.state.tables()
    }

    /// The file name of one of its tables in the directory of backups.
    pub(super) fn name_of(&self, meta: &TableMeta) -> String {
        table_name(self.database, meta)
    }

    /// Writes the file. It is durable when this returns, and absent or whole after an error.
    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        replace_whole(disk, &Self::path(dir, self.number), &self.encode()?)
    }

    /// Reads generation `number` in `dir`.
    ///
    /// # Errors
    /// Corruption when the file is not what was written; Unsupported for a newer version.
    pub(super) fn read(disk: &dyn Disk, dir: &Path, number: u64) -> Result<Self> {
        let path = Self::path(dir, number);
        let bytes = read_whole(disk, &path, FILE_BYTES_MAX)?;
        Self::decode(&bytes, number, &path.display().to_string())
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let manifest = encode_state(self.database, self.number, &self.state)?;
        let mut out = Vec::with_capacity(HEADER_BYTES + manifest.len());
        FORMAT.encode(&FORMAT.label(self.database, self.number), &mut out);
        put_u64(&mut out, self.seqno.get());
        put_u64(&mut out, self.made_at.as_millis() as u64);
        put_u64(&mut out, manifest.len() as u64);
        out.resize(HEADER_BYTES - 4, 0);
        put_checksum(&mut out, 0);
        out.extend_from_slice(&manifest);
        Ok(out)
    }

    fn decode(bytes: &[u8], number: u64, file: &str) -> Result<Self> {
        let (header, manifest) = bytes.split_at(HEADER_BYTES.min(bytes.len()));
        let header = GenerationHeader::decode(header).map_err(|wrong| wrong.in_file(file, 0))?;
        let database = header.label.database;
        FORMAT.check(&header.label, file)?;
        FORMAT.check_owner(&header.label, file, database, number)?;
        if header.manifest_bytes != manifest.len() as u64 {
            return Err(Error::corruption(
                file,
                HEADER_BYTES as u64,
                format_args!("{} bytes: expected {}", manifest.len(), header.manifest_bytes),
            ));
        }
        let inside = format!("{file}, after byte {HEADER_BYTES}");
        let state = decode_state(manifest, &inside, database, number)?;
        let GenerationHeader { seqno, made_at, .. } = header;
        Ok(Self { number, database, seqno, made_at, state })
    }
}

/// The header of a generation.
struct GenerationHeader {
    label: Label,
    seqno: SeqNo,
    made_at: Duration,
    manifest_bytes: u64,
}

impl GenerationHeader {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (label, mut decoder) = FORMAT.header(bytes, HEADER_BYTES)?;
        let at = decoder.position();
        let seqno = decoder.u64("a SeqNo")?;
        let made_at = Duration::from_millis(decoder.u64("a time")?);
        let manifest_bytes = decoder.u64("the length of the manifest")?;
        if seqno > SeqNo::MAX.get() {
            return Err(Malformed { at, expected: "a SeqNo of 56 bits" });
        }
        Ok(Self { label, seqno: SeqNo::new(seqno), made_at, manifest_bytes })
    }
}

/// The file name of a table of `database` in the directory of backups. Two tables may have the same
/// number, because a restored database continues from the numbers of the backup. A hash of the
/// table's entry in the manifest, which includes a checksum of the file, tells them apart.
fn table_name(database: DatabaseId, meta: &TableMeta) -> String {
    let mut bytes = database.0.to_vec();
    meta.encode(&mut bytes);
    names::backup_table(meta.number, key_hash(&bytes, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation() -> Generation {
        Generation {
            number: 3,
            database: DatabaseId(*b"0123456789abcdef"),
            seqno: SeqNo::new(7),
            made_at: Duration::from_millis(1000),
            state: ManifestState::default(),
        }
    }

    #[test]
    fn a_generation_has_its_golden_header_and_comes_back() {
        let bytes = generation().encode().unwrap();
        let header: &[u8] = b"FSBACKUP\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x000123456789abcdef\
            \x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\xe8\x03\0\0\0\0\0\0";
        assert_eq!(&bytes[..64], header);
        assert_eq!(bytes[64..72], (bytes.len() as u64 - 96).to_le_bytes());
        assert_eq!(&bytes[96..104], b"FSMANIFS");
        assert_eq!(Generation::decode(&bytes, 3, "f").unwrap(), generation());
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_an_error_that_names_the_file() {
        let bytes = generation().encode().unwrap();
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            let error = Generation::decode(&damaged, 3, "f").unwrap_err();
            assert!(error.to_string().starts_with('f'), "{error}");
        }
        for len in 0..bytes.len() {
            assert!(Generation::decode(&bytes[..len], 3, "f").is_err(), "{len}");
        }
        assert!(Generation::decode(&bytes, 4, "f").is_err(), "another generation's name");
    }
}
