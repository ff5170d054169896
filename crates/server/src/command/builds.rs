//! The indexes that are being built.

use super::name::Namespace;
use flagstone::report::BuildProgress;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The builds that run.
#[derive(Default)]
pub(crate) struct Builds(Mutex<Vec<Arc<Build>>>);

/// A build that runs.
pub(crate) struct Build {
    pub(crate) namespace: Namespace,
    pub(crate) index: String,
    progress: Mutex<BuildProgress>,
}

impl Build {
    pub(crate) fn progress(&self) -> BuildProgress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A build is on the list as long as this lives.
pub(crate) struct Building<'a> {
    builds: &'a Builds,
    build: Arc<Build>,
}

impl Builds {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Build>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the builds that run, in the order of their beginning.
    pub(crate) fn list(&self) -> Vec<Arc<Build>> {
        self.lock().clone()
    }

    pub(crate) fn begin(&self, namespace: &Namespace, index: &str) -> Building<'_> {
        let build = Arc::new(Build {
            namespace: namespace.clone(),
            index: index.to_owned(),
            progress: Mutex::default(),
        });
        self.lock().push(Arc::clone(&build));
        Building { builds: self, build }
    }
}

impl Building<'_> {
    pub(crate) fn report(&self, progress: BuildProgress) {
        *self.build.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.builds.lock().retain(|build| !Arc::ptr_eq(build, &self.build));
    }
}
