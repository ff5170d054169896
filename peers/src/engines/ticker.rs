//! Syncs an engine at intervals, for engines without an equivalent of `Durability::Interval`.

use flagstone_bench::engine::EngineError;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that calls a function at intervals, until it is stopped or dropped.
pub(crate) struct Ticker {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Calls `sync` every `interval`. An error ends the process: with less durability than
    /// promised, the benchmark would measure something else.
    pub(crate) fn start(
        interval: Duration,
        mut sync: impl FnMut() -> Result<(), EngineError> + Send + 'static,
    ) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (stopped, bell) = &*shared;
            let mut guard = stopped.lock().unwrap_or_else(PoisonError::into_inner);
            while !*guard {
                guard = bell
                    .wait_timeout(guard, interval)
                    .map_or_else(|e| e.into_inner().0, |(guard, _)| guard);
                if !*guard && let Err(error) = sync() {
                    eprintln!("a sync at an interval failed: {error}");
                    std::process::abort();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        let (stopped, bell) = &*self.stop;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        bell.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
