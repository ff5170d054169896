//! A repair: a database of what can still be read of a damaged one.

use crate::contents::Contents;
use flagstone_base::Result;
use flagstone_engine::RepairReport;
use flagstone_env::Disk;
use std::path::Path;
use std::sync::Arc;

/// Makes a database of what can still be read of a damaged one.
///
/// Everything that can be read is kept, and a [`RepairReport`] tells what cannot: file, place, keys, writes. A table that
/// is whole is taken over as it is. Of a damaged one the good blocks are. Of a log every whole record is, also behind damage.
/// Without a manifest the keyspaces are rebuilt of their tables and the log: their names are lost then
/// (`keyspace-3`), and the names of folds and codecs; names of fields are not.
///
/// The original is read, never written: [`Repair::into_dir`] makes another database. Before a repair, copy what you have.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let (data, repaired) = (dir.path().join("data"), dir.path().join("repaired"));
/// # let db = flagstone::Database::open(&data)?;
/// # db.keyspace("sessions")?.put("alice", "1")?;
/// # db.close()?;
/// std::fs::remove_file(data.join("CURRENT")).unwrap();
/// assert!(flagstone::Database::open(&data).is_err());
///
/// let report = flagstone::Repair::of(&data).into_dir(&repaired)?;
/// println!("{report}");
/// let db = flagstone::Database::open(&repaired)?;
/// assert_eq!(db.keyspace("sessions")?.count()?, 1);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[must_use = "nothing is repaired until a destination is named"]
pub struct Repair(flagstone_engine::Repair);

impl Repair {
    /// A repair of the database in `dir`.
    pub fn of(dir: impl AsRef<Path>) -> Self {
        Self(flagstone_engine::Repair::of(dir.as_ref(), Arc::<Contents>::default()))
    }

    /// If the manifest does not tell: the fold of a keyspace, by its number.
    pub fn fold(self, keyspace: u32, name: &str) -> Self {
        Self(self.0.fold(keyspace, name))
    }

    /// On another disk: for tests.
    #[doc(hidden)]
    pub fn on_disk(self, disk: Arc<dyn Disk>) -> Self {
        Self(self.0.on_disk(disk))
    }

    /// Makes the repaired database in `to`, which must be missing or empty. Whole tables are linked, or copied
    /// where the file system makes no link. After an error or a crash there is no database in `to`.
    ///
    /// # Errors
    /// InvalidInput when there is nothing to repair, or `to` holds something; Busy when the database is open;
    /// Unsupported when a newer flagstone wrote it; OutOfSpace, Io.
    pub fn into_dir(self, to: impl AsRef<Path>) -> Result<RepairReport> {
        self.0.into_dir(to.as_ref())
    }

    /// Repairs the database where it is: new tables and a new manifest are written beside the old files, `CURRENT` is
    /// switched, and every file that the repaired database does not need is renamed to `NAME.aside`. Nothing is removed,
    /// so what a repair could not read can be looked at later. Until `CURRENT` is switched the old files are as
    /// they were.
    ///
    /// # Errors
    /// As [`Repair::into_dir`].
    pub fn in_place(self) -> Result<RepairReport> {
        self.0.in_place()
    }
}
