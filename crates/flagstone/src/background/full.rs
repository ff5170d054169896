//! Full compactions that a caller asks for: several trees at a time, by his thread and by the workers.

use super::compact::CompactionJob;
use super::state::Queue;
use crate::shared::Shared;
use flagstone_base::{Error, Result};
use flagstone_env::{Lane, Progress};
use flagstone_tree::{Compaction, Tree, pick_full};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long somebody who waits for background work sleeps before looking again by himself.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// One call: who works for it, and how it goes.
struct Call {
    /// Trees that workers have begun with and not ended.
    running: AtomicUsize,
    state: Mutex<CallState>,
}

struct CallState {
    /// Trees that nobody has begun with; the last comes next.
    waiting: Vec<Arc<Tree>>,
    error: Option<Error>,
}

/// What one worker does of a call: it takes trees until there are none.
struct Helper {
    call: Arc<Call>,
    shared: Arc<Shared>,
    current: Option<Begun>,
}

/// A tree that a worker has begun with. The job is dropped first.
struct Begun {
    job: CompactionJob,
    _claim: Claim,
    _running: Running,
}

/// Counts in `Call::running` for as long as it is held.
struct Running {
    call: Arc<Call>,
    shared: Arc<Shared>,
}

/// A tree that nobody else compacts for as long as this is held.
struct Claim {
    shared: Arc<Shared>,
    tree: Arc<Tree>,
}

impl Shared {
    /// Compacts trees to their deepest level, the last first, by this thread and by the workers of
    /// compactions, who go on with other jobs by turns. After an error no further tree is begun.
    pub(crate) fn compact_trees(&self, trees: Vec<Arc<Tree>>) -> Result<()> {
        let Some(shared) = self.arc() else { return Ok(()) };
        let helpers = self.executor.workers(Lane::Compaction).min(trees.len().saturating_sub(1));
        let state = Mutex::new(CallState { waiting: trees, error: None });
        let call = Arc::new(Call { running: AtomicUsize::new(0), state });
        for _ in 0..helpers {
            let (call, shared) = (Arc::clone(&call), Arc::clone(&shared));
            let mut helper = Helper { call, shared, current: None };
            self.executor.submit(Lane::Compaction, Box::new(move || helper.step()));
        }
        loop {
            let Some(tree) = call.state.lock().waiting.pop() else { break };
            if let Err(error) = self.compact_tree(&tree) {
                call.fail(error);
            }
        }
        // A helper that has begun with nothing yet will find nothing.
        while call.running.load(Ordering::Acquire) > 0 {
            self.look_later(|_| call.running.load(Ordering::Acquire) > 0);
        }
        call.state.lock().error.take().map_or(Ok(()), Err)
    }

    /// Compacts a tree to its deepest level in this thread.
    pub(crate) fn compact_tree(&self, tree: &Arc<Tree>) -> Result<()> {
        let Some(shared) = self.arc() else { return Ok(()) };
        let claim = loop {
            if let Some(claim) = Claim::take(&shared, tree) {
                break claim;
            }
            self.check_background_runs()?;
            self.look_later(|queue| queue.compacting.contains(&tree.id()));
        };
        let Some(mut job) = claim.start() else { return Ok(()) };
        while job.try_step()? != Progress::Done {
            self.check_open_for_writing()?;
        }
        Ok(())
    }

    /// Helps with what is queued, or waits for the bell while `is_so`.
    fn look_later(&self, is_so: impl Fn(&Queue) -> bool) {
        if !self.executor.assist() {
            let mut queue = self.background.lock();
            if is_so(&queue) {
                self.background.wait(&mut queue, LOOK_AGAIN);
            }
        }
    }
}

impl Call {
    fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        state.waiting.clear();
        state.error.get_or_insert(error);
    }

    /// The next tree that nobody compacts; others are left to the caller, who waits for them.
    fn take(self: &Arc<Self>, shared: &Arc<Shared>) -> Option<(Claim, Running)> {
        let mut state = self.state.lock();
        let (at, claim) = (0..state.waiting.len())
            .rev()
            .find_map(|at| Some((at, Claim::take(shared, &state.waiting[at])?)))?;
        state.waiting.remove(at);
        // Before the lock is given back: the caller sees no tree left only when it counts.
        self.running.fetch_add(1, Ordering::AcqRel);
        Some((claim, Running { call: Arc::clone(self), shared: Arc::clone(shared) }))
    }
}

impl Helper {
    fn step(&mut self) -> Progress {
        let shared = Arc::clone(&self.shared);
        shared.run_step("a compaction", || self.try_step()).unwrap_or_else(|error| {
            self.call.fail(error);
            self.current = None;
            Progress::Done
        })
    }

    fn try_step(&mut self) -> Result<Progress> {
        if let Some(begun) = &mut self.current {
            self.shared.check_open_for_writing()?;
            if begun.job.try_step()? == Progress::Done {
                self.current = None;
            }
            return Ok(Progress::Again);
        }
        let Some((claim, running)) = self.call.take(&self.shared) else {
            return Ok(Progress::Done);
        };
        let job = claim.start();
        self.current = job.map(|job| Begun { job, _claim: claim, _running: running });
        Ok(Progress::Again)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.call.running.fetch_sub(1, Ordering::AcqRel);
        self.shared.background.ring();
    }
}

impl Claim {
    fn take(shared: &Arc<Shared>, tree: &Arc<Tree>) -> Option<Self> {
        let mut queue = shared.background.lock();
        queue.compacting.insert(tree.id()).then(|| {
            queue.compacting_for_callers += 1;
            Self { shared: Arc::clone(shared), tree: Arc::clone(tree) }
        })
    }

    fn start(&self) -> Option<CompactionJob> {
        let Self { shared, tree } = self;
        let job = pick_full(tree.view().version(), tree.options())?;
        let (snapshots, visible) = shared.snapshots.live(&shared.publisher);
        let compaction = Compaction::start(tree, job, &snapshots, visible)?;
        Some(CompactionJob::new(Arc::clone(shared), Arc::clone(tree), compaction))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut queue = self.shared.background.lock();
        queue.compacting.remove(&self.tree.id());
        queue.compacting_for_callers -= 1;
        drop(queue);
        self.shared.background.ring();
        // What was due in this tree meanwhile.
        self.shared.schedule_compactions();
    }
}
