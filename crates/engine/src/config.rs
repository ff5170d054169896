//! The configuration that an engine is opened with.

use crate::content::ContentFactory;
use crate::event::Listener;
use crate::options::Options;
use flagstone_env::{Clock, Disk, Executor, OsDisk, Random, SystemClock, SystemRandom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The outside world of a database. Tests bring their own.
#[derive(Clone)]
pub struct Environment {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// The source of identities, seeds and salts.
    pub random: Arc<dyn Random>,
    /// Runs background work; `None` starts threads.
    pub executor: Option<Arc<dyn Executor>>,
}

impl Default for Environment {
    /// The operating system, and threads.
    fn default() -> Self {
        Self {
            disk: Arc::new(OsDisk),
            clock: Arc::new(SystemClock::default()),
            random: Arc::new(SystemRandom),
            executor: None,
        }
    }
}

/// The configuration that an engine is opened with.
pub struct Config {
    /// The directory of the database.
    pub dir: PathBuf,
    /// The options of the database.
    pub options: Options,
    /// The directory of temporary files. `None`: that of the database, if it is open for writing.
    pub scratch_dir: Option<PathBuf>,
    /// Receive the events of the database.
    pub listeners: Vec<Arc<dyn Listener>>,
    /// The outside world of the database.
    pub environment: Environment,
    /// Knows the contents of keyspaces.
    pub contents: Arc<dyn ContentFactory>,
}

impl Config {
    /// The database in `dir` with default options.
    pub fn new(dir: &Path, contents: Arc<dyn ContentFactory>) -> Self {
        Self {
            dir: dir.to_owned(),
            options: Options::default(),
            scratch_dir: None,
            listeners: Vec::new(),
            environment: Environment::default(),
            contents,
        }
    }
}
