//! Keeps the files of a store out of the page cache while gets are measured, so that they read the
//! device: what is clean is dropped twenty times a second. A get may still meet a block that was read
//! within the last 50 ms; the device's bytes in the result file show that few do.

use flagstone_bench::engine::Outcome;
use flagstone_bench::sample::sync_files;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Drops pages until it is dropped itself.
pub(super) struct PageCacheGuard {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PageCacheGuard {
    /// Syncs all files in `dir`, drops their pages, and keeps doing the latter.
    pub(super) fn start(dir: PathBuf) -> Outcome<Self> {
        sync_files(&dir)?;
        drop_pages(&dir)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                // A file that goes meanwhile has no pages either.
                let _gone = drop_pages(&dir);
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for PageCacheGuard {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn drop_pages(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            drop_pages(&path)?;
        } else {
            advise(&File::open(&path)?)?;
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn advise(file: &File) -> io::Result<()> {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn advise(_file: &File) -> io::Result<()> {
    Err(io::Error::other("the page cache can be kept out on Linux only"))
}
