//! What a database is opened with: options, listeners, folds, an environment.

use crate::contents::Contents;
use crate::database::Database;
use flagstone_base::Result;
use flagstone_engine::fold::{AddI64, Append, Fold};
use flagstone_engine::{Config, Durability, Engine, Environment, Listener, Options};
use std::path::Path;
use std::sync::Arc;

/// Collects what a database is opened with. [`Database::builder`] creates one.
///
/// The options are those of [`Options`], each with its range and its cost; nothing is checked before
/// [`Builder::open`].
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
    pub(crate) fn new(dir: &Path) -> Self {
        let config = Config::new(dir, Arc::<Contents>::default());
        Self { config, folds: vec![Arc::new(AddI64), Arc::new(Append)] }
    }

    /// Sets all options at once, also those that were set before.
    pub fn options(mut self, options: Options) -> Self {
        self.config.options = options;
        self
    }

    /// Sets the memory for memtables, cache and the rest, in bytes, at least 1 MiB; see
    /// [`Options::memory_budget`].
    pub const fn memory_budget(mut self, bytes: u64) -> Self {
        self.config.options.memory_budget = bytes;
        self
    }

    /// Sets whether blocks are read past the page cache of the system; see [`Options::direct_reads`].
    pub const fn direct_reads(mut self, direct: bool) -> Self {
        self.config.options.direct_reads = direct;
        self
    }

    /// Sets the size in bytes at which the memtable of a partition is sealed; see
    /// [`Options::memtable_bytes`].
    pub const fn memtable_bytes(mut self, bytes: u64) -> Self {
        self.config.options.memtable_bytes = Some(bytes);
        self
    }

    /// Sets whether entries carry checks against changes in memory; see [`Options::entry_checks`].
    pub const fn entry_checks(mut self, on: bool) -> Self {
        self.config.options.entry_checks = on;
        self
    }

    /// Sets the size in bytes of the file that is given up on a full disk; see
    /// [`Options::ballast_bytes`].
    pub const fn ballast_bytes(mut self, bytes: u64) -> Self {
        self.config.options.ballast_bytes = Some(bytes);
        self
    }

    /// Sets how fast tables are read and checked in the background; see
    /// [`Options::scrub_bytes_per_second`].
    pub const fn scrub_bytes_per_second(mut self, bytes: u64) -> Self {
        self.config.options.scrub_bytes_per_second = bytes;
        self
    }

    /// Sets how fast backups and checkpoints copy; see [`Options::copy_bytes_per_second`].
    pub const fn copy_bytes_per_second(mut self, bytes: u64) -> Self {
        self.config.options.copy_bytes_per_second = bytes;
        self
    }

    /// Sets what commits promise that name no durability of their own.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.config.options.durability = durability;
        self
    }

    /// Sets the number of threads that compact; see [`Options::compaction_workers`].
    pub const fn compaction_workers(mut self, threads: usize) -> Self {
        self.config.options.compaction_workers = threads;
        self
    }

    /// Sets how many times the bytes alive the tables may take; see
    /// [`Options::space_amplification_max`].
    pub const fn space_amplification_max(mut self, times: f64) -> Self {
        self.config.options.space_amplification_max = times;
        self
    }

    /// Sets the longest document in bytes; see [`Options::document_bytes_max`].
    pub const fn document_bytes_max(mut self, bytes: usize) -> Self {
        self.config.options.document_bytes_max = bytes;
        self
    }

    /// Sets how many descriptors open tables may hold; see [`Options::files_open_max`].
    pub const fn files_open_max(mut self, files: usize) -> Self {
        self.config.options.files_open_max = Some(files);
        self
    }

    /// Sets whether a missing database is created. The default is true.
    pub const fn create_if_missing(mut self, create: bool) -> Self {
        self.config.options.create_if_missing = create;
        self
    }

    /// Adds a listener, which is called with each event.
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.config.listeners.push(Arc::new(listener));
        self
    }

    /// Registers a fold, so that keyspaces can name it. [`AddI64`] and [`Append`] are registered already.
    /// A database is not opened without the folds that its keyspaces name.
    pub fn fold(mut self, fold: impl Fold + 'static) -> Self {
        self.folds.push(Arc::new(fold));
        self
    }

    /// Replaces disk, clock, randomness and threads. For tests.
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
    /// flagstone wrote it; InvalidInput for options out of range, or a fold that is not registered; Io,
    /// Corruption.
    pub fn open(self) -> Result<Database> {
        Engine::open(self.config()).map(Database::new)
    }

    /// Opens the database for reading only: replays the log in memory and changes no file.
    ///
    /// # Errors
    /// As [`Builder::open`]; Io when there is no database; InvalidInput when the log takes more than half
    /// of the memory budget and 64 MiB: the text names the budget that is needed.
    pub fn open_read_only(self) -> Result<Database> {
        Engine::open_read_only(self.config()).map(Database::new)
    }

    fn config(self) -> Config {
        Config { contents: Arc::new(Contents::new(self.folds)), ..self.config }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_setter_sets_its_option() {
        let set = Builder::new(Path::new("nowhere"))
            .memory_budget(1)
            .direct_reads(true)
            .memtable_bytes(2)
            .entry_checks(false)
            .ballast_bytes(3)
            .scrub_bytes_per_second(4)
            .copy_bytes_per_second(5)
            .durability(Durability::Interval(Duration::from_secs(6)))
            .compaction_workers(7)
            .space_amplification_max(8.0)
            .document_bytes_max(9)
            .files_open_max(10)
            .create_if_missing(false);
        let expected = Options::new()
            .memory_budget(1)
            .direct_reads(true)
            .memtable_bytes(Some(2))
            .entry_checks(false)
            .ballast_bytes(Some(3))
            .scrub_bytes_per_second(4)
            .copy_bytes_per_second(5)
            .durability(Durability::Interval(Duration::from_secs(6)))
            .compaction_workers(7)
            .space_amplification_max(8.0)
            .document_bytes_max(9)
            .files_open_max(Some(10))
            .create_if_missing(false);
        assert_eq!(set.config.options, expected);
    }
}
