//! The database handle: keyspaces and collections by name, commits, snapshots, maintenance; and the
//! builder that opens it.

use crate::batch::Batch;
use crate::codec::{Codec, KeyCodec};
use crate::collection::Collection;
use crate::contents::{self, Contents};
use crate::entry::CommitOptions;
use crate::keyspace::Keyspace;
use crate::snapshot::Snapshot;
use crate::typed::Typed;
use flagstone_base::{Moment, Result};
use flagstone_engine::fold::{AddI64, Append, Fold};
use flagstone_engine::{
    BackupReport, CheckpointReport, CompactProgress, Config, Engine, Environment, KeyspaceInfo,
    KeyspaceOptions, Listener, Options, Stats, Ticket, TryCommit, VerifyReport,
};
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// An open database: a directory that one process writes. Cheap to clone; usable from any thread.
/// The database is closed when its last handle is dropped; keyspaces and collections are handles,
/// too.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
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
pub struct Database(Engine);

impl Database {
    /// Opens the database in `dir` with default options, or creates it.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::builder(dir).open()
    }

    /// Opens the database in `dir` for reading only, and changes no file.
    ///
    /// # Errors
    /// As [`Builder::open_read_only`].
    pub fn open_read_only(dir: impl AsRef<Path>) -> Result<Self> {
        Self::builder(dir).open_read_only()
    }

    /// Returns a builder, which opens the database in `dir` with options.
    pub fn builder(dir: impl AsRef<Path>) -> Builder {
        Builder::new(dir.as_ref())
    }

    /// Returns the directory of the database.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Opens the keyspace `name` of bytes, or creates it with default options.
    ///
    /// # Errors
    /// InvalidInput for a name of 0 or more than 255 bytes, or the name of a collection or typed
    /// keyspace; Io, OutOfSpace, Poisoned, Closed.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.bytes_or_make(name, None)
    }

    /// Opens the keyspace `name` of bytes, or creates it with `options`. If there is one, every
    /// option that is set must have the stored value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::KeyspaceOptions;
    /// db.keyspace_with("kv", KeyspaceOptions::new().block_bytes(4096))?;
    /// db.keyspace_with("kv", KeyspaceOptions::new())?;    // what is not set is not compared
    /// let refused = db.keyspace_with("kv", KeyspaceOptions::new().block_bytes(8192)).unwrap_err();
    /// let text = refused.to_string();
    /// assert!(text.contains("block_bytes 4096: it was opened with block_bytes 8192"));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::keyspace`]; InvalidInput also for an option that differs from the stored one:
    /// the text names both.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.bytes_or_make(name, Some(options))
    }

    fn bytes_or_make(&self, name: &str, options: Option<KeyspaceOptions>) -> Result<Keyspace> {
        let wanted = contents::bytes();
        self.0.keyspace_of(name, &wanted, options.as_ref()).map(Keyspace)
    }

    /// Opens the keyspace `name` of bytes if there is one.
    ///
    /// # Errors
    /// InvalidInput when the name is that of a collection or a typed keyspace; Closed.
    pub fn existing_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        Ok(self.0.existing(name, &contents::bytes())?.map(Keyspace))
    }

    /// Opens the collection `name` of documents, or creates it with default options.
    ///
    /// # Errors
    /// As [`Database::keyspace`].
    pub fn collection(&self, name: &str) -> Result<Collection> {
        Collection::new(self.0.keyspace_of(name, &contents::documents(), None)?)
    }

    /// Opens the collection `name`, or creates it with `options`.
    ///
    /// # Errors
    /// As [`Database::keyspace_with`].
    pub fn collection_with(&self, name: &str, options: KeyspaceOptions) -> Result<Collection> {
        Collection::new(self.0.keyspace_of(name, &contents::documents(), Some(&options))?)
    }

    /// Opens the collection `name` if there is one.
    ///
    /// # Errors
    /// InvalidInput when the name is that of something else; Closed.
    pub fn existing_collection(&self, name: &str) -> Result<Option<Collection>> {
        self.0.existing(name, &contents::documents())?.map(Collection::new).transpose()
    }

    /// Opens the keyspace `name` of Rust keys and values, or creates it with default options. Any
    /// type that implements serde's traits can be a value; [`KeyCodec`] says what can be a key. The
    /// catalog keeps the names of both codecs and checks them when the keyspace is opened again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct User { name: String, born: u16 }
    ///
    /// let users = db.typed::<String, User>("users")?;
    /// users.put("ada", &User { name: "Ada".into(), born: 1815 })?;
    /// assert_eq!(users.get("ada")?.map(|user| user.born), Some(1815));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::keyspace`]; InvalidInput for a keyspace with other codecs.
    #[cfg(feature = "serde")]
    pub fn typed<K: KeyCodec, V>(&self, name: &str) -> Result<Typed<K, V>>
    where
        V: serde::Serialize + serde::de::DeserializeOwned,
    {
        self.typed_or_make(name, None)
    }

    /// As [`Database::typed`], but creates the keyspace with `options`.
    ///
    /// # Errors
    /// As [`Database::typed`] and [`Database::keyspace_with`].
    #[cfg(feature = "serde")]
    pub fn typed_with<K: KeyCodec, V>(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Typed<K, V>>
    where
        V: serde::Serialize + serde::de::DeserializeOwned,
    {
        self.typed_or_make(name, Some(options))
    }

    /// As [`Database::typed`], with the codec `C` for values: [`Plain`](crate::Plain), or one of
    /// your own.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Plain;
    ///
    /// let hits = db.typed_codec::<String, u64, Plain>("hits")?;
    /// hits.put("/index.html", &1)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::typed`].
    pub fn typed_codec<K: KeyCodec, V, C: Codec<V>>(&self, name: &str) -> Result<Typed<K, V, C>> {
        self.typed_or_make(name, None)
    }

    /// As [`Database::typed_codec`], but creates the keyspace with `options`.
    ///
    /// # Errors
    /// As [`Database::typed`] and [`Database::keyspace_with`].
    pub fn typed_codec_with<K: KeyCodec, V, C: Codec<V>>(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Typed<K, V, C>> {
        self.typed_or_make(name, Some(options))
    }

    /// Opens the typed keyspace `name` if there is one.
    ///
    /// # Errors
    /// InvalidInput when the name is that of something else, or the codecs are others; Closed.
    pub fn existing_typed<K: KeyCodec, V, C: Codec<V>>(
        &self,
        name: &str,
    ) -> Result<Option<Typed<K, V, C>>> {
        let found = self.0.existing(name, &contents::typed(&K::key_name(), &C::name()))?;
        Ok(found.map(|keyspace| Typed::new(Keyspace(keyspace))))
    }

    fn typed_or_make<K: KeyCodec, V, C: Codec<V>>(
        &self,
        name: &str,
        options: Option<KeyspaceOptions>,
    ) -> Result<Typed<K, V, C>> {
        let wanted = contents::typed(&K::key_name(), &C::name());
        let keyspace = self.0.keyspace_of(name, &wanted, options.as_ref())?;
        Ok(Typed::new(Keyspace(keyspace)))
    }

    /// Opens the keyspaces `names` of bytes, and creates those that are missing with `options`, all
    /// by one sync of the disk. Ten thousand take a fraction of a second. After a crash all new
    /// ones are there, or none.
    ///
    /// # Errors
    /// As [`Database::keyspace_with`]. After an error none was created.
    pub fn keyspaces_with<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
        options: &KeyspaceOptions,
    ) -> Result<Vec<Keyspace>> {
        let names: Vec<N> = names.into_iter().collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let found = self.0.keyspaces_of(&names, &contents::bytes(), Some(options))?;
        Ok(found.into_iter().map(Keyspace).collect())
    }

    /// Removes a keyspace, collection or typed keyspace with its content. Returns false if there is
    /// none.
    ///
    /// Its handles return InvalidInput from then on, and so do gets and scans that are under way.
    /// Its files are removed when the last reader has finished. All writes that were acknowledged
    /// before become durable first, unless the disk is full, because the content may have been
    /// copied to other keyspaces; that waits for flushes.
    ///
    /// # Errors
    /// Io, OutOfSpace, Poisoned, Closed. If the disk fails half-way, the keyspace may be dropped or
    /// not after a crash; until that is settled, writes to it return Io.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        self.0.drop_keyspace(name)
    }

    /// Changes the options of the keyspace, collection or typed keyspace `name` that are set:
    /// compression, block size, filters. The change is one edit of the manifest, synced when this
    /// returns. It applies to tables written from then on. Existing tables change when they are
    /// compacted; [`Database::compact`] rewrites those whose compression differs.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Compression, KeyspaceOptions};
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// db.alter_keyspace("kv", KeyspaceOptions::new().bottom_compression(Compression::Zstd(7)))?;
    /// db.compact()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput when there is no keyspace `name`, for an option out of range, and for another
    /// routing or fold, which are fixed at creation: the text names both values. Io, OutOfSpace,
    /// Poisoned, Closed; a change that failed half-way on the disk may come back after a crash.
    pub fn alter_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<()> {
        self.0.alter_keyspace(name, &options)
    }

    /// Gives the keyspace, collection or typed keyspace `old` the name `new`. All its handles stay
    /// valid and return the new name. The change is one edit of the manifest, synced when this
    /// returns: after a crash there is one of the two names. Writes that were acknowledged before
    /// become durable first, unless the disk is full, so a crash never shows the new name with
    /// older content. That waits for flushes if there are unlogged writes.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let next = db.keyspace("prices.next")?;
    /// next.put("apple", "3")?;
    /// db.keyspace("prices")?;
    /// db.rename_keyspace("prices", "prices.old")?;
    /// db.rename_keyspace("prices.next", "prices")?;
    /// assert_eq!(next.name(), "prices");
    /// assert!(db.existing_keyspace("prices.next")?.is_none());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput when there is no keyspace `old`, when there is one named `new`, or for a name
    /// of 0 or over 255 bytes; Io, OutOfSpace, Poisoned, Closed. After a failure of the disk the
    /// old name stays, or a crash shows the new one.
    pub fn rename_keyspace(&self, old: &str, new: &str) -> Result<()> {
        self.0.rename_keyspace(old, new)
    }

    /// Returns all keyspaces in the order of their names.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        self.0.keyspaces()
    }

    /// Returns an empty batch.
    pub fn batch(&self) -> Batch {
        Batch::default()
    }

    /// Commits the writes of `batch`, all together, with the durability of the database.
    ///
    /// # Errors
    /// Conflict if a condition of the batch does not hold; InvalidInput for a batch of more than a
    /// quarter of the memory budget, or of a dropped keyspace; OutOfSpace, Io, Poisoned, Closed. An
    /// error other than Poisoned means that nothing was written. After Poisoned this is unknown
    /// until the database is opened again.
    pub fn commit(&self, batch: Batch) -> Result<()> {
        self.commit_with(batch, CommitOptions::new())
    }

    /// As [`Database::commit`], with options of its own: a [`Durability`](crate::Durability) for
    /// example.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn commit_with(&self, batch: Batch, options: impl Into<CommitOptions>) -> Result<()> {
        let durability = options.into().durability.unwrap_or(self.0.options().durability);
        self.0.start_owned(batch.0, durability)?.wait()
    }

    /// Returns the moment by which a read now judges whether an entry has expired. It is the time
    /// of the wall clock, except that it never goes back, not even when the clock is set or the
    /// database is opened again.
    pub fn now(&self) -> Moment {
        self.0.now()
    }

    /// Makes the writes of `batch` visible and returns a ticket, which shows when they are durable.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn commit_start(&self, batch: Batch) -> Result<Ticket> {
        self.0.start_owned(batch.0, self.0.options().durability)
    }

    /// As [`Database::commit`], but returns Busy where `commit` would wait until flushes or
    /// compactions have caught up. The batch is borrowed, so it can be tried again.
    ///
    /// # Errors
    /// Busy; else as [`Database::commit`].
    pub fn try_commit(&self, batch: &Batch) -> Result<()> {
        self.0.start(&batch.0, self.0.options().durability, false)?.wait()
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
    /// use flagstone::TryCommit;
    /// let mut batch = db.batch();
    /// batch.put(&kv, "a", "1")?;
    /// match db.try_commit_start(&batch)? {
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
    pub fn try_commit_start(&self, batch: &Batch) -> Result<TryCommit> {
        self.0.try_start(&batch.0, self.0.options().durability)
    }

    /// Takes a snapshot: all keyspaces as of now, for as long as it is held.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.0.snapshot())
    }

    /// Makes everything acknowledged and logged so far survive a power cut.
    ///
    /// # Errors
    /// Io, Poisoned, Closed.
    pub fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    /// Writes all memtables to tables. When this returns, everything acknowledged before the call
    /// survives a power cut, whatever its durability.
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
    /// InvalidInput if `dir` is not empty, or this database is open for reading only; Busy if
    /// another process creates a database there, or keyspaces are created or dropped all the time;
    /// OutOfSpace, Io, Poisoned, Closed. After an error or a crash there is no database in `dir`.
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
    /// copied. Generations stay until [`Backups::keep`](crate::Backups::keep) removes them;
    /// [`Backups::restore`](crate::Backups::restore) creates a database from one.
    ///
    /// A database that is open for reading only can be backed up if everything in it is in tables,
    /// as after [`Database::close`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (backups, restored) = (dir.path().join("backups"), dir.path().join("restored"));
    /// use flagstone::{Backups, Database};
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
    /// InvalidInput if `dir` holds a database or backups of another one, or if this database is
    /// open for reading only and its log holds writes; Busy if another process changes the backups;
    /// Corruption if a table is damaged; OutOfSpace, Io, Poisoned, Closed.
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
    /// Reads tables twice where there is more than one run. Takes the memory of a few blocks of
    /// each run.
    ///
    /// # Errors
    /// Corruption with file and offset for the first damage found; Io, Closed.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.0.verify()
    }

    /// Checks everything but the data blocks of tables: the manifest as [`Database::verify`] does;
    /// the headers of all segments of the log, and the records of the last one; of every table its
    /// presence, length, header, footer, index, filter and properties. Reads about one byte in a
    /// hundred.
    ///
    /// # Errors
    /// As [`Database::verify`].
    pub fn verify_quickly(&self) -> Result<VerifyReport> {
        self.0.verify_quickly()
    }

    /// Returns counters and sizes of all parts of the database as of now.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Flushes what is only in memory, syncs, and closes the database for all handles. Dropping the
    /// last handle does the same, and reports errors to the listeners.
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

/// Collects what a database is opened with. [`Database::builder`] creates one.
///
/// The options are those of [`Options`], each with its range and its cost; nothing is checked
/// before [`Builder::open`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// use flagstone::{Database, Durability, Event};
///
/// let db = Database::builder(path)
///     .memory_budget(256 << 20)
///     .durability(Durability::Group)
///     .listener(|event: &Event| eprintln!("{event}"))
///     .open()?;
/// # db.close()?;
/// # Ok::<(), flagstone::Error>(())
/// ```
#[must_use = "a builder opens nothing until `open` is called"]
pub struct Builder {
    config: Config,
    folds: Vec<Arc<dyn Fold>>,
}

impl Builder {
    fn new(dir: &Path) -> Self {
        let config = Config::new(dir, Arc::<Contents>::default());
        Self { config, folds: vec![Arc::new(AddI64), Arc::new(Append)] }
    }

    /// Sets all options at once, and replaces those that were set before. Each option has a setter
    /// of its own, too.
    pub fn options(mut self, options: Options) -> Self {
        self.config.options = options;
        self
    }

    /// Adds a listener, which is called with each event.
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.config.listeners.push(Arc::new(listener));
        self
    }

    /// Registers a fold, so that keyspaces can name it. [`AddI64`] and [`Append`] are registered
    /// already. A database is not opened without the folds that its keyspaces name.
    pub fn fold(mut self, fold: impl Fold + 'static) -> Self {
        self.folds.push(Arc::new(fold));
        self
    }

    /// Replaces the disk, the clock, randomness and threads. For tests.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.config.environment = environment;
        self
    }

    /// Opens the database for reading and writing, or creates it.
    ///
    /// Replays the log: at most about 512 MiB of it, and usually a fraction of a second.
    ///
    /// # Errors
    /// Busy when the database is open already, here or in another process; Unsupported when a newer
    /// flagstone wrote it; InvalidInput for options out of range, or a fold that is not registered;
    /// Io, Corruption.
    pub fn open(self) -> Result<Database> {
        Engine::open(self.config()).map(Database)
    }

    /// Opens the database for reading only: replays the log in memory and changes no file.
    ///
    /// # Errors
    /// As [`Builder::open`]; Io when there is no database; InvalidInput when the log takes more
    /// than half of the memory budget and 64 MiB: the text names the budget that is needed.
    pub fn open_read_only(self) -> Result<Database> {
        Engine::open_read_only(self.config()).map(Database)
    }

    fn config(self) -> Config {
        Config { contents: Arc::new(Contents::new(self.folds)), ..self.config }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($argument:ident: $type:ty) = $value:expr;)*) => {
        /// Setters, one for each option. They take what those of [`Options`] take.
        impl Builder {
            $(
                $(#[$doc])*
                #[doc = concat!(
                    "See [`Options::", stringify!($name), "`](crate::Options#structfield.",
                    stringify!($name), ")."
                )]
                pub fn $name(mut self, $argument: $type) -> Self {
                    self.config.options.$name = $value;
                    self
                }
            )*
        }
    };
}

flagstone_engine::each_database_option!(setters);

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_engine::Durability;
    use std::time::Duration;

    /// Sets every option of a builder or of options.
    macro_rules! all_set {
        ($options:expr, $memtable_bytes:expr, $ballast_bytes:expr, $files_open_max:expr) => {
            $options
                .memory_budget(1)
                .direct_reads(true)
                .memtable_bytes($memtable_bytes)
                .entry_checks(false)
                .ballast_bytes($ballast_bytes)
                .scrub_bytes_per_second(4)
                .copy_bytes_per_second(5)
                .durability(Durability::Interval(Duration::from_secs(6)))
                .compaction_workers(7)
                .space_amplification_max(8.0)
                .document_bytes_max(9)
                .files_open_max($files_open_max)
                .create_if_missing(false)
        };
    }

    #[test]
    fn setters_of_a_builder_set_the_options() {
        let set = all_set!(Builder::new(Path::new("nowhere")), 2, 3, 10);
        let expected = all_set!(Options::new(), 2, 3, 10);
        assert_ne!(expected, Options::new());
        assert_eq!(set.config.options, expected);
    }

    #[test]
    fn what_was_set_goes_back_to_the_default_with_none() {
        let set = all_set!(Builder::new(Path::new("nowhere")), 2, Some(3), 10);
        let back = set.memtable_bytes(None).ballast_bytes(None).files_open_max(None);
        assert_eq!(back.config.options, all_set!(Options::new(), None, None, None));
    }
}
