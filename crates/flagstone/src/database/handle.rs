//! The handle of an open database: commits, snapshots, syncs, statistics, closing.

use crate::args::{Key, NewValue};
use crate::batch::Batch;
use crate::changes::Changes;
use crate::commit;
use crate::keyspace::Keyspace;
use crate::snapshot::Snapshot;
use flagstone_base::{Moment, Result};
use flagstone_engine::{ChangesFrom, Engine, IngestReport, Stats, Ticket, TryCommit};
use std::fmt;
use std::path::Path;

/// An open database: a directory that one process writes. Cheap to clone; usable from any thread.
/// The database is closed when its last handle is dropped; keyspaces and collections are handles,
/// too.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use flagstone::Space;
/// let db = flagstone::Database::open(dir.path().join("data"))?;
/// let kv = db.keyspace("sessions")?;
/// kv.put("alice", "1")?;
/// assert_eq!(kv.get("alice")?.as_deref(), Some(b"1".as_slice()));
///
/// let mut batch = db.batch();
/// batch.put(&kv, "bob", "2")?;
/// batch.delete(&kv, "alice")?;
/// db.commit(batch)?;
/// db.close()?;
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone)]
pub struct Database(pub(super) Engine);

impl Database {
    /// Returns an address that no other open database has.
    #[cfg(all(feature = "doubles", feature = "documents"))]
    pub(crate) fn address(&self) -> usize {
        std::sync::Arc::as_ptr(self.0.scratch()) as usize
    }
}

/// Commits, snapshots, and the handle itself.
impl Database {
    /// Returns the directory of the database, as an absolute path without symbolic links.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let same = std::fs::canonicalize(dir.path()).unwrap();
    /// assert_eq!(db.path(), same);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns an empty batch.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// let mut batch = db.batch();
    /// batch.put(&kv, "a", "1")?;
    /// batch.put(&kv, "b", "2")?;
    /// db.commit(batch)?;
    /// assert_eq!(kv.count()?, 2);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn batch(&self) -> Batch {
        Batch::default()
    }

    /// Commits the writes of `batch`, all together. Returns when they are as durable as
    /// [`Batch::durability`] says, or without it as the database is.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let (kv, users) = (db.keyspace("kv")?, db.collection("users")?);
    /// let mut batch = db.batch();
    /// batch.put(&kv, "newest", "ada")?;
    /// batch.put(&users, "ada", flagstone::doc!({ "age": 36 }))?;
    /// db.commit(batch)?;
    /// assert_eq!((kv.count()?, users.count()?), (1, 1));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Conflict if a condition of the batch does not hold; InvalidInput for a batch of more than a
    /// quarter of the memory budget, or of a dropped keyspace; OutOfSpace, Io, Poisoned, Closed. An
    /// error other than Poisoned means that nothing was written. After Poisoned this is unknown
    /// until the database is opened again.
    pub fn commit(&self, mut batch: Batch) -> Result<()> {
        if let Some(remote) = batch.remote.take() {
            remote.commit()?;
        }
        self.commit_start(batch)?.wait()
    }

    /// Adds `entries`, in strictly ascending order of their keys, to `keyspace`: without log and
    /// memtable, all of them or none. [`Ingest`](crate::Ingest) says how, and has more options.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("squares")?;
    /// let squares = (0..1000_u64).map(|n| (n.to_be_bytes(), (n * n).to_string()));
    /// let report = db.ingest(&kv, squares)?;
    /// assert_eq!((report.entries, kv.count()?), (1000, 1000));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database; else as [`Ingest::put`](crate::Ingest::put)
    /// and [`Ingest::finish`](crate::Ingest::finish). Then nothing was added.
    pub fn ingest<K: Key<Keyspace>, V: NewValue<Keyspace>>(
        &self,
        keyspace: &Keyspace,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        let mut ingest = self.0.ingest(&keyspace.0)?;
        for (key, value) in entries {
            let bytes = value.value_bytes(keyspace)?;
            ingest.put(key.key_bytes()?.as_ref(), &bytes, value.expiry())?;
        }
        ingest.finish()
    }

    /// Returns the moment by which a read now judges whether an entry has expired. It is the time
    /// of the wall clock, except that it never goes back, not even when the clock is set or the
    /// database is opened again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Expires, Space};
    /// use std::time::Duration;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("gone", "1".expires(db.now()))?;
    /// kv.put("kept", "1".expires(db.now().after(Duration::from_secs(3600))))?;
    /// assert_eq!(kv.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn now(&self) -> Moment {
        self.0.now()
    }

    /// Makes the writes of `batch` visible and returns a ticket, which shows when they are durable.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Durability, Space};
    /// let kv = db.keyspace("kv")?;
    /// let mut tickets = Vec::new();
    /// for n in 0..3_u8 {
    ///     let mut batch = db.batch().durability(Durability::Group);
    ///     batch.put(&kv, [n], "1")?;
    ///     tickets.push(db.commit_start(batch)?);
    /// }
    /// assert_eq!(kv.count()?, 3);                                 // visible
    /// for ticket in tickets {
    ///     ticket.wait()?;                                         // safe from a power cut
    /// }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn commit_start(&self, batch: Batch) -> Result<Ticket> {
        batch.check_is_here()?;
        let durability = batch.durability_or(self.0.options().durability);
        commit::start(&self.0, batch.inner, durability)
    }

    /// As [`Database::commit_start`], but never waits until flushes or compactions have caught up:
    /// where [`Database::commit`] would wait, this returns for how long. For a server that must not
    /// block its threads. Like every commit it still waits for the append to the log and for other
    /// writers of the same keys: an update holds its key while its large value waits for space. It
    /// reads the keys of its conditions and, where entries expire, the values that its merges
    /// change. The manifest is synced by the first expiry of a keyspace and, rarely, when the
    /// prepared SeqNos or log files are used up. The batch is borrowed, so it can be tried again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # let kv = db.keyspace("kv")?;
    /// use flagstone::admin::TryCommit;
    /// let mut batch = db.batch();
    /// batch.put(&kv, "a", "1")?;
    /// match db.try_commit(&batch)? {
    ///     // Visible. A timer may ask whether it is durable, and commit more after `pause`.
    ///     TryCommit::Started { ticket, pause } => assert!(ticket.is_done() && pause.is_zero()),
    ///     // A timer may try again.
    ///     TryCommit::RetryAfter(time) => assert!(!time.is_zero()),
    /// }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn try_commit(&self, batch: &Batch) -> Result<TryCommit> {
        batch.check_is_here()?;
        let durability = batch.durability_or(self.0.options().durability);
        commit::try_start(&self.0, &batch.inner, durability)
    }

    /// Takes a snapshot: all keyspaces as of now, for as long as it is held.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// let before = db.snapshot();
    /// kv.delete("a")?;
    /// assert_eq!(before.get(&kv, "a")?.as_deref(), Some(b"1".as_slice()));
    /// assert_eq!(kv.get("a")?, None);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.0.snapshot())
    }

    /// Begins to read changes: what was committed, in order. The database must keep them
    /// ([`Options::change_retention`](crate::Options::change_retention)). [`Changes`] says more.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::changes::{ChangeRetention, ChangesFrom, Happened};
    /// use flagstone::{Database, Options, Space};
    /// # let dir = dir.path().join("kept");
    /// let options = Options::new().change_retention(ChangeRetention::bytes(1 << 30));
    /// let db = Database::builder(dir).options(options).open()?;
    /// db.keyspace("kv")?.put("a", "1")?;
    /// db.sync()?;
    /// let mut keys = Vec::new();
    /// for delivery in db.changes(ChangesFrom::Start)? {
    ///     let Happened::Commit(batch) = delivery?.happened else { continue };
    ///     keys.extend(batch.changes().map(|change| change.key_bytes().to_vec()));
    /// }
    /// assert_eq!(keys, [b"a"]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// TooOld for a token of changes that are not kept any more; InvalidInput if changes are not
    /// kept, or for a token of another history, such as that of a restored backup; Closed.
    pub fn changes(&self, from: ChangesFrom) -> Result<Changes> {
        self.0.changes(from).map(Changes::new)
    }

    /// Makes everything acknowledged and logged so far survive a power cut.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// for n in 0..1000_u32 {
    ///     kv.put(n.to_be_bytes(), "buffered")?;
    /// }
    /// db.sync()?;                                                 // one sync for all of them
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Io, Poisoned, Closed.
    pub fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    /// Returns counters and sizes of all parts of the database as of now.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// db.keyspace("kv")?.put("a", "1")?;
    /// let stats = db.stats();
    /// assert_eq!((stats.keyspaces.len(), stats.stalls), (1, 0));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Flushes what is only in memory, syncs, and closes the database for all handles. Dropping the
    /// last handle does the same, and reports errors to the listeners.
    ///
    /// Handles that are left (keyspaces, collections, snapshots, scans, changes) refuse new work,
    /// but keep the directory and its tables open until they are dropped: a file system is
    /// unmounted only after that.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Database, Space};
    /// db.keyspace("kv")?.put("a", "1")?;
    /// db.close()?;
    /// assert_eq!(Database::open(dir.path())?.keyspace("kv")?.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error that prevented a clean close; logged writes are in the log even then. Poisoned if
    /// a sync had failed: what was not synced before may be lost. The database is closed and its
    /// lock released in any case. Closed if it was closed already.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.path().display())
    }
}
