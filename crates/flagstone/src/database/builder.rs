//! Opening with choices: options, listeners, folds, an environment.

use super::Database;
use crate::event::Listener;
use crate::fold::{AddI64, Append, Fold};
use crate::options::{Durability, Options};
use crate::shared::Environment;
use flagstone_base::Result;
use flagstone_env::{OsDisk, SystemClock, SystemRandom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Collects what a database is opened with; made by [`Database::builder`].
#[must_use = "a builder opens nothing until `open` is called"]
pub struct Builder {
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
    pub(crate) folds: Vec<Arc<dyn Fold>>,
    pub(crate) environment: Environment,
}

impl Builder {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            options: Options::default(),
            listeners: Vec::new(),
            folds: vec![Arc::new(AddI64), Arc::new(Append)],
            environment: Environment {
                disk: Arc::new(OsDisk),
                clock: Arc::new(SystemClock::default()),
                random: Arc::new(SystemRandom),
                executor: None,
            },
        }
    }

    /// All options at once.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Memory for memtables, cache and the rest, in bytes; at least 1 MiB.
    pub const fn memory_budget(mut self, bytes: u64) -> Self {
        self.options.memory_budget = bytes;
        self
    }

    /// Reads blocks past the page cache of the system; see [`Options::direct_reads`].
    pub const fn direct_reads(mut self, direct: bool) -> Self {
        self.options.direct_reads = direct;
        self
    }

    /// Seals the memtable of a partition at so many bytes; see [`Options::memtable_bytes`].
    pub const fn memtable_bytes(mut self, bytes: u64) -> Self {
        self.options.memtable_bytes = Some(bytes);
        self
    }

    /// Whether entries carry checks against changes in memory; see [`Options::entry_checks`].
    pub const fn entry_checks(mut self, on: bool) -> Self {
        self.options.entry_checks = on;
        self
    }

    /// How much room is kept for a full disk; see [`Options::ballast_bytes`].
    pub const fn ballast_bytes(mut self, bytes: u64) -> Self {
        self.options.ballast_bytes = Some(bytes);
        self
    }

    /// Has tables read in the background; see [`Options::scrub_bytes_per_second`].
    pub const fn scrub_bytes_per_second(mut self, bytes: u64) -> Self {
        self.options.scrub_bytes_per_second = bytes;
        self
    }

    /// How fast backups and checkpoints copy; see [`Options::copy_bytes_per_second`].
    pub const fn copy_bytes_per_second(mut self, bytes: u64) -> Self {
        self.options.copy_bytes_per_second = bytes;
        self
    }

    /// What commits promise unless they say otherwise.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// Whether a missing database is made; true by default.
    pub const fn create_if_missing(mut self, create: bool) -> Self {
        self.options.create_if_missing = create;
        self
    }

    /// Adds a listener of events.
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.listeners.push(Arc::new(listener));
        self
    }

    /// Registers a fold, so that keyspaces can name it. [`AddI64`] and [`Append`] are there already.
    pub fn fold(mut self, fold: impl Fold + 'static) -> Self {
        self.folds.push(Arc::new(fold));
        self
    }

    /// Another outside world: for tests.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Opens the database for reading and writing; makes it if there is none.
    ///
    /// # Errors
    /// Busy when it is open already, here or in another process; Corruption; Unsupported when a
    /// newer flagstone wrote it; InvalidInput for options out of range, or a fold it needs that is not
    /// registered; Io.
    pub fn open(self) -> Result<Database> {
        self.options.check()?;
        crate::open::open(self, false)
    }

    /// Opens the database for reading only: the log is replayed in memory, no file is changed.
    ///
    /// # Errors
    /// As [`Builder::open`]; Io when there is no database; InvalidInput when the log takes more than half of the memory
    /// budget and 64 MiB: the text names the budget that is needed.
    pub fn open_read_only(self) -> Result<Database> {
        self.options.check()?;
        crate::open::open(self, true)
    }
}
