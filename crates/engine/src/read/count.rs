//! The number of keys: every partition is read, several at a time, past the block cache.

use super::pin::Pin;
use crate::handle::Handle;
use crate::history::ReadPoint;
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::{KeyRange, Result, interrupt};
use flagstone_env::executor::run_together;
use flagstone_tree::{Direction, ScanOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A thread asks after this many keys whether the call goes on.
const ASK_EVERY: u64 = 256;

/// Counts the keys of `core` by reading them all, on this thread and on as many more as compactions
/// may use. Blocks that it reads do not go into the cache.
pub(crate) fn count(handle: &Arc<Handle>, core: &KeyspaceCore) -> Result<u64> {
    let parts = handle.parts();
    parts.core.health.check_open()?;
    let pin = Pin::new(handle);
    // A test's executor decides what runs when.
    let threads = match parts.core.setup().environment.executor {
        Some(_) => 1,
        None => parts.core.setup().options.compaction_workers + 1,
    };
    let trees = core.trees();
    let scans = threads.min(trees.len());
    let ReadPoint { seqno, moment } = pin.point();
    let options = ScanOptions { fill_cache: false, scans, moment };
    // The thread of the caller is asked whether the call goes on, and tells the others.
    let is_over = AtomicBool::new(false);
    let count_tree = |at: usize| -> Result<u64> {
        let tree = &trees[at];
        let mut scan = tree.scan(KeyRange::ALL, seqno, Direction::Forward, options);
        let mut count = 0_u64;
        while scan.advance()? {
            count += 1;
            if count.is_multiple_of(ASK_EVERY) {
                if is_over.load(Ordering::Relaxed) {
                    return Err(interrupt::interrupted());
                }
                interrupt::check().inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
            }
        }
        Ok(count)
    };
    let counts = run_together(threads, trees.len(), count_tree);
    // Checked after reading: a keyspace is dropped before its trees are emptied.
    core.check_readable()?;
    let total: Result<u64> = counts.into_iter().sum();
    total.map_err(|error| parts.reads.reported(error))
}
