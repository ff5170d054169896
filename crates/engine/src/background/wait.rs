//! Waiting for background work, mostly for flushes: `flush`, `close`, and a replay that has filled
//! its memory.

use super::run::schedule;
use super::seal::{Take, seal, seal_all, seal_all_and_cut, seal_through};
use super::upkeep::Upkeep;
use crate::queue::{Cut, CutRequest, Flushes, Queue};
use flagstone_base::{Error, ErrorKind, Result, SeqNo, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::Tree;
use flagstone_wal::Log;
use std::sync::Arc;

/// How often a cut is tried while keyspaces are created and dropped.
const CUTS_MAX: u32 = 8;

/// Seals all memtables and waits until everything sealed is installed.
pub(crate) fn flush_all(upkeep: &Arc<Upkeep>) -> Result<()> {
    upkeep.core.history.publisher.wait_for_all();
    seal_all(upkeep);
    wait_for_flushes(upkeep, Flushes::is_flushed)
}

/// Seals the memtables of `trees` and waits until what they had is in tables, or until everything
/// sealed is installed: a seal leaves out a tree whose flush has failed. Without trees, waits
/// for all flushes.
pub(crate) fn flush_trees(upkeep: &Arc<Upkeep>, trees: &[Arc<Tree>]) -> Result<()> {
    let ids: Vec<TreeId> = trees.iter().map(|tree| tree.id()).collect();
    let through = SeqNo::new(upkeep.core.history.numbering.lock().next.get() - 1);
    if !ids.is_empty() {
        seal(upkeep, Take::Now(&ids), None);
    }
    let is_in_tables = |tree: &Arc<Tree>| tree.oldest_unflushed().is_none_or(|at| at > through);
    let are_in_tables = || !trees.is_empty() && trees.iter().all(is_in_tables);
    wait_for_flushes(upkeep, |flushes, goal| flushes.is_flushed(goal) || are_in_tables())
}

/// Flushes everything acknowledged so far, and returns the state right after it. Writes and
/// compactions continue meanwhile. If a keyspace was created or dropped during the cut, its catalog
/// is newer than its writes, and the cut is taken again. So it is if tables were ingested, whose
/// entries are newer than the cut, or are those of newer documents; then ingests wait for the next
/// one.
///
/// # Errors
/// Busy if that happens again and again; otherwise the error of a flush.
pub(crate) fn cut(upkeep: &Arc<Upkeep>) -> Result<Cut> {
    // Splits change the catalog.
    let no_splits = upkeep.splits.wait_for_cut();
    let cut = try_cut(upkeep);
    drop(no_splits);
    upkeep.splits.try_again();
    schedule(upkeep);
    cut
}

fn try_cut(upkeep: &Arc<Upkeep>) -> Result<Cut> {
    let closed = || upkeep.core.setup().closed_meanwhile();
    let fills = || upkeep.fills.load(Ordering::Acquire);
    let epoch = || {
        let manifest = upkeep.core.edits.manifest.lock();
        let manifest = manifest.as_ref().ok_or_else(closed)?;
        Ok::<_, Error>((manifest.state().catalog.counters().epoch, fills()))
    };
    for attempt in 0..CUTS_MAX {
        let _no_ingests = (attempt > 0).then(|| upkeep.cuts.write());
        let before = epoch()?;
        let result = Arc::new(Mutex::new(None));
        upkeep.core.history.publisher.wait_for_all();
        seal_all_and_cut(upkeep, CutRequest::new(&result));
        wait_for_flushes(upkeep, Flushes::is_flushed)?;
        let cut = result.lock().take().ok_or_else(closed)?;
        // What a fill has installed before is of documents that the cut has.
        let is_same = (cut.state.catalog.counters().epoch, fills()) == before;
        if is_same && cut.holds_nothing_newer() {
            return Ok(cut);
        }
    }
    let text = "during each attempt keyspaces were created or dropped";
    Err(Error::new(ErrorKind::Busy, text))
}

/// Makes what was acknowledged so far survive a power cut, unless the disk is full.
pub(crate) fn make_history_durable(upkeep: &Arc<Upkeep>) -> Result<()> {
    upkeep.core.history.publisher.wait_for_all();
    if upkeep.core.history.numbering.lock().unlogged {
        seal_all(upkeep);
    }
    // The log holds the rest, so a failing flush of a logged tree causes no delay here.
    let flushed = wait_for_flushes(upkeep, Flushes::is_unlogged_flushed);
    // The log is synced even if a flush found the disk full.
    let synced = upkeep.core.history.log.as_ref().map_or(Ok(()), Log::sync_all);
    // Both are noted before one is returned: the log may be poisoned while a flush has merely
    // failed.
    for error in [&flushed, &synced].into_iter().filter_map(|done| done.as_ref().err()) {
        upkeep.core.ballast.note_failure(error);
    }
    for done in [flushed, synced] {
        match done {
            Err(error) if error.kind() == ErrorKind::OutOfSpace => {}
            done => done?,
        }
    }
    Ok(())
}

/// Like [`flush_all`], but during a replay that has inserted everything through `through`.
pub(crate) fn flush_replayed(upkeep: &Arc<Upkeep>, through: SeqNo) -> Result<()> {
    seal_through(upkeep, through);
    wait_for_flushes(upkeep, Flushes::is_flushed)
}

/// Waits until `is_done` returns true for what is sealed up to now. Flushes that pause after a
/// failure are retried at once.
///
/// # Errors
/// The error of a failed flush, when nothing else is left to flush.
fn wait_for_flushes(upkeep: &Arc<Upkeep>, is_done: impl Fn(&Flushes, u64) -> bool) -> Result<()> {
    let _waiter = upkeep.core.work.await_flushes();
    let (goal, failures) = {
        let mut queue = upkeep.core.work.lock();
        let goal = queue.flushes.sealed;
        queue.flushes.wake(goal);
        upkeep.core.work.recount(&queue);
        (goal, queue.flushes.failures)
    };
    schedule(upkeep);
    loop {
        {
            let queue = upkeep.core.work.lock();
            if is_done(&queue.flushes, goal) {
                return Ok(());
            }
            if let Some(error) = queue.flushes.why_not_flushed(goal, failures) {
                return Err(error);
            }
        }
        if let Some(error) = upkeep.core.health.poisoned() {
            return Err(Error::new(ErrorKind::Poisoned, error.to_string()));
        }
        check_runs(upkeep)?;
        assist_or_wait(upkeep, |queue| {
            !is_done(&queue.flushes, goal)
                && queue.flushes.why_not_flushed(goal, failures).is_none()
        });
        schedule(upkeep);
    }
}

/// Runs a queued job if the executor has no threads. Otherwise waits for a notification if
/// `should_wait` holds under the queue's lock.
pub(super) fn assist_or_wait(upkeep: &Upkeep, should_wait: impl Fn(&Queue) -> bool) {
    if !upkeep.core.setup().executor.assist() {
        upkeep.core.work.wait_if(should_wait);
    }
}

/// Returns an error if a close has dropped the jobs that the caller would wait for.
pub(super) fn check_runs(upkeep: &Upkeep) -> Result<()> {
    upkeep.core.work.check_runs(|| upkeep.core.setup().closed_meanwhile())
}
