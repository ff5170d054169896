//! Background work in short resumable steps. Threads run the steps in production; a test runs them
//! one by one, in any order.

use crate::forks::HasThreads;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The workers that may run a job. Flushes have their own lane, so that no number of compactions
/// can delay the flush of a full memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Short work that writers may wait for: flushes, the manifest, timed syncs.
    Flush,
    /// Long work: compactions, removal of files.
    Compaction,
}

/// The result of one step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do: call the job again.
    Again,
    /// There is more to do: call the job again when this time has passed.
    Rest(Duration),
    /// The job is finished and is dropped.
    Done,
}

/// A piece of background work. Each call does one bounded step, ideally less than 1 MiB of input.
pub type Job = Box<dyn FnMut() -> Progress + Send>;

/// Runs background jobs.
pub trait Executor: Send + Sync {
    /// Queues `job`, which is called until it returns [`Progress::Done`].
    fn submit(&self, lane: Lane, job: Job);

    /// Queues `job` after `delay`. A job that still waits at shutdown is dropped.
    fn submit_after(&self, delay: Duration, lane: Lane, job: Job);

    /// Runs one queued step in the caller's thread, if this executor has no threads. Returns false
    /// when nothing was run. A thread that is going to wait for background work calls this first.
    fn assist(&self) -> bool;

    /// The number of jobs of `lane` that can run at the same time.
    fn workers(&self, lane: Lane) -> usize;

    /// Waits until the running steps have ended, and drops all queued jobs. Jobs submitted later
    /// are dropped at once.
    fn shut_down(&self);
}

/// Runs `work` in a new detached thread.
///
/// # Errors
/// The error of the system when it cannot start a thread; `work` is dropped then.
pub fn run_apart(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(|_detached| ())
}

/// Calls `work` with each number below `count`, on up to `threads` threads, the caller's included.
/// Returns the results in order. Fewer threads do the work if the system refuses more. A panic of
/// `work` is passed on when all threads have ended.
pub fn run_together<R: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> R + Sync,
) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if at >= count {
                return done;
            }
            done.push((at, work(at)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        // Without more threads the caller does all of it.
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads.min(count)).map_while(spawn).collect();
        let mut all = run();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

/// An executor with its own threads: one for flushes, some for compactions.
pub struct ThreadExecutor {
    shared: Arc<Shared>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// Until the threads have ended.
    has_threads: Mutex<Option<HasThreads>>,
    compaction_workers: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Queues>,
    queued: Condvar,
}

#[derive(Default)]
struct Queues {
    flush: VecDeque<Job>,
    compaction: VecDeque<Job>,
    /// Delayed jobs; they are few, so they are not sorted.
    timers: Vec<(Instant, Lane, Job)>,
    closed: bool,
}

impl Queues {
    fn lane(&mut self, lane: Lane) -> &mut VecDeque<Job> {
        match lane {
            Lane::Flush => &mut self.flush,
            Lane::Compaction => &mut self.compaction,
        }
    }

    /// Moves the jobs that are due to their lanes. Returns the time at which the next one is due.
    fn ring_timers(&mut self) -> Option<Instant> {
        let now = Instant::now();
        while let Some(due) = self.timers.iter().position(|(at, _, _)| *at <= now) {
            let (_, lane, job) = self.timers.swap_remove(due);
            self.lane(lane).push_back(job);
        }
        self.timers.iter().map(|(at, _, _)| *at).min()
    }

    /// Refuses later jobs. Returns the queued ones, so that the caller drops them outside of the
    /// lock.
    fn close(&mut self) -> Vec<Job> {
        self.closed = true;
        let timers = self.timers.drain(..).map(|(_, _, job)| job);
        timers.chain(self.flush.drain(..)).chain(self.compaction.drain(..)).collect()
    }
}

impl ThreadExecutor {
    /// Starts one flush thread and `compaction_workers` (at least one) compaction threads.
    ///
    /// # Errors
    /// The error of the system when it cannot start a thread.
    pub fn start(compaction_workers: usize) -> std::io::Result<Self> {
        let compaction_workers = compaction_workers.max(1);
        let has_threads = Mutex::new(Some(HasThreads::new()));
        let (shared, threads) = (Arc::default(), Mutex::default());
        let executor = Self { shared, threads, has_threads, compaction_workers };
        executor.spawn("flagstone-flush".into(), Lane::Flush)?;
        for worker in 0..compaction_workers {
            executor.spawn(format!("flagstone-compact-{worker}"), Lane::Compaction)?;
        }
        Ok(executor)
    }

    fn spawn(&self, name: String, lane: Lane) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name).spawn(move || shared.work(lane))?;
        self.threads.lock().push(thread);
        Ok(())
    }
}

impl Shared {
    /// Runs one step of each job of the lane in turn, so that a long job does not delay a timed
    /// one.
    fn work(&self, lane: Lane) {
        while let Some(mut job) = self.next(lane) {
            let at = match job() {
                Progress::Again => None,
                Progress::Rest(rest) => Some(Instant::now() + rest),
                Progress::Done => continue,
            };
            let mut queues = self.state.lock();
            if queues.closed {
                return;
            }
            match at {
                None => queues.lane(lane).push_back(job),
                Some(at) => queues.timers.push((at, lane, job)),
            }
        }
    }

    /// Waits for the next job of the lane; `None` when the executor shuts down.
    fn next(&self, lane: Lane) -> Option<Job> {
        let mut queues = self.state.lock();
        while !queues.closed {
            let next_timer = queues.ring_timers();
            if let Some(job) = queues.lane(lane).pop_front() {
                return Some(job);
            }
            match next_timer {
                Some(at) => {
                    self.queued.wait_until(&mut queues, at);
                }
                None => self.queued.wait(&mut queues),
            }
        }
        None
    }
}

impl Executor for ThreadExecutor {
    fn submit(&self, lane: Lane, job: Job) {
        let mut queues = self.shared.state.lock();
        if !queues.closed {
            queues.lane(lane).push_back(job);
            drop(queues);
            self.shared.queued.notify_all();
        }
    }

    fn submit_after(&self, delay: Duration, lane: Lane, job: Job) {
        let mut queues = self.shared.state.lock();
        if !queues.closed {
            queues.timers.push((Instant::now() + delay, lane, job));
            drop(queues);
            self.shared.queued.notify_all();
        }
    }

    fn assist(&self) -> bool {
        false
    }

    fn workers(&self, lane: Lane) -> usize {
        match lane {
            Lane::Flush => 1,
            Lane::Compaction => self.compaction_workers,
        }
    }

    fn shut_down(&self) {
        let dropped = self.shared.state.lock().close();
        self.shared.queued.notify_all();
        drop(dropped);
        let this_thread = std::thread::current().id();
        for thread in self.threads.lock().drain(..) {
            // A job may drop the last handle of its own database.
            if thread.thread().id() != this_thread {
                let _panicked = thread.join();
            }
        }
        *self.has_threads.lock() = None;
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// An executor for tests, without threads: the test runs one step at a time.
#[derive(Default)]
pub struct StepExecutor {
    queues: Mutex<Queues>,
}

impl StepExecutor {
    /// Runs one step of the oldest job of `lane`. Returns false when there is none.
    pub fn step(&self, lane: Lane) -> bool {
        let Some(mut job) = self.queues.lock().lane(lane).pop_front() else { return false };
        if job() != Progress::Done {
            let mut queues = self.queues.lock();
            if !queues.closed {
                queues.lane(lane).push_front(job);
            }
        }
        true
    }

    /// Runs steps until nothing is queued. Delayed jobs stay.
    pub fn run_all(&self) {
        while self.step(Lane::Flush) || self.step(Lane::Compaction) {}
    }

    /// Queues the oldest delayed job. Returns false when there is none.
    pub fn ring_timer(&self) -> bool {
        let mut queues = self.queues.lock();
        if queues.timers.is_empty() {
            return false;
        }
        let (_, lane, job) = queues.timers.remove(0);
        queues.lane(lane).push_back(job);
        true
    }
}

impl Executor for StepExecutor {
    fn submit(&self, lane: Lane, job: Job) {
        let mut queues = self.queues.lock();
        if !queues.closed {
            queues.lane(lane).push_back(job);
        }
    }

    /// Time does not pass in this executor: a delayed job waits until nothing else is left to run.
    fn submit_after(&self, delay: Duration, lane: Lane, job: Job) {
        let mut queues = self.queues.lock();
        if !queues.closed {
            queues.timers.push((Instant::now() + delay, lane, job));
        }
    }

    fn assist(&self) -> bool {
        self.step(Lane::Flush) || self.step(Lane::Compaction) || self.ring_timer()
    }

    fn workers(&self, _lane: Lane) -> usize {
        1
    }

    fn shut_down(&self) {
        let dropped = self.queues.lock().close();
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    fn counting(steps: usize, counter: &Arc<AtomicUsize>) -> Job {
        let (counter, mut left) = (Arc::clone(counter), steps);
        Box::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            left -= 1;
            if left == 0 { Progress::Done } else { Progress::Again }
        })
    }

    #[test]
    fn a_step_executor_runs_a_job_step_by_step() {
        let (executor, counter) = (StepExecutor::default(), Arc::default());
        executor.submit(Lane::Compaction, counting(3, &counter));
        assert!(!executor.step(Lane::Flush));
        assert!(executor.step(Lane::Compaction));
        assert_eq!(counter.load(Ordering::Relaxed), 1);
        executor.run_all();
        assert_eq!(counter.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_delayed_job_waits_until_nothing_else_is_queued() {
        let (executor, counter) = (StepExecutor::default(), Arc::default());
        executor.submit_after(Duration::from_secs(9), Lane::Flush, counting(1, &counter));
        executor.run_all();
        assert_eq!(counter.load(Ordering::Relaxed), 0);
        assert!(executor.assist() && executor.assist() && !executor.assist());
        assert_eq!(counter.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_flush_runs_while_every_compaction_worker_is_busy() {
        let executor = ThreadExecutor::start(1).unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        let (flushed, done) = mpsc::channel();
        executor.submit(
            Lane::Compaction,
            Box::new(move || {
                blocked.recv().unwrap();
                Progress::Done
            }),
        );
        executor.submit(
            Lane::Flush,
            Box::new(move || {
                flushed.send(()).unwrap();
                Progress::Done
            }),
        );
        done.recv().unwrap();
        release.send(()).unwrap();
        executor.shut_down();
    }

    #[test]
    fn a_timed_job_runs_between_the_steps_of_a_long_one() {
        let executor = ThreadExecutor::start(1).unwrap();
        let (timed, is_timed) = mpsc::channel();
        let (ended, is_ended) = mpsc::channel();
        executor.submit_after(
            Duration::from_millis(1),
            Lane::Flush,
            Box::new(move || {
                timed.send(()).unwrap();
                Progress::Done
            }),
        );
        // Ends only when the timed job has run.
        executor.submit(
            Lane::Flush,
            Box::new(move || match is_timed.try_recv() {
                Ok(()) => {
                    ended.send(()).unwrap();
                    Progress::Done
                }
                Err(_) => Progress::Again,
            }),
        );
        is_ended.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn a_resting_job_leaves_its_thread_to_others() {
        let executor = ThreadExecutor::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let (first, second) = (sender.clone(), sender);
        let mut rests = 2;
        executor.submit(
            Lane::Compaction,
            Box::new(move || {
                rests -= 1;
                if rests > 0 {
                    return Progress::Rest(Duration::from_millis(30));
                }
                first.send("rested").unwrap();
                Progress::Done
            }),
        );
        executor.submit(
            Lane::Compaction,
            Box::new(move || {
                second.send("other").unwrap();
                Progress::Done
            }),
        );
        assert_eq!(receiver.recv(), Ok("other"));
        assert_eq!(receiver.recv(), Ok("rested"));
    }

    #[test]
    fn a_delayed_job_runs_after_its_delay() {
        let executor = ThreadExecutor::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let begin = Instant::now();
        for millis in [30, 1] {
            let sender = sender.clone();
            let delay = Duration::from_millis(millis);
            let job = move || {
                sender.send((delay, begin.elapsed())).unwrap();
                Progress::Done
            };
            executor.submit_after(delay, Lane::Flush, Box::new(job));
        }
        // On a busy machine the first may be due before the second is submitted.
        for (delay, waited) in receiver.iter().take(2) {
            assert!(waited >= delay, "{waited:?} < {delay:?}");
        }
    }

    #[test]
    fn work_that_runs_together_comes_back_in_order_on_any_number_of_threads() {
        for threads in [0, 1, 2, 7] {
            assert_eq!(run_together(threads, 5, |n| n * n), [0, 1, 4, 9, 16], "{threads}");
        }
        assert_eq!(run_together(4, 0, |n| n), []);
        // Two threads are there at once: each waits for the other.
        let both = std::sync::Barrier::new(2);
        run_together(2, 2, |_| both.wait());
    }
}
