//! Maintenance of an open database: flushes, compactions, checkpoints, backups, verification.

use super::handle::Database;
use flagstone_base::Result;
use flagstone_engine::{BackupReport, CheckpointReport, CompactProgress, VerifyReport};
use std::ops::ControlFlow;
use std::path::Path;

/// Flushes, compactions, copies and verification.
impl Database {
    /// Writes all memtables to tables. When this returns, everything acknowledged before the call
    /// survives a power cut, whatever its durability.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// db.keyspace("kv")?.put("a", "1")?;
    /// db.flush()?;
    /// assert_eq!(db.stats().flushes, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// OutOfSpace, Io, Poisoned, Closed.
    pub fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    /// Flushes, then merges every tree down to its deepest level: drops overwritten and deleted
    /// entries, and gives all tables their final compression. Tables that have their final form are
    /// left alone.
    ///
    /// The largest trees come first, one on the caller's thread and one on each of the
    /// [`compaction_workers`](crate::Options::compaction_workers). A tree is done in pieces of 64
    /// MiB or a twentieth of it, for which the disk needs free room. Reads and writes continue
    /// meanwhile. After an error no further piece is begun; finished pieces stay.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// db.flush()?;
    /// kv.delete("a")?;
    /// db.compact()?;
    /// assert_eq!(db.stats().table_bytes(), 0);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// OutOfSpace, Io, Corruption, Poisoned, Closed.
    pub fn compact(&self) -> Result<()> {
        self.compact_with(|_progress| ControlFlow::Continue(())).map(|_all| ())
    }

    /// As [`Database::compact`], and reports progress to `watch` between short steps, at least
    /// every 50 ms. If `watch` returns `Break`, unfinished pieces are dropped, finished ones stay,
    /// and `Break` is returned; another call continues from there.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use std::ops::ControlFlow;
    /// let began = std::time::Instant::now();
    /// let done = db.compact_with(|progress| match began.elapsed().as_secs() {
    ///     0..60 => ControlFlow::Continue(()),
    ///     _ => ControlFlow::Break(()),
    /// })?;
    /// assert!(done.is_continue());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::compact`].
    pub fn compact_with(
        &self,
        watch: impl FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.0.compact_with(watch)
    }

    /// Creates an independent copy of the database in `dir`, which must be missing or empty. The
    /// copy holds everything acknowledged before the call, whatever its durability, as of one
    /// moment, and may be opened, written, compacted and removed like any other database. Reads,
    /// writes and compactions continue meanwhile.
    ///
    /// Memtables are flushed, then each table gets a second name (a hard link). That takes
    /// milliseconds, however large the database is, and no room on disk until the two differ. Where
    /// the file system supports no such link, as to another device, tables are copied, which takes
    /// time and room for all of them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use flagstone::Space;
    /// let db = flagstone::Database::open(dir.path().join("data"))?;
    /// db.keyspace("sessions")?.put("alice", "1")?;
    /// db.checkpoint(dir.path().join("copy"))?;
    /// db.keyspace("sessions")?.put("bob", "2")?;
    ///
    /// let copy = flagstone::Database::open(dir.path().join("copy"))?;
    /// assert_eq!(copy.keyspace("sessions")?.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if `dir` is not empty, or is inside of this database, or if this database is
    /// open for reading only; Busy if another process creates a database there, or keyspaces are
    /// created or dropped all the time; OutOfSpace, Io, Poisoned, Closed. After an error or a crash
    /// there is no database in `dir`.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.0.checkpoint(dir.as_ref())
    }

    /// Adds a generation to the backups in `dir`, which is created if it is missing. The generation
    /// holds everything acknowledged before the call, whatever its durability, as of one moment.
    /// Reads, writes and compactions continue meanwhile.
    ///
    /// Tables that the directory has from an earlier generation are not copied again. The others
    /// are copied, synced and read back; only then is the generation written. After an error or a
    /// crash the earlier generations are unchanged, and the next call uses the tables that were
    /// copied. Generations stay until [`Backups::keep`](crate::admin::Backups::keep) removes them;
    /// [`Backups::restore`](crate::admin::Backups::restore) creates a database from one.
    ///
    /// A database that is open for reading only can be backed up if everything in it is in tables,
    /// as after [`Database::close`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (backups, restored) = (dir.path().join("backups"), dir.path().join("restored"));
    /// use flagstone::{Database, Space};
    /// use flagstone::admin::Backups;
    ///
    /// let db = Database::open(dir.path().join("data"))?;
    /// let kv = db.keyspace("sessions")?;
    /// kv.put("alice", "1")?;
    /// let report = db.backup(&backups)?;
    /// kv.delete("alice")?;
    /// db.backup(&backups)?;
    ///
    /// Backups::in_dir(&backups).restore(Some(report.generation), &restored)?;
    /// assert_eq!(Database::open(&restored)?.keyspace("sessions")?.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if `dir` is inside of this database, or holds a database or backups of another
    /// one, or if this database is open for reading only and its log holds writes; Busy if another
    /// process changes the backups; Corruption if a table is damaged; OutOfSpace, Io, Poisoned,
    /// Closed.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        self.0.backup(dir.as_ref())
    }

    /// Reads everything and checks every checksum, order and bound, while others read and write:
    /// - the manifest: its file must agree with memory on keyspaces, tables, names and files of the
    ///   log;
    /// - the log: every segment, by the reader of recovery;
    /// - the tables: each alone, then all of a tree in the order of their keys, because an entry of
    ///   a newer run must be newer than those of the same key in older runs and deeper levels.
    ///
    /// Then each complete index is compared with the documents of its collection, as of one moment.
    ///
    /// Reads tables twice where there is more than one run. Takes the memory of a few blocks of
    /// each run.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// db.keyspace("kv")?.put("a", "1")?;
    /// db.flush()?;
    /// println!("{}", db.verify()?);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Corruption with file and offset for the first damage found, or with index, value and key for
    /// the first entry that differs; Io, Closed.
    pub fn verify(&self) -> Result<VerifyReport> {
        let report = self.0.verify()?;
        #[cfg(feature = "documents")]
        for keyspace in self.0.keyspaces() {
            // It may have been dropped or renamed meanwhile, or be no collection.
            if let Ok(Some(collection)) = self.space(&keyspace.name).existing().collection() {
                collection.verify_indexes()?;
            }
        }
        Ok(report)
    }

    /// Checks everything but the data blocks of tables: the manifest as [`Database::verify`] does;
    /// the headers of all segments of the log, and the records of the last one; of every table its
    /// presence, length, header, footer, index, filter and properties. Reads about one byte in a
    /// hundred.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// db.keyspace("kv")?.put("a", "1")?;
    /// db.flush()?;
    /// println!("{}", db.verify_quickly()?);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::verify`].
    pub fn verify_quickly(&self) -> Result<VerifyReport> {
        self.0.verify_quickly()
    }
}
