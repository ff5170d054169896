//! Full compactions that a caller asks for: several trees at a time, by the caller's thread and by
//! the workers.

use super::compact::CompactionJob;
use super::pick::pick_of;
use super::run::schedule_compactions;
use super::sweep::sweep;
use super::upkeep::Upkeep;
use super::wait::{assist_or_wait, check_runs};
use flagstone_base::{Error, Result, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use flagstone_env::{Lane, Progress};
use flagstone_tree::{Compaction, FullPass, Policy, Tree, pick_expired};
use std::ops::ControlFlow;
use std::sync::Arc;

/// If the first level of a tree has this many runs, they are merged before the next piece.
const L0_RUNS_FIRST: usize = 16;

/// The progress of a full compaction: see `Database::compact_with`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Bytes of tables that have reached their final form, out of `bytes_total`.
    pub bytes_done: u64,
    /// Bytes of tables when the compaction started.
    pub bytes_total: u64,
    /// Pieces that were compacted and installed.
    pub pieces: u64,
}

/// The state of one call, shared by the threads that work for it.
struct CompactCall {
    /// No further work is wanted.
    is_cancelled: AtomicBool,
    bytes_done: AtomicU64,
    bytes_total: u64,
    pieces: AtomicU64,
    /// The number of trees that were started and have not ended.
    running: AtomicUsize,
    state: Mutex<CompactCallState>,
}

struct CompactCallState {
    /// Trees that were not started; the last is taken next.
    waiting: Vec<Arc<Tree>>,
    error: Option<Error>,
}

/// One thread's part of a call: it takes trees until none is free.
struct Participant {
    call: Arc<CompactCall>,
    upkeep: Arc<Upkeep>,
    current: Option<StartedTree>,
}

/// A tree that was started. Fields are dropped in order: the job first.
struct StartedTree {
    job: Option<CompactionJob>,
    /// The rest of the tree.
    pass: FullPass,
    /// The bytes of the tree at the start, and the part of them that is counted as done.
    bytes: (u64, u64),
    claim: TreeClaim,
    _running: RunningTree,
}

/// Counts in `CompactCall::running` until it is dropped.
struct RunningTree {
    call: Arc<CompactCall>,
    upkeep: Arc<Upkeep>,
}

/// A tree that is reserved for this compaction until the claim is dropped.
struct TreeClaim {
    upkeep: Arc<Upkeep>,
    tree: Arc<Tree>,
}

/// Compacts trees to their deepest level, the last first and each in pieces, by this thread and by
/// the compaction workers, which take turns with other jobs. After an error, or when `watch`
/// returns `Break`, no further piece is started and running pieces are abandoned. Installed pieces
/// stay.
pub(crate) fn compact_trees(
    upkeep: &Arc<Upkeep>,
    trees: Vec<Arc<Tree>>,
    watch: &mut dyn FnMut(CompactProgress) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let helpers =
        upkeep.core.setup().executor.workers(Lane::Compaction).min(trees.len().saturating_sub(1));
    let bytes_total = trees.iter().map(bytes_of).sum();
    let state = Mutex::new(CompactCallState { waiting: trees, error: None });
    let call = Arc::new(CompactCall::new(state, bytes_total));
    let participant =
        || Participant { call: Arc::clone(&call), upkeep: Arc::clone(upkeep), current: None };
    for _ in 0..helpers {
        let mut helper = participant();
        upkeep
            .core
            .setup()
            .executor
            .submit(Lane::Compaction, Box::new(move || helper.step_paced()));
    }
    let mut own = participant();
    loop {
        if watch(call.progress()).is_break() {
            call.cancel();
        }
        // Not held during `watch`: the user's code there may wait for a close.
        let step = upkeep.core.work.begin_caller_step();
        if step.is_none() {
            call.fail(upkeep.core.setup().closed_meanwhile());
            call.cancel();
        }
        let progress = own.step();
        drop(step);
        if progress == Progress::Again {
            // With an executor that has no threads, helpers run between the steps of the caller.
            upkeep.core.setup().executor.assist();
        } else if call.is_over() {
            break;
        } else {
            wait_for_a_tree(upkeep, &call);
        }
    }
    let error = call.state.lock().error.take();
    let is_cancelled = call.is_cancelled.load(Ordering::Acquire);
    match error {
        Some(error) => Err(error),
        None if is_cancelled => Ok(ControlFlow::Break(())),
        None => Ok(ControlFlow::Continue(())),
    }
}

/// Waits while all trees that are left are being compacted by others, or while others finish the
/// last ones.
fn wait_for_a_tree(upkeep: &Upkeep, call: &CompactCall) {
    let left = call.left();
    let is_open = || check_runs(upkeep).and_then(|()| upkeep.core.health.check_open_for_writing());
    match is_open() {
        Err(error) if !left.is_empty() => call.fail(error),
        _ => assist_or_wait(upkeep, |queue| {
            if left.is_empty() {
                call.running.load(Ordering::Acquire) > 0
            } else {
                left.iter().all(|tree| queue.compacting.contains(tree))
            }
        }),
    }
}

/// The bytes of a tree's tables.
fn bytes_of(tree: &Arc<Tree>) -> u64 {
    tree.table_bytes()
}

impl CompactCall {
    fn new(state: Mutex<CompactCallState>, bytes_total: u64) -> Self {
        Self {
            is_cancelled: AtomicBool::new(false),
            bytes_done: AtomicU64::new(0),
            bytes_total,
            pieces: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            state,
        }
    }

    fn progress(&self) -> CompactProgress {
        CompactProgress {
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
            bytes_total: self.bytes_total,
            pieces: self.pieces.load(Ordering::Relaxed),
        }
    }

    /// Stops the call: no tree is started, and running pieces are abandoned before their next step.
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.state.lock().waiting.clear();
    }

    fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        state.waiting.clear();
        state.error.get_or_insert(error);
    }

    /// Returns whether no tree is left to start, and all that were started have ended.
    fn is_over(&self) -> bool {
        self.state.lock().waiting.is_empty() && self.running.load(Ordering::Acquire) == 0
    }

    /// The trees that were not started.
    fn left(&self) -> Vec<TreeId> {
        self.state.lock().waiting.iter().map(|tree| tree.id()).collect()
    }

    /// Takes the next tree that is not being compacted.
    fn take(self: &Arc<Self>, upkeep: &Arc<Upkeep>) -> Option<StartedTree> {
        let mut state = self.state.lock();
        state.follow_splits();
        let (at, claim) = (0..state.waiting.len())
            .rev()
            .find_map(|at| Some((at, TreeClaim::take(upkeep, &state.waiting[at])?)))?;
        state.waiting.remove(at);
        // Counted before the lock is released, so that the call is not over in between.
        self.running.fetch_add(1, Ordering::AcqRel);
        let running = RunningTree { call: Arc::clone(self), upkeep: Arc::clone(upkeep) };
        let pass = FullPass::new(claim.tree.view().version());
        let bytes = (bytes_of(&claim.tree), 0);
        Some(StartedTree { job: None, pass, bytes, claim, _running: running })
    }
}

impl CompactCallState {
    /// Puts the trees that have replaced others in their places.
    fn follow_splits(&mut self) {
        while let Some(at) = self.waiting.iter().position(|tree| tree.successors().is_some()) {
            let old = self.waiting.remove(at);
            for tree in old.successors().unwrap_or_default() {
                if self.waiting.iter().all(|other| other.id() != tree.id()) {
                    self.waiting.insert(at, Arc::clone(tree));
                }
            }
        }
    }
}

impl Participant {
    /// Runs a step in the lane of the workers. It yields to writers as other compactions do.
    fn step_paced(&mut self) -> Progress {
        let clock = Arc::clone(&self.upkeep.core.setup().environment.clock);
        let began = clock.monotonic();
        match self.step() {
            Progress::Again => self.upkeep.pace.rest_after(clock.monotonic() - began),
            done => done,
        }
    }

    /// Runs a step. `Done` means that no tree is free, or that the call has failed.
    fn step(&mut self) -> Progress {
        let upkeep = Arc::clone(&self.upkeep);
        upkeep.core.health.run_step("a compaction", || self.try_step()).unwrap_or_else(|error| {
            // The error is set before the running work ends: the caller checks both.
            self.call.fail(error.clone());
            upkeep.core.ballast.note_failure(&error);
            upkeep.report_damages(None);
            self.current = None;
            Progress::Done
        })
    }

    fn try_step(&mut self) -> Result<Progress> {
        let Some(started) = &mut self.current else {
            self.current = self.call.take(&self.upkeep);
            return Ok(if self.current.is_some() { Progress::Again } else { Progress::Done });
        };
        self.upkeep.core.health.check_open_for_writing()?;
        let is_done = match &mut started.job {
            _ if self.call.is_cancelled.load(Ordering::Acquire) => true,
            None => {
                started.job = started.claim.start(&mut started.pass);
                started.job.is_none()
            }
            Some(job) => {
                if job.try_step()? == Progress::Done {
                    started.job = None;
                    self.call.pieces.fetch_add(1, Ordering::Relaxed);
                    sweep(&self.upkeep);
                }
                false
            }
        };
        started.count(&self.call, is_done);
        if is_done {
            self.current = None;
            sweep(&self.upkeep);
        }
        Ok(Progress::Again)
    }
}

impl StartedTree {
    /// Adds the progress of the tree to the call's.
    fn count(&mut self, call: &CompactCall, is_done: bool) {
        let (bytes, counted) = &mut self.bytes;
        let part = if is_done {
            1.0
        } else if self.job.is_none() {
            self.pass.part_done(self.claim.tree.view().version())
        } else {
            return;
        };
        let done = (*bytes as f64 * part) as u64;
        call.bytes_done.fetch_add(done.saturating_sub(*counted), Ordering::Relaxed);
        *counted = done.max(*counted);
    }
}

impl Drop for Participant {
    /// Only a close drops a participant between two steps: its tree will not be compacted.
    fn drop(&mut self) {
        if self.current.is_some() {
            self.call.fail(self.upkeep.core.setup().closed_meanwhile());
        }
    }
}

impl Drop for RunningTree {
    fn drop(&mut self) {
        self.call.running.fetch_sub(1, Ordering::AcqRel);
        self.upkeep.core.work.notify_all();
    }
}

impl TreeClaim {
    fn take(upkeep: &Arc<Upkeep>, tree: &Arc<Tree>) -> Option<Self> {
        let mut queue = upkeep.core.work.lock();
        // A split may have ended just now. Whoever replaces a tree claims it meanwhile, so under
        // the lock a tree that nobody claims is either replaced or stays.
        let is_free = tree.successors().is_none() && queue.compacting.insert(tree.id());
        is_free.then(|| {
            queue.compacting_for_callers += 1;
            Self { upkeep: Arc::clone(upkeep), tree: Arc::clone(tree) }
        })
    }

    /// Starts the next piece of the tree, or a compaction that its writers need more urgently. No
    /// other thread compacts the tree meanwhile.
    fn start(&self, pass: &mut FullPass) -> Option<CompactionJob> {
        let Self { upkeep, tree } = self;
        let view = tree.view();
        let needed = || {
            if tree.pressure(Policy::Tiering).l0_runs >= L0_RUNS_FIRST {
                pick_of(tree, view.version(), Policy::Tiering)
            } else {
                None
            }
        };
        let moment = upkeep.expire_through();
        let (version, options) = (view.version(), &tree.current_options());
        let job = needed().or_else(|| pass.next(version, options));
        // Tables that the pass skips may hold expired entries.
        let expired = || pick_expired(version, options, Policy::Leveling, moment);
        let job = job.or_else(expired)?;
        let (snapshots, visible) = upkeep.core.history.live();
        let compaction = Compaction::start(tree, job, &snapshots, visible)?;
        let compaction = compaction.expiring_through(moment);
        Some(CompactionJob::new(Arc::clone(upkeep), Arc::clone(tree), compaction))
    }
}

impl Drop for TreeClaim {
    fn drop(&mut self) {
        let mut queue = self.upkeep.core.work.lock();
        queue.compacting.remove(&self.tree.id());
        queue.compacting_for_callers -= 1;
        drop(queue);
        self.upkeep.splits.try_again();
        self.upkeep.core.work.notify_all();
        // Compactions of this tree may have become due meanwhile. Not after a panic, which is
        // reported to no listener.
        if !std::thread::panicking() {
            schedule_compactions(&self.upkeep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stories::world::World;
    use crate::{KeyspaceOptions, Options, Routing};
    use flagstone_base::ErrorKind;

    /// It was compacted as an empty tree, and those that had replaced it were left out.
    #[test]
    fn a_tree_that_a_split_has_just_replaced_is_not_claimed() {
        let world = World::new();
        let options = Options { split_bytes: 1024, ..Options::default() };
        let db = world.builder().options(options).open().unwrap();
        let auto = KeyspaceOptions::new().routing(Routing::Auto);
        let kv = db.keyspace_with("kv", auto).unwrap();
        let old = Arc::clone(&kv.core().trees()[0]);
        let upkeep = &kv.handle().parts().upkeep;
        assert!(TreeClaim::take(upkeep, &old).is_some());
        (0..200_u8).for_each(|n| kv.put([n], vec![n; 1000]).unwrap());
        db.flush().unwrap();
        world.steps.run_all();
        assert!(old.successors().is_some());
        assert!(TreeClaim::take(upkeep, &old).is_none());
        assert!(!upkeep.core.work.lock().compacting.contains(&old.id()));
    }

    #[test]
    fn a_participant_that_is_dropped_with_a_tree_fails_its_call() {
        // No worker of its own takes the tree meanwhile.
        let world = World::new();
        let db = world.builder().open().unwrap();
        let kv = db.keyspace("kv").unwrap();
        kv.put("a", "1").unwrap();
        db.flush().unwrap();
        let upkeep = Arc::clone(&kv.handle().parts().upkeep);
        let waiting = vec![Arc::clone(&kv.core().trees()[0])];
        let state = Mutex::new(CompactCallState { waiting, error: None });
        let call = Arc::new(CompactCall::new(state, 1));
        let mut participant = Participant { call: Arc::clone(&call), upkeep, current: None };
        assert!(participant.step() == Progress::Again && participant.current.is_some());
        drop(participant);
        assert!(call.is_over());
        let error = call.state.lock().error.take();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Closed));
    }
}
