//! Opening with choices: options, listeners, folds, an environment.

use crate::contents::Contents;
use crate::database::Database;
use flagstone_base::Result;
use flagstone_engine::fold::{AddI64, Append, Fold};
use flagstone_engine::{Config, Durability, Engine, Environment, Listener, Options};
use std::path::Path;
use std::sync::Arc;

/// Collects what a database is opened with; made by [`Database::builder`].
#[must_use = "a builder opens nothing until `open` is called"]
pub struct Builder {
    config: Config,
    folds: Vec<Arc<dyn Fold>>,
}

impl Builder {
    pub(crate) fn new(dir: &Path) -> Self {
        let config = Config::new(dir, Arc::<Contents>::default());
        Self { config, folds: vec![Arc::new(AddI64), Arc::new(Append)] }
    }

    /// All options at once.
    pub fn options(mut self, options: Options) -> Self {
        self.config.options = options;
        self
    }

    /// Memory for memtables, cache and the rest, in bytes; at least 1 MiB.
    pub const fn memory_budget(mut self, bytes: u64) -> Self {
        self.config.options.memory_budget = bytes;
        self
    }

    /// Reads blocks past the page cache of the system; see [`Options::direct_reads`].
    pub const fn direct_reads(mut self, direct: bool) -> Self {
        self.config.options.direct_reads = direct;
        self
    }

    /// Seals the memtable of a partition at so many bytes; see [`Options::memtable_bytes`].
    pub const fn memtable_bytes(mut self, bytes: u64) -> Self {
        self.config.options.memtable_bytes = Some(bytes);
        self
    }

    /// Whether entries carry checks against changes in memory; see [`Options::entry_checks`].
    pub const fn entry_checks(mut self, on: bool) -> Self {
        self.config.options.entry_checks = on;
        self
    }

    /// How much room is kept for a full disk; see [`Options::ballast_bytes`].
    pub const fn ballast_bytes(mut self, bytes: u64) -> Self {
        self.config.options.ballast_bytes = Some(bytes);
        self
    }

    /// Has tables read in the background; see [`Options::scrub_bytes_per_second`].
    pub const fn scrub_bytes_per_second(mut self, bytes: u64) -> Self {
        self.config.options.scrub_bytes_per_second = bytes;
        self
    }

    /// How fast backups and checkpoints copy; see [`Options::copy_bytes_per_second`].
    pub const fn copy_bytes_per_second(mut self, bytes: u64) -> Self {
        self.config.options.copy_bytes_per_second = bytes;
        self
    }

    /// What commits promise unless they say otherwise.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.config.options.durability = durability;
        self
    }

    /// Whether a missing database is made; true by default.
    pub const fn create_if_missing(mut self, create: bool) -> Self {
        self.config.options.create_if_missing = create;
        self
    }

    /// Adds a listener of events.
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.config.listeners.push(Arc::new(listener));
        self
    }

    /// Registers a fold, so that keyspaces can name it. [`AddI64`] and [`Append`] are there already.
    pub fn fold(mut self, fold: impl Fold + 'static) -> Self {
        self.folds.push(Arc::new(fold));
        self
    }

    /// Another outside world: for tests.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.config.environment = environment;
        self
    }

    /// Opens the database for reading and writing; makes it if there is none.
    ///
    /// # Errors
    /// Busy when it is open already, here or in another process; Corruption; Unsupported when a
    /// newer flagstone wrote it; InvalidInput for options out of range, or a fold it needs that is not
    /// registered; Io.
    pub fn open(self) -> Result<Database> {
        Engine::open(self.config()).map(Database::new)
    }

    /// Opens the database for reading only: the log is replayed in memory, no file is changed.
    ///
    /// # Errors
    /// As [`Builder::open`]; Io when there is no database; InvalidInput when the log takes more than half of the memory
    /// budget and 64 MiB: the text names the budget that is needed.
    pub fn open_read_only(self) -> Result<Database> {
        Engine::open_read_only(self.config()).map(Database::new)
    }

    fn config(self) -> Config {
        Config { contents: Arc::new(Contents::new(self.folds)), ..self.config }
    }
}
