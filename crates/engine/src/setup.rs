//! The settings that a database was opened with. They never change.

use crate::config::Environment;
use crate::options::Options;
use flagstone_base::{DatabaseId, Error, ErrorKind};
use flagstone_env::executor::Job;
use flagstone_env::{DirGuard, Executor, Progress};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The settings and the identity of an open database.
pub(crate) struct Setup {
    pub(crate) id: DatabaseId,
    /// The directory of the database, as an absolute path.
    pub(crate) dir: PathBuf,
    /// Tells whether the path still leads to the directory, which the disk holds.
    pub(crate) guard: Arc<DirGuard>,
    pub(crate) options: Options,
    /// The directory of temporary files, if it is not that of the database.
    pub(crate) scratch_dir: Option<PathBuf>,
    pub(crate) environment: Environment,
    pub(crate) executor: Arc<dyn Executor>,
}

impl Setup {
    /// The time of the monotonic clock.
    pub(crate) fn now(&self) -> Duration {
        self.environment.clock.monotonic()
    }

    /// The most bytes that a batch may take.
    pub(crate) fn batch_bytes_max(&self) -> u64 {
        (self.options.memory_budget / 4).min(1 << 30)
    }

    pub(crate) fn closed(&self) -> Error {
        Error::new(ErrorKind::Closed, format!("{} is closed", self.dir.display()))
    }

    pub(crate) fn closed_meanwhile(&self) -> Error {
        Error::new(ErrorKind::Closed, format!("{} was closed meanwhile", self.dir.display()))
    }
}

/// A background job that calls `step` with `part`. It does not keep `part`, and is done when that
/// is gone.
pub(crate) fn job_of<P: Send + Sync + 'static>(
    part: &Arc<P>,
    step: impl Fn(&Arc<P>) -> Progress + Send + 'static,
) -> Job {
    let weak = Arc::downgrade(part);
    Box::new(move || weak.upgrade().map_or(Progress::Done, |part| step(&part)))
}
