//! Interruption of long calls: the caller's thread is asked now and then whether it goes on. The
//! idea is that of SQLite's progress handler.

use crate::error::{Error, ErrorKind, Result};
use std::cell::Cell;

thread_local! {
    /// Returns whether the work of this thread is to end.
    static WATCH: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
    /// Counts the calls of [`tick`].
    static TICKS: Cell<u8> = const { Cell::new(0) };
}

/// Runs `work`, and has long calls in it ask `is_over` whether they are to end: scans before each
/// further block of a table, queries and counts every 256 documents or keys, verifications and
/// copies after each block or piece, writers while they wait for memory or compactions. A call that
/// is to end returns an error of kind [`ErrorKind::Interrupted`]. What it has written until then is
/// written: as after any other error.
///
/// `is_over` is called by the thread of the call alone. Other calls that only wait, such as a
/// flush, do not ask, nor do scans of memtables.
///
/// ```
/// # use flagstone_base::{ErrorKind, interrupt};
/// let long_call = || -> flagstone_base::Result<u64> {
///     interrupt::check()?;
///     Ok(1)
/// };
/// assert_eq!(interrupt::interruptible(|| false, long_call).unwrap(), 1);
/// let error = interrupt::interruptible(|| true, long_call).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Interrupted);
/// ```
pub fn interruptible<T>(is_over: fn() -> bool, work: impl FnOnce() -> T) -> T {
    /// Also after a panic the thread is watched as it was before.
    struct Before(Option<fn() -> bool>);
    impl Drop for Before {
        fn drop(&mut self) {
            WATCH.set(self.0);
        }
    }
    let _before = Before(WATCH.replace(Some(is_over)));
    work()
}

/// Asks whether the call goes on.
///
/// # Errors
/// Interrupted.
#[inline]
pub fn check() -> Result<()> {
    match WATCH.get() {
        Some(is_over) if is_over() => Err(interrupted()),
        _ => Ok(()),
    }
}

/// As [`check`], but asks only every 256 calls.
///
/// # Errors
/// Interrupted.
#[inline]
pub fn tick() -> Result<()> {
    let ticks = TICKS.get().wrapping_add(1);
    TICKS.set(ticks);
    if ticks == 0 { check() } else { Ok(()) }
}

/// Returns the error of a call that another thread works for.
#[cold]
pub fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "the call was interrupted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_ends_with_its_work_also_by_a_panic() {
        let panicked = std::panic::catch_unwind(|| interruptible(|| true, || panic!("a test")));
        assert!(panicked.is_err());
        assert!(check().is_ok());
        interruptible(
            || true,
            || {
                interruptible(|| false, || assert!(check().is_ok()));
                assert!(check().is_err());
            },
        );
    }

    #[test]
    fn a_tick_asks_every_256_calls() {
        let calls = interruptible(|| true, || (0..1000).filter(|_| tick().is_err()).count());
        assert!((3..=4).contains(&calls), "{calls}");
    }
}
