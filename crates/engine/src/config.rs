//! What an engine is opened with.

use crate::content::ContentFactory;
use crate::event::Listener;
use crate::options::Options;
use flagstone_env::{Clock, Disk, Executor, OsDisk, Random, SystemClock, SystemRandom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The outside world of a database: tests bring their own.
#[derive(Clone)]
pub struct Environment {
    /// Where the files are.
    pub disk: Arc<dyn Disk>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Identities, seeds and salts.
    pub random: Arc<dyn Random>,
    /// Who runs background work; `None` starts threads.
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

/// What an engine is opened with.
pub struct Config {
    /// The directory of the database.
    pub dir: PathBuf,
    /// Limits and settings.
    pub options: Options,
    /// Who is told of events.
    pub listeners: Vec<Arc<dyn Listener>>,
    /// The outside world.
    pub environment: Environment,
    /// What keyspaces hold.
    pub contents: Arc<dyn ContentFactory>,
}

impl Config {
    /// The database in `dir` with default options.
    pub fn new(dir: &Path, contents: Arc<dyn ContentFactory>) -> Self {
        Self {
            dir: dir.to_owned(),
            options: Options::default(),
            listeners: Vec::new(),
            environment: Environment::default(),
            contents,
        }
    }
}
