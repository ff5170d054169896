//! What an ingest needs of background work: memtables that are flushed to the last entry, and
//! compactions that go on afterwards.

use super::garbage::note_spaces;
use super::run::schedule;
use super::sweep::sweep;
use super::upkeep::Upkeep;
use super::wait::flush_trees;
use flagstone_base::Result;
use flagstone_tree::Tree;
use std::sync::Arc;

/// How often an ingest flushes beside writers.
const FLUSHES_MAX: u32 = 12;
/// Writers may wait for the flush of this many bytes.
const LITTLE: u64 = 256 << 10;

/// Flushes `trees` beside their writers, and again as long as that leaves the next flush at least
/// an eighth less to do: what is left at the end is what they write during a flush of as much.
///
/// # Errors
/// The error of a flush; Poisoned, Closed.
pub(crate) fn flush_most(upkeep: &Arc<Upkeep>, trees: &[Arc<Tree>]) -> Result<()> {
    let unflushed = || trees.iter().filter(|tree| tree.oldest_unflushed().is_some());
    let bytes = || unflushed().map(|tree| tree.active_bytes() + tree.sealed_bytes()).sum();
    let mut left: u64 = bytes();
    for _ in 0..FLUSHES_MAX {
        if left == 0 {
            break;
        }
        flush_trees(upkeep, trees)?;
        let before = std::mem::replace(&mut left, bytes());
        if left <= LITTLE || left > before - before / 8 {
            break;
        }
    }
    Ok(())
}

/// Waits until no flush is under way or waits for its turn. Failures are left to those who need
/// these flushes.
pub(crate) fn wait_for_other_flushes(upkeep: &Arc<Upkeep>) {
    let _failed = flush_trees(upkeep, &[]);
}

/// Flushes `trees` until all their entries are in tables. That ends only if nothing is written to
/// them meanwhile.
///
/// # Errors
/// The error of a flush; Poisoned, Closed.
pub(crate) fn flush_until_empty(upkeep: &Arc<Upkeep>, trees: &[Arc<Tree>]) -> Result<()> {
    // A seal leaves out a tree whose flush has failed, and one whose unlogged writes wait for older
    // ones of other trees. These are done after the first wait.
    while trees.iter().any(|tree| tree.oldest_unflushed().is_some()) {
        flush_trees(upkeep, trees)?;
    }
    Ok(())
}

/// Starts what is due after an ingest into `trees`, which nobody claims any more.
pub(crate) fn after_ingest(upkeep: &Arc<Upkeep>, trees: &[Arc<Tree>]) {
    upkeep.core.memory.move_border();
    note_spaces(upkeep, trees);
    sweep(upkeep);
    // Callers may wait for the trees that were claimed.
    upkeep.core.work.notify_all();
    schedule(upkeep);
}
