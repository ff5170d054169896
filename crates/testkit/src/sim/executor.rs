//! Background work in random order: each step runs a piece of a random job.

use crate::rng::Rng;
use flagstone::internal::env::executor::Job;
use flagstone::internal::env::{Executor, Lane, Progress};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An executor without threads. A waiting caller, and [`Shuffled::work`], run a step of any job.
pub(super) struct Shuffled {
    state: Mutex<ExecutorState>,
    compaction_workers: usize,
}

struct ExecutorState {
    jobs: Vec<(Lane, Job)>,
    timers: Vec<(Lane, Job)>,
    rng: Rng,
    is_closed: bool,
}

/// The percentage of steps that ring a timer although other work waits.
const TIMER_PERCENT: u64 = 3;

impl Shuffled {
    pub(super) const fn new(compaction_workers: usize) -> Self {
        let state = ExecutorState {
            jobs: Vec::new(),
            timers: Vec::new(),
            rng: Rng::new(0),
            is_closed: false,
        };
        Self { state: Mutex::new(state), compaction_workers }
    }

    /// Makes all further choices depend on `seed`.
    pub(super) fn reseed(&self, seed: u64) {
        self.lock().rng = Rng::new(seed);
    }

    /// Runs `steps` steps, or fewer if there is no work.
    pub(super) fn work(&self, steps: u16) {
        for _ in 0..steps {
            if !self.assist() {
                break;
            }
        }
    }

    /// Locks the state. A panic in a job must not be hidden by a poisoned lock.
    fn lock(&self) -> MutexGuard<'_, ExecutorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, lane: Lane, job: Job, to: fn(&mut ExecutorState) -> &mut Vec<(Lane, Job)>) {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            // The job is dropped outside of the lock, because its drop may call this executor.
            drop(job);
            return;
        }
        to(&mut state).push((lane, job));
    }
}

impl ExecutorState {
    fn take(&mut self) -> Option<(Lane, Job)> {
        if self.jobs.is_empty() && self.timers.is_empty() {
            return None;
        }
        let rings =
            self.jobs.is_empty() || (!self.timers.is_empty() && self.rng.percent(TIMER_PERCENT));
        let from = if rings { &mut self.timers } else { &mut self.jobs };
        let at = self.rng.index(from.len());
        Some(from.remove(at))
    }
}

impl Executor for Shuffled {
    fn submit(&self, lane: Lane, job: Job) {
        self.add(lane, job, |state| &mut state.jobs);
    }

    fn submit_after(&self, _delay: Duration, lane: Lane, job: Job) {
        self.add(lane, job, |state| &mut state.timers);
    }

    fn assist(&self) -> bool {
        let Some((lane, mut job)) = self.lock().take() else { return false };
        match job() {
            Progress::Done => {}
            Progress::Again => self.submit(lane, job),
            Progress::Rest(delay) => self.submit_after(delay, lane, job),
        }
        true
    }

    fn workers(&self, lane: Lane) -> usize {
        match lane {
            Lane::Flush => 1,
            Lane::Compaction => self.compaction_workers,
        }
    }

    fn shut_down(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let dropped = (std::mem::take(&mut state.jobs), std::mem::take(&mut state.timers));
        drop(state);
        drop(dropped);
    }
}
