//! Waiting for background work, most of all for flushes: `flush`, `close`, and a replay that has filled its memory.

use super::run::schedule;
use super::seal::{Take, seal, seal_all, seal_all_and_cut, seal_through};
use super::upkeep::Upkeep;
use crate::queue::{Cut, CutWanted, Flushes, Queue};
use flagstone_base::{Error, ErrorKind, Result, SeqNo, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_tree::Tree;
use flagstone_wal::Log;
use std::sync::Arc;

/// A cut is tried so often while keyspaces are made and dropped.
const CUTS_MAX: u32 = 8;

/// Seals all memtables and waits until everything sealed is installed.
pub(crate) fn flush_all(upkeep: &Arc<Upkeep>) -> Result<()> {
    upkeep.history.publisher.wait_for_all();
    seal_all(upkeep);
    wait_for_flushes(upkeep, Flushes::is_flushed)
}

/// Seals the memtables of `trees` and waits until everything sealed is installed.
pub(crate) fn flush_trees(upkeep: &Arc<Upkeep>, trees: &[Arc<Tree>]) -> Result<()> {
    let ids: Vec<TreeId> = trees.iter().map(|tree| tree.id()).collect();
    seal(upkeep, Take::Now(&ids), None);
    wait_for_flushes(upkeep, Flushes::is_flushed)
}

/// Flushes everything acknowledged so far, and answers the state right behind it. Writes and
/// compactions go on meanwhile. A cut across which a keyspace was made or dropped is of no one moment, since its
/// catalog is younger than its writes: it is taken again.
///
/// # Errors
/// Busy when that happens again and again; what a flush answers.
pub(crate) fn cut(upkeep: &Arc<Upkeep>) -> Result<Cut> {
    let closed = || upkeep.setup.closed_meanwhile();
    let epoch = || {
        let manifest = upkeep.edits.manifest.lock();
        manifest.as_ref().map(|m| m.state().catalog.counters().epoch).ok_or_else(closed)
    };
    for _ in 0..CUTS_MAX {
        let before = epoch()?;
        let place = Arc::new(Mutex::new(None));
        upkeep.history.publisher.wait_for_all();
        seal_all_and_cut(upkeep, CutWanted::new(&place));
        wait_for_flushes(upkeep, Flushes::is_flushed)?;
        let cut = place.lock().take().ok_or_else(closed)?;
        if cut.state.catalog.counters().epoch == before {
            return Ok(cut);
        }
    }
    Err(Error::new(ErrorKind::Busy, "keyspaces were made or dropped all the while"))
}

/// Makes what was acknowledged so far outlive a power cut, unless the disk is full.
pub(crate) fn secure_history(upkeep: &Arc<Upkeep>) -> Result<()> {
    upkeep.history.publisher.wait_for_all();
    if upkeep.history.numbering.lock().unlogged {
        seal_all(upkeep);
    }
    // The log holds the rest: a tree whose flush fails keeps nobody waiting for its own.
    let flushed = wait_for_flushes(upkeep, Flushes::is_unlogged_flushed);
    // A flush that found no room does not keep the log from being synced.
    let synced = upkeep.history.log.as_ref().map_or(Ok(()), Log::sync_all);
    // Both are noted before one of them is returned: the log may be poisoned while a flush has merely failed.
    for error in [&flushed, &synced].into_iter().filter_map(|done| done.as_ref().err()) {
        upkeep.ballast.note_failure(error);
    }
    for done in [flushed, synced] {
        match done {
            Err(error) if error.kind() == ErrorKind::OutOfSpace => {}
            done => done?,
        }
    }
    Ok(())
}

/// As [`flush_all`], while the log is replayed: the last SeqNo inserted is `through`.
pub(crate) fn flush_replayed(upkeep: &Arc<Upkeep>, through: SeqNo) -> Result<()> {
    seal_through(upkeep, through);
    wait_for_flushes(upkeep, Flushes::is_flushed)
}

/// Waits until `is_done` says that what was sealed up to now is installed, as far as it matters. What rests after a
/// failure is tried again now.
///
/// # Errors
/// That of a flush that failed, when nothing else is left to flush.
fn wait_for_flushes(upkeep: &Arc<Upkeep>, is_done: fn(&Flushes, u64) -> bool) -> Result<()> {
    let _waiter = upkeep.work.await_flushes();
    let (goal, failures) = {
        let mut queue = upkeep.work.lock();
        let goal = queue.flushes.sealed;
        queue.flushes.wake(goal);
        upkeep.work.recount(&queue);
        (goal, queue.flushes.failures)
    };
    schedule(upkeep);
    loop {
        {
            let queue = upkeep.work.lock();
            if is_done(&queue.flushes, goal) {
                return Ok(());
            }
            if let Some(error) = queue.flushes.why_not_flushed(goal, failures) {
                return Err(error);
            }
        }
        if let Some(error) = upkeep.health.poisoned() {
            return Err(Error::new(ErrorKind::Poisoned, error.to_string()));
        }
        check_runs(upkeep)?;
        look_later(upkeep, |queue| {
            !is_done(&queue.flushes, goal)
                && queue.flushes.why_not_flushed(goal, failures).is_none()
        });
        schedule(upkeep);
    }
}

/// Runs something that is queued, where nothing runs by itself; else waits for the bell if
/// `is_so`, which is asked under the queue's lock.
pub(super) fn look_later(upkeep: &Upkeep, is_so: impl Fn(&Queue) -> bool) {
    if !upkeep.setup.executor.assist() {
        upkeep.work.wait_if(is_so);
    }
}

/// Refuses to wait for jobs that were dropped by a close.
pub(super) fn check_runs(upkeep: &Upkeep) -> Result<()> {
    upkeep.work.check_runs(|| upkeep.setup.closed_meanwhile())
}
