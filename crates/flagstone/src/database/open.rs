//! How a database is opened: the builder, which collects options, listeners and folds.

use super::handle::Database;
use crate::contents::Contents;
use flagstone_base::Result;
use flagstone_engine::fold::{AddI64, Append, Fold};
use flagstone_engine::{Config, Engine, Environment, Listener, Options};
use std::path::Path;
use std::sync::Arc;

/// Opening.
impl Database {
    /// Opens the database in `dir` with default options, or creates it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::{Database, Space};
    /// let db = Database::open(&path)?;
    /// db.keyspace("kv")?.put("a", "1")?;
    /// db.close()?;
    /// assert_eq!(Database::open(&path)?.keyspace("kv")?.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::builder(dir).open()
    }

    /// Returns a builder, which opens the database in `dir` with options.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::{Database, Options};
    /// let options = Options::new().create_if_missing(false);
    /// assert!(Database::builder(&path).options(options).open().is_err());
    /// Database::builder(&path).open()?.close()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn builder(dir: impl AsRef<Path>) -> Builder {
        Builder::new(dir.as_ref())
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
/// use flagstone::{Database, Durability, Options};
/// use flagstone::admin::Event;
///
/// let options = Options::new().memory_budget(256 << 20).durability(Durability::Group);
/// let db = Database::builder(path)
///     .options(options)
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

    /// Sets the options, and replaces those that were set before.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::{Database, Durability, Options};
    /// let options = Options::new().memory_budget(256 << 20).durability(Durability::Group);
    /// let db = Database::builder(&path).options(options).open()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn options(mut self, options: Options) -> Self {
        self.config.options = options;
        self
    }

    /// Adds a listener, which is called with each event.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::admin::Event;
    /// use flagstone::{Database, Space};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// let flushes = Arc::new(AtomicU64::new(0));
    /// let count = Arc::clone(&flushes);
    /// let listener = move |event: &Event| {
    ///     if let Event::FlushFinished { .. } = event {
    ///         count.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// };
    /// let db = Database::builder(&path).listener(listener).open()?;
    /// db.keyspace("kv")?.put("a", "1")?;
    /// db.close()?;
    /// assert_eq!(flushes.load(Ordering::Relaxed), 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.config.listeners.push(Arc::new(listener));
        self
    }

    /// Registers a fold, so that keyspaces can name it. [`AddI64`] and [`Append`] are registered
    /// already. A database is not opened without the folds that its keyspaces name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::fold::Fold;
    /// use flagstone::{Database, KeyspaceOptions, Space};
    ///
    /// /// Keeps the longest operand.
    /// struct Longest;
    ///
    /// impl Fold for Longest {
    ///     fn name(&self) -> &str {
    ///         "longest/1"
    ///     }
    ///
    ///     fn fold(
    ///         &self,
    ///         _key: &[u8],
    ///         base: Option<&[u8]>,
    ///         operands: &[&[u8]],
    ///     ) -> Option<Vec<u8>> {
    ///         let all = base.into_iter().chain(operands.iter().copied());
    ///         all.max_by_key(|value| value.len()).map(<[u8]>::to_vec)
    ///     }
    /// }
    ///
    /// let db = Database::builder(&path).fold(Longest).open()?;
    /// let options = KeyspaceOptions::new().fold("longest/1");
    /// let words = db.space("words").options(options).keyspace()?;
    /// words.merge("a", "ant")?;
    /// words.merge("a", "albatross")?;
    /// words.merge("a", "asp")?;
    /// assert_eq!(words.get("a")?.as_deref(), Some(b"albatross".as_slice()));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn fold(mut self, fold: impl Fold + 'static) -> Self {
        self.folds.push(Arc::new(fold));
        self
    }

    /// Sets the directory of temporary files, into which sorts, groups and index builds write what
    /// exceeds their memory. Without it they use the directory of the database, and a database that
    /// is opened for reading only refuses such queries.
    ///
    /// The directory is created when it is needed, for its owner alone. One open database uses it
    /// at a time. An open removes files of the same kind that a crash has left in it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::Database;
    /// let db = Database::builder(&path).scratch_dir(dir.path().join("scratch")).open()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn scratch_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.config.scratch_dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Replaces the disk, the clock, randomness and threads. For tests.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::admin::Environment;
    /// use flagstone::{Database, Expires, Space};
    /// use flagstone_env::ManualClock;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// let clock = Arc::new(ManualClock::default());
    /// let environment = Environment { clock: clock.clone(), ..Environment::default() };
    /// let db = Database::builder(&path).environment(environment).open()?;
    /// let sessions = db.keyspace("sessions")?;
    /// sessions.put("alice", "in".expires(db.now().after(Duration::from_secs(60))))?;
    /// assert!(sessions.get("alice")?.is_some());
    /// clock.advance(Duration::from_secs(61));                     // no test waits a minute
    /// assert!(sessions.get("alice")?.is_none());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn environment(mut self, environment: Environment) -> Self {
        self.config.environment = environment;
        self
    }

    /// Opens the database for reading and writing, or creates it.
    ///
    /// Replays the log: at most about 512 MiB of it, and usually a fraction of a second.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::{Database, ErrorKind};
    /// let db = Database::builder(&path).open()?;
    /// let again = Database::builder(&path).open().unwrap_err();
    /// assert_eq!(again.kind(), ErrorKind::Busy);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
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
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use flagstone::{Database, ErrorKind, Space};
    /// # Database::open(&path)?.keyspace("kv")?.put("a", "1")?;
    /// let db = Database::builder(&path).open_read_only()?;
    /// let kv = db.keyspace("kv")?;
    /// assert_eq!(kv.count()?, 1);
    /// assert_eq!(kv.put("b", "2").unwrap_err().kind(), ErrorKind::InvalidInput);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
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
