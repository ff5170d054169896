//! `CURRENT`: the small text file that names the manifest. It is replaced as a whole, by an atomic
//! rename.
//!
//! ```text
//! flagstone current 1
//! database 0f0e0d0c0b0a09080706050403020100
//! manifest 000007
//! crc32c 89abcdef                              of the bytes before this line
//! ```
//!
//! The text has exactly one valid form, so any difference is damage.

use flagstone_base::checksum::crc32c;
use flagstone_base::label::other_version;
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result};
use flagstone_env::Disk;
use flagstone_env::disk::{read_whole, replace_whole};
use flagstone_env::names::CURRENT;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
const CURRENT_BYTES_MAX: u64 = 4096;

/// The contents of `CURRENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) id: DatabaseId,
    pub(crate) number: FileNumber,
}

impl Current {
    /// Returns the path of `CURRENT` in `dir`.
    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join(CURRENT)
    }

    /// Reads `CURRENT` in `dir`.
    ///
    /// # Errors
    /// Corruption when the file is not what was written; Unsupported for a newer version.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Self> {
        let path = Self::path(dir);
        let bytes = read_whole(disk, &path, CURRENT_BYTES_MAX)?;
        Self::decode(&bytes).map_err(|wrong| wrong.context(path.display()))
    }

    /// Replaces `CURRENT` in `dir`, durably. After an error it is the old or the new one.
    pub(super) fn replace(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        replace_whole(disk, &Self::path(dir), self.encode().as_bytes())
    }

    fn encode(&self) -> String {
        let mut text = format!(
            "flagstone current {VERSION}\ndatabase {}\nmanifest {}\n",
            self.id, self.number
        );
        let crc = crc32c(text.as_bytes());
        text.push_str(&format!("crc32c {crc:08x}\n"));
        text
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || {
            let text = "expected the name of the manifest with its checksum";
            Error::new(ErrorKind::Corruption, text)
        };
        let text = std::str::from_utf8(bytes).map_err(|_not_utf8| damaged())?;
        let body = text.rfind("crc32c ").map(|at| &text[..at]).ok_or_else(damaged)?;
        if text[body.len()..] != format!("crc32c {:08x}\n", crc32c(body.as_bytes())) {
            return Err(damaged());
        }
        let field = |name: &str| {
            let find =
                |line: &'_ str| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
            body.lines().find_map(find).ok_or_else(damaged)
        };
        let version: u64 =
            field("flagstone current")?.parse().map_err(|_not_a_number| damaged())?;
        if version != u64::from(VERSION) {
            return Err(other_version("CURRENT", version, VERSION));
        }
        let number = field("manifest")?.parse().map_err(|_not_a_number| damaged())?;
        let id = u128::from_str_radix(&field("database")?, 16).map_err(|_not_hex| damaged())?;
        let current = Self { id: DatabaseId(id.to_be_bytes()), number: FileNumber(number) };
        if current.encode() == text { Ok(current) } else { Err(damaged()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Current {
        Current { id: DatabaseId(*b"0123456789abcdef"), number: FileNumber(7) }
    }

    #[test]
    fn current_has_a_golden_text() {
        let text = "flagstone current 1\ndatabase 30313233343536373839616263646566\n\
                    manifest 000007\ncrc32c 8e4b7b6f\n";
        assert_eq!(current().encode(), text);
        assert_eq!(Current::decode(text.as_bytes()).unwrap(), current());
    }

    #[test]
    fn any_damage_is_found() {
        let text = current().encode().into_bytes();
        for at in 0..text.len() {
            assert!(Current::decode(&text[..at]).is_err());
            for bit in 0..8 {
                let mut damaged = text.clone();
                damaged[at] ^= 1 << bit;
                let error = Current::decode(&damaged).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at} bit {bit}");
            }
        }
        assert!(Current::decode(&[&text[..], b"\n"].concat()).is_err());
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let body = "flagstone current 2\nmanifest somewhere\n";
        let text = format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
        let error = Current::decode(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
