//! Full compactions that a caller asks for: several trees at a time, by his thread and by the workers.

use super::compact::CompactionJob;
use super::run::schedule_compactions;
use super::sweep::sweep;
use super::upkeep::Upkeep;
use super::wait::{check_runs, look_later};
use flagstone_base::{Error, Result, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use flagstone_env::{Lane, Progress};
use flagstone_tree::{Compaction, FullPass, Policy, Tree, pick, pick_expired};
use std::ops::ControlFlow;
use std::sync::Arc;

/// With so many runs in the first level of a tree these are merged before the next piece.
const L0_RUNS_FIRST: usize = 16;

/// How far a full compaction has come: see [`Database::compact_with`](crate::Engine::compact_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Bytes of tables that are in their last form now, of those there were at the beginning.
    pub bytes_done: u64,
    /// Bytes of tables there were at the beginning.
    pub bytes_total: u64,
    /// Pieces that were compacted, each for good.
    pub pieces: u64,
}

/// One call: who works for it, and how it goes.
struct Call {
    /// Nobody wants it any more.
    is_cancelled: AtomicBool,
    bytes_done: AtomicU64,
    bytes_total: u64,
    pieces: AtomicU64,
    /// Trees that somebody has begun with and not ended.
    running: AtomicUsize,
    state: Mutex<CallState>,
}

struct CallState {
    /// Trees that nobody has begun with; the last comes next.
    waiting: Vec<Arc<Tree>>,
    error: Option<Error>,
}

/// What one thread does of a call: it takes trees until none is free.
struct Hand {
    call: Arc<Call>,
    upkeep: Arc<Upkeep>,
    current: Option<Begun>,
}

/// A tree that a hand has begun with. The job is dropped first.
struct Begun {
    job: Option<CompactionJob>,
    /// What is left of the tree.
    pass: FullPass,
    /// Bytes of the tree at the beginning, and those of them that are counted as done.
    bytes: (u64, u64),
    claim: Claim,
    _running: Running,
}

/// Counts in `Call::running` for as long as it is held.
struct Running {
    call: Arc<Call>,
    upkeep: Arc<Upkeep>,
}

/// A tree that nobody else compacts for as long as this is held.
struct Claim {
    upkeep: Arc<Upkeep>,
    tree: Arc<Tree>,
}

/// Compacts trees to their deepest level, the last first and each in pieces, by this thread and by the workers of
/// compactions, who go on with other jobs by turns. After an error, or when `watch` breaks off, no further piece is
/// begun and what runs is given up; pieces that are installed stay.
pub(crate) fn compact_trees(
    upkeep: &Arc<Upkeep>,
    trees: Vec<Arc<Tree>>,
    watch: &mut dyn FnMut(CompactProgress) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let helpers =
        upkeep.setup.executor.workers(Lane::Compaction).min(trees.len().saturating_sub(1));
    let bytes_total = trees.iter().map(bytes_of).sum();
    let state = Mutex::new(CallState { waiting: trees, error: None });
    let call = Arc::new(Call::new(state, bytes_total));
    let hand = || Hand { call: Arc::clone(&call), upkeep: Arc::clone(upkeep), current: None };
    for _ in 0..helpers {
        let mut helper = hand();
        upkeep.setup.executor.submit(Lane::Compaction, Box::new(move || helper.step_paced()));
    }
    let mut own = hand();
    loop {
        if watch(call.progress()).is_break() {
            call.cancel();
        }
        // Not across `watch`: what a user does there may wait for a close.
        let step = upkeep.work.begin_caller_step();
        if step.is_none() {
            call.fail(upkeep.setup.closed_meanwhile());
            call.cancel();
        }
        let progress = own.step();
        drop(step);
        if progress == Progress::Again {
            // Where nothing runs by itself, helpers go on between the steps of the caller.
            upkeep.setup.executor.assist();
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

/// All trees that are left are at work elsewhere, or none is and others have not ended yet.
fn wait_for_a_tree(upkeep: &Upkeep, call: &Call) {
    let left = call.left();
    let is_open = || check_runs(upkeep).and_then(|()| upkeep.health.check_open_for_writing());
    match is_open() {
        Err(error) if !left.is_empty() => call.fail(error),
        _ => look_later(upkeep, |queue| match left.is_empty() {
            true => call.running.load(Ordering::Acquire) > 0,
            false => left.iter().all(|tree| queue.compacting.contains(tree)),
        }),
    }
}

/// Bytes of a tree's tables.
fn bytes_of(tree: &Arc<Tree>) -> u64 {
    tree.table_bytes()
}

impl Call {
    fn new(state: Mutex<CallState>, bytes_total: u64) -> Self {
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

    /// Nothing more is begun, and every hand gives up what it does before its next step.
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.state.lock().waiting.clear();
    }

    fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        state.waiting.clear();
        state.error.get_or_insert(error);
    }

    /// Nothing is left to begin with, and what was begun has ended.
    fn is_over(&self) -> bool {
        self.state.lock().waiting.is_empty() && self.running.load(Ordering::Acquire) == 0
    }

    /// Trees that nobody has begun with.
    fn left(&self) -> Vec<TreeId> {
        self.state.lock().waiting.iter().map(|tree| tree.id()).collect()
    }

    /// The next tree that nobody compacts.
    fn take(self: &Arc<Self>, upkeep: &Arc<Upkeep>) -> Option<Begun> {
        let mut state = self.state.lock();
        let (at, claim) = (0..state.waiting.len())
            .rev()
            .find_map(|at| Some((at, Claim::take(upkeep, &state.waiting[at])?)))?;
        state.waiting.remove(at);
        // Before the lock is given back: the call is not over between the two.
        self.running.fetch_add(1, Ordering::AcqRel);
        let running = Running { call: Arc::clone(self), upkeep: Arc::clone(upkeep) };
        let pass = FullPass::new(claim.tree.view().version());
        let bytes = (bytes_of(&claim.tree), 0);
        Some(Begun { job: None, pass, bytes, claim, _running: running })
    }
}

impl Hand {
    /// A step in the lane of the workers: while writers write it gives way as other compactions do.
    fn step_paced(&mut self) -> Progress {
        let clock = Arc::clone(&self.upkeep.setup.environment.clock);
        let began = clock.monotonic();
        match self.step() {
            Progress::Again => self.upkeep.pace.rest_after(clock.monotonic() - began),
            done => done,
        }
    }

    /// Done: no tree is free, or the call has failed.
    fn step(&mut self) -> Progress {
        let upkeep = Arc::clone(&self.upkeep);
        upkeep.health.run_step("a compaction", || self.try_step()).unwrap_or_else(|error| {
            // First the error, then the end of what runs: the caller looks for both.
            self.call.fail(error.clone());
            upkeep.ballast.note_failure(&error);
            upkeep.tell_damages(None);
            self.current = None;
            Progress::Done
        })
    }

    fn try_step(&mut self) -> Result<Progress> {
        let Some(begun) = &mut self.current else {
            self.current = self.call.take(&self.upkeep);
            return Ok(if self.current.is_some() { Progress::Again } else { Progress::Done });
        };
        self.upkeep.health.check_open_for_writing()?;
        let is_done = match &mut begun.job {
            _ if self.call.is_cancelled.load(Ordering::Acquire) => true,
            None => {
                begun.job = begun.claim.start(&mut begun.pass);
                begun.job.is_none()
            }
            Some(job) => {
                if job.try_step()? == Progress::Done {
                    begun.job = None;
                    self.call.pieces.fetch_add(1, Ordering::Relaxed);
                    sweep(&self.upkeep);
                }
                false
            }
        };
        begun.count(&self.call, is_done);
        if is_done {
            self.current = None;
            sweep(&self.upkeep);
        }
        Ok(Progress::Again)
    }
}

impl Begun {
    /// Notes how far the tree has come.
    fn count(&mut self, call: &Call, is_done: bool) {
        let (bytes, counted) = &mut self.bytes;
        let part = match is_done {
            true => 1.0,
            false if self.job.is_none() => self.pass.part_done(self.claim.tree.view().version()),
            false => return,
        };
        let done = (*bytes as f64 * part) as u64;
        call.bytes_done.fetch_add(done.saturating_sub(*counted), Ordering::Relaxed);
        *counted = done.max(*counted);
    }
}

impl Drop for Hand {
    /// Between two steps it is dropped by a close alone: its tree will not be done.
    fn drop(&mut self) {
        if self.current.is_some() {
            self.call.fail(self.upkeep.setup.closed_meanwhile());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.call.running.fetch_sub(1, Ordering::AcqRel);
        self.upkeep.work.ring();
    }
}

impl Claim {
    fn take(upkeep: &Arc<Upkeep>, tree: &Arc<Tree>) -> Option<Self> {
        let mut queue = upkeep.work.lock();
        queue.compacting.insert(tree.id()).then(|| {
            queue.compacting_for_callers += 1;
            Self { upkeep: Arc::clone(upkeep), tree: Arc::clone(tree) }
        })
    }

    /// The next piece of its tree, or what its writers need more: nobody else compacts it meanwhile.
    fn start(&self, pass: &mut FullPass) -> Option<CompactionJob> {
        let Self { upkeep, tree } = self;
        let view = tree.view();
        let needed = || match tree.pressure(Policy::Tiering).l0_runs >= L0_RUNS_FIRST {
            true => pick(view.version(), tree.options(), Policy::Tiering),
            false => None,
        };
        let moment = upkeep.expire_through();
        let (version, options) = (view.version(), &tree.current_options());
        let job = needed().or_else(|| pass.next(version, options));
        // What the pass leaves alone may have expired.
        let job = job.or_else(|| pick_expired(version, options, moment))?;
        let (snapshots, visible) = upkeep.history.live();
        let compaction = Compaction::start(tree, job, &snapshots, visible)?;
        let compaction = compaction.expiring_through(moment);
        Some(CompactionJob::new(Arc::clone(upkeep), Arc::clone(tree), compaction))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut queue = self.upkeep.work.lock();
        queue.compacting.remove(&self.tree.id());
        queue.compacting_for_callers -= 1;
        drop(queue);
        self.upkeep.work.ring();
        // What was due in this tree meanwhile; a panic on the way tells no listener.
        if !std::thread::panicking() {
            schedule_compactions(&self.upkeep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use flagstone_base::ErrorKind;

    #[test]
    fn a_hand_that_is_dropped_with_a_tree_fails_its_call() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        kv.put("a", "1").unwrap();
        db.flush().unwrap();
        let upkeep = Arc::clone(&kv.handle().parts().upkeep);
        let waiting = vec![Arc::clone(&kv.core().trees[0])];
        let state = Mutex::new(CallState { waiting, error: None });
        let call = Arc::new(Call::new(state, 1));
        let mut hand = Hand { call: Arc::clone(&call), upkeep, current: None };
        assert!(hand.step() == Progress::Again && hand.current.is_some());
        drop(hand);
        assert!(call.is_over());
        let error = call.state.lock().error.take();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Closed));
    }
}
