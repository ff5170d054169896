//! Damaged tables: what counts as damage, and what was found.
//!
//! A compaction that meets a damaged table fails, is tried again later, and after a few times leaves the table out: it is
//! quarantined. Reads of it go on to fail.

use flagstone_base::{Error, ErrorKind, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_sst::TableMeta;

/// A checksum that does not fit may come from a bit that flipped on the way: it is read once more.
const STRIKES_OF_CORRUPTION: u32 = 2;
/// A device that does not answer now may do so in some seconds.
const STRIKES_OF_IO: u32 = 5;

/// A table that could not be read.
#[derive(Clone, Debug)]
pub struct Damage {
    /// Whose table.
    pub tree: TreeId,
    /// What the manifest says of it.
    pub meta: TableMeta,
    /// What is wrong.
    pub error: Error,
    /// Whether compactions leave it out from now on.
    pub is_quarantined: bool,
}

/// What was found since somebody last asked: whoever reads a table notes it here, and tells nobody.
#[derive(Default)]
pub struct Damages {
    found: Mutex<Vec<Damage>>,
}

impl Damages {
    /// Takes what was found so far.
    pub fn take(&self) -> Vec<Damage> {
        std::mem::take(&mut *self.found.lock())
    }

    pub(crate) fn note(&self, damage: Damage) {
        self.found.lock().push(damage);
    }
}

/// Whether `error` says that a table is not what was written, or cannot be read.
pub(crate) fn is_damage(error: &Error) -> bool {
    /// An input/output error, on Linux and elsewhere.
    const EIO: i32 = 5;
    let is_unreadable = || error.io_error().and_then(std::io::Error::raw_os_error) == Some(EIO);
    error.kind() == ErrorKind::Corruption || error.is_missing_file() || is_unreadable()
}

/// How many compactions a table with this damage makes fail before it is quarantined.
pub(crate) fn strikes_max(error: &Error) -> u32 {
    match error.kind() {
        ErrorKind::Corruption => STRIKES_OF_CORRUPTION,
        _ => STRIKES_OF_IO,
    }
}
