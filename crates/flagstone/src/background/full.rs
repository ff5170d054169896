//! Full compactions that a caller asks for: several trees at a time, by his thread and by the workers.

use super::compact::CompactionJob;
use crate::shared::Shared;
use flagstone_base::{Error, Result, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicUsize, Ordering};
use flagstone_env::{Lane, Progress};
use flagstone_tree::{Compaction, Tree, pick_full};
use std::sync::Arc;

/// One call: who works for it, and how it goes.
struct Call {
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
    shared: Arc<Shared>,
    current: Option<Begun>,
}

/// A tree that a hand has begun with. The job is dropped first.
struct Begun {
    job: Option<CompactionJob>,
    claim: Claim,
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
        let hand = || Hand { call: Arc::clone(&call), shared: Arc::clone(&shared), current: None };
        for _ in 0..helpers {
            let mut helper = hand();
            self.executor.submit(Lane::Compaction, Box::new(move || helper.step_paced()));
        }
        let mut own = hand();
        loop {
            if own.step() == Progress::Again {
                // Where nothing runs by itself, helpers go on between the steps of the caller.
                self.executor.assist();
            } else if call.is_over() {
                break;
            } else {
                self.wait_for_a_tree(&call);
            }
        }
        call.state.lock().error.take().map_or(Ok(()), Err)
    }

    /// All trees that are left are at work elsewhere, or none is and others have not ended yet.
    fn wait_for_a_tree(&self, call: &Call) {
        let left = call.left();
        let is_open = || self.check_background_runs().and_then(|()| self.check_open_for_writing());
        match is_open() {
            Err(error) if !left.is_empty() => call.fail(error),
            _ => self.look_later(|queue| match left.is_empty() {
                true => call.running.load(Ordering::Acquire) > 0,
                false => left.iter().all(|tree| queue.compacting.contains(tree)),
            }),
        }
    }
}

impl Call {
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
    fn take(self: &Arc<Self>, shared: &Arc<Shared>) -> Option<Begun> {
        let mut state = self.state.lock();
        let (at, claim) = (0..state.waiting.len())
            .rev()
            .find_map(|at| Some((at, Claim::take(shared, &state.waiting[at])?)))?;
        state.waiting.remove(at);
        // Before the lock is given back: the call is not over between the two.
        self.running.fetch_add(1, Ordering::AcqRel);
        let running = Running { call: Arc::clone(self), shared: Arc::clone(shared) };
        Some(Begun { job: None, claim, _running: running })
    }
}

impl Hand {
    /// A step in the lane of the workers: while writers write it gives way as other compactions do.
    fn step_paced(&mut self) -> Progress {
        let clock = Arc::clone(&self.shared.environment.clock);
        let began = clock.monotonic();
        match self.step() {
            Progress::Again => self.shared.pace.rest_after(clock.monotonic() - began),
            done => done,
        }
    }

    /// Done: no tree is free, or the call has failed.
    fn step(&mut self) -> Progress {
        let shared = Arc::clone(&self.shared);
        shared.run_step("a compaction", || self.try_step()).unwrap_or_else(|error| {
            // First the error, then the end of what runs: the caller looks for both.
            self.call.fail(error.clone());
            shared.note_failure(&error);
            shared.tell_damages(None);
            self.current = None;
            Progress::Done
        })
    }

    fn try_step(&mut self) -> Result<Progress> {
        let Some(begun) = &mut self.current else {
            self.current = self.call.take(&self.shared);
            return Ok(if self.current.is_some() { Progress::Again } else { Progress::Done });
        };
        self.shared.check_open_for_writing()?;
        let is_done = match &mut begun.job {
            None => {
                begun.job = begun.claim.start();
                begun.job.is_none()
            }
            Some(job) => job.try_step()? == Progress::Done,
        };
        if is_done {
            self.current = None;
            self.shared.sweep();
        }
        Ok(Progress::Again)
    }
}

impl Drop for Hand {
    /// Between two steps it is dropped by a close alone: its tree will not be done.
    fn drop(&mut self) {
        if self.current.is_some() {
            self.call.fail(self.shared.closed_meanwhile());
        }
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
        // What was due in this tree meanwhile; a panic on the way tells no listener.
        if !std::thread::panicking() {
            self.shared.schedule_compactions();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use flagstone_base::ErrorKind;

    #[test]
    fn a_hand_that_is_dropped_with_a_tree_fails_its_call() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        kv.put("a", "1").unwrap();
        db.flush().unwrap();
        let shared = kv.handle().shared().arc().unwrap();
        let waiting = vec![Arc::clone(&kv.core().trees[0])];
        let state = Mutex::new(CallState { waiting, error: None });
        let call = Arc::new(Call { running: AtomicUsize::new(0), state });
        let mut hand = Hand { call: Arc::clone(&call), shared, current: None };
        assert!(hand.step() == Progress::Again && hand.current.is_some());
        drop(hand);
        assert!(call.is_over());
        let error = call.state.lock().error.take();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Closed));
    }
}
