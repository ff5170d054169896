//! The same work for several buckets at once. Calls of a store block, so each needs a thread.

use flagstone_base::Result;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most threads of one call.
const THREADS: usize = 8;

/// Does `work` with each item, on several threads, and returns when all is done. After an error no
/// further work is begun.
///
/// # Errors
/// The first error.
pub(crate) fn side_by_side<T: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    if items.len() <= 1 {
        return items.into_iter().try_for_each(work);
    }
    let threads = items.len().min(THREADS);
    let (items, failed) = (Mutex::new(items.into_iter()), AtomicBool::new(false));
    let take = || items.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let run = || {
        while !failed.load(Ordering::Relaxed) {
            let Some(item) = take() else { break };
            work(item).inspect_err(|_error| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mine = run();
        others.into_iter().fold(mine, |first, other| {
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            first.and(other)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::Error;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn all_work_is_done_and_an_error_ends_it() {
        let sum = AtomicUsize::new(0);
        side_by_side((0..100).collect(), |n| {
            sum.fetch_add(n, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 4950);
        let error = side_by_side(vec![1, 2, 3], |n| match n {
            2 => Err(Error::invalid("two")),
            _ => Ok(()),
        });
        assert_eq!(error.unwrap_err().to_string(), "two");
    }
}
