//! A repair: a new database of what can still be read of a damaged one.

use crate::contents::Contents;
use flagstone_base::Result;
use flagstone_engine::RepairReport;
use flagstone_env::Disk;
use std::path::Path;
use std::sync::Arc;

/// Creates a database from what can still be read of a damaged one.
///
/// Keeps everything that can be read, and reports in a [`RepairReport`] what cannot: file, place,
/// keys, writes. Whole tables are kept as they are; of damaged tables the good blocks; of the log
/// all whole records, also those after damage. Without a manifest, keyspaces are rebuilt from their
/// tables and the log. Their names are lost then (`keyspace-3`), and so are the names of folds and
/// codecs; the names of fields are not.
///
/// [`Repair::into_dir`] only reads the original and creates another database. Copy what you have
/// before [`Repair::in_place`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let (data, repaired) = (dir.path().join("data"), dir.path().join("repaired"));
/// # let db = flagstone::Database::open(&data)?;
/// # db.keyspace("sessions")?.put("alice", "1")?;
/// # db.close()?;
/// use flagstone::Space;
/// std::fs::remove_file(data.join("CURRENT")).unwrap();
/// assert!(flagstone::Database::open(&data).is_err());
///
/// let report = flagstone::admin::Repair::of(&data).into_dir(&repaired)?;
/// println!("{report}");
/// let db = flagstone::Database::open(&repaired)?;
/// assert_eq!(db.keyspace("sessions")?.count()?, 1);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[must_use = "nothing is repaired until a destination is named"]
pub struct Repair(flagstone_engine::Repair);

impl Repair {
    /// Prepares a repair of the database in `dir`. Nothing is read yet.
    pub fn of(dir: impl AsRef<Path>) -> Self {
        Self(flagstone_engine::Repair::of(dir.as_ref(), Arc::<Contents>::default()))
    }

    /// Names the fold of the keyspace with this number, in case the manifest is lost.
    pub fn fold(self, keyspace: u32, name: &str) -> Self {
        Self(self.0.fold(keyspace, name))
    }

    /// Repairs on another disk. For tests.
    #[doc(hidden)]
    pub fn on_disk(self, disk: Arc<dyn Disk>) -> Self {
        Self(self.0.on_disk(disk))
    }

    /// Creates the repaired database in `to`, which must be missing or empty. Whole tables are
    /// linked, or copied where the file system supports no hard links. After an error or a crash
    /// there is no database in `to`.
    ///
    /// # Errors
    /// InvalidInput when there is nothing to repair, or `to` is not empty, or inside of the
    /// database; Busy when the database is open; Unsupported when a newer flagstone wrote it;
    /// OutOfSpace, Io.
    pub fn into_dir(self, to: impl AsRef<Path>) -> Result<RepairReport> {
        self.0.into_dir(to.as_ref())
    }

    /// Repairs the database in its directory. Writes new tables and a new manifest next to the old
    /// files, switches `CURRENT`, and renames every file that the repaired database does not need
    /// to `NAME.aside`. Nothing is removed, so what could not be read can be examined later. Until
    /// `CURRENT` is switched, the old files are unchanged.
    ///
    /// # Errors
    /// As [`Repair::into_dir`].
    pub fn in_place(self) -> Result<RepairReport> {
        self.0.in_place()
    }
}
