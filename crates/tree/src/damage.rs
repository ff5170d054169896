//! Damaged tables: what counts as damage, and what was found.
//!
//! A compaction that reads a damaged table fails and is tried again later. After a few failures the
//! table is quarantined: compactions skip it. Reads of it still fail.

use flagstone_base::{Error, ErrorKind, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_sst::TableMeta;

/// A wrong checksum may come from a bit that flipped on the way, so the table is read once more.
const STRIKES_OF_CORRUPTION: u32 = 2;
/// A device that fails now may recover within seconds.
const STRIKES_OF_IO: u32 = 5;

/// A table that could not be read.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The tree of the table.
    pub tree: TreeId,
    /// The manifest's record of the table.
    pub meta: TableMeta,
    /// The error of reading the table.
    pub error: Error,
    /// Whether compactions skip the table from now on.
    pub is_quarantined: bool,
}

/// The damages found since the last [`Damages::take`]. Readers only note damage here; the caller of
/// `take` reports it.
#[derive(Default)]
pub struct Damages {
    found: Mutex<Vec<Damage>>,
}

impl Damages {
    /// Takes the damages found so far.
    pub fn take(&self) -> Vec<Damage> {
        std::mem::take(&mut *self.found.lock())
    }

    pub(crate) fn note(&self, damage: Damage) {
        self.found.lock().push(damage);
    }
}

/// Returns whether `error` means that a table is not as written, or cannot be read.
pub(crate) fn is_damage(error: &Error) -> bool {
    /// An input/output error, on Linux and elsewhere.
    const EIO: i32 = 5;
    let is_unreadable = || error.io_error().and_then(std::io::Error::raw_os_error) == Some(EIO);
    error.kind() == ErrorKind::Corruption || error.is_missing_file() || is_unreadable()
}

/// The number of compactions that may fail before a table with this damage is quarantined.
pub(crate) fn strikes_max(error: &Error) -> u32 {
    match error.kind() {
        ErrorKind::Corruption => STRIKES_OF_CORRUPTION,
        _ => STRIKES_OF_IO,
    }
}
