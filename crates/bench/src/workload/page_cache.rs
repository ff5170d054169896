//! Keeping the files of a store out of the page cache of the operating system.

use crate::engine::Outcome;
use crate::sample::{each_file, sync_files};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The time between two drops of files from the page cache: at 20,000 reads a second of
/// 16 KiB, 16 MB gather in it.
pub(super) const EVERY: Duration = Duration::from_millis(50);

/// Drops all files in `dir` and below from the page cache, except pages that were not written to
/// the device yet.
#[cfg(target_os = "linux")]
pub(super) fn drop_files(dir: &Path) -> Outcome<()> {
    use rustix::fs::{Advice, fadvise};
    Ok(each_file(dir, &|file| Ok(fadvise(file, 0, None, Advice::DontNeed)?))?)
}

/// Other systems offer no such advice.
#[cfg(not(target_os = "linux"))]
pub(super) fn drop_files(_dir: &Path) -> Outcome<()> {
    Err("this system cannot keep files out of its page cache on request".into())
}

/// Runs `call` while files of `dir` are dropped from the page cache, first and then every 50 ms.
pub(super) fn kept_out<T>(dir: &Path, call: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    sync_files(dir)?;
    drop_files(dir)?;
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let dropper = scope.spawn(move || -> Outcome<()> {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                drop_files(dir)?;
            }
            Ok(())
        });
        let called = call();
        drop(done);
        let dropped =
            dropper.join().unwrap_or_else(|_panic| Err("the thread that drops panicked".into()));
        let called = called?;
        dropped.map(|()| called)
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_call_runs_while_files_are_dropped_and_its_answer_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        let file = dir.path().join("below/a");
        std::fs::write(&file, vec![7; 100_000]).unwrap();
        let read = kept_out(dir.path(), || {
            std::thread::sleep(EVERY * 2);
            Ok(std::fs::read(&file)?)
        });
        assert_eq!(read.unwrap(), vec![7; 100_000]);
        let failed = kept_out(dir.path(), || Err::<(), _>("no".into())).unwrap_err();
        assert_eq!(failed.to_string(), "no");
        assert!(kept_out(&dir.path().join("absent"), || Ok(())).is_err());
    }
}
