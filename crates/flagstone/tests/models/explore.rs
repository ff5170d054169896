//! Runs a model under one schedule after another, each from a seed of its own.

use flagstone::admin::Environment;
use flagstone::internal::env::executor::Job;
use flagstone::internal::env::sync::let_waits_last;
use flagstone::internal::env::sync::shuttle::scheduler::{
    PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId,
};
use flagstone::internal::env::sync::shuttle::{Config, Runner, thread};
use flagstone::internal::env::{Executor, Lane, StepExecutor};
use flagstone::{Database, Options};
use flagstone_testkit::{Rng, World};
use std::panic::AssertUnwindSafe;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of schedules where no time is given.
const SCHEDULES: u64 = 200;
/// A quarter of the schedules change threads at few, well spread moments, which finds what needs
/// one thread to stay away for long; the estimate of their length needs some runs.
const PCT_RUNS: usize = 8;
const PCT_DEPTH: usize = 3;
/// A thread of a model opens databases on its stack.
const STACK_BYTES: usize = 1 << 20;

fn number<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs `model` for `FLAGSTONE_SECONDS`, from `FLAGSTONE_SEED` on. A schedule that fails ends it
/// with the seed that repeats it.
pub(crate) fn explore(name: &str, model: fn()) {
    let seconds = number::<f64>("FLAGSTONE_SECONDS");
    let first = number::<u64>("FLAGSTONE_SEED").unwrap_or(1);
    let (started, mut schedules) = (Instant::now(), 0);
    let_waits_last(Duration::MAX);
    let mut seed = first;
    loop {
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| run(seed, model)));
        match ran {
            Ok(ran) => schedules += ran,
            Err(cause) => {
                eprintln!(
                    "{name}: the schedule of seed {seed} fails; to run it again:\n\
                     cargo xtask shuttle --model {name} --seconds 0 --seed {seed}"
                );
                std::panic::resume_unwind(cause);
            }
        }
        seed += 1;
        let is_over = match seconds {
            Some(seconds) => started.elapsed().as_secs_f64() >= seconds,
            None => schedules >= SCHEDULES,
        };
        if is_over {
            break;
        }
    }
    eprintln!("{name}: {schedules} schedules from seed {first} on");
}

/// The schedules of one seed; how many there were.
fn run(seed: u64, model: fn()) -> u64 {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    let ran = match seed % 4 {
        0 => Runner::new(PctScheduler::new_from_seed(seed, PCT_DEPTH, PCT_RUNS), config).run(model),
        1 => Runner::new(StayingScheduler::new(seed), config).run(model),
        _ => Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(model),
    };
    ran as u64
}

/// Lets each thread go on for some time, then any other. It finds what needs one thread to stay
/// away for some steps of another, several times.
struct StayingScheduler {
    random: RandomScheduler,
    rng: Rng,
    /// At one in this many steps another thread goes on.
    steps: u64,
}

impl StayingScheduler {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let steps = *rng.pick(&[4, 16, 64]);
        Self { random: RandomScheduler::new_from_seed(seed, 1), rng, steps }
    }
}

impl Scheduler for StayingScheduler {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.random.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let stays = !is_yielding && self.rng.below(self.steps) > 0;
        let goes_on = current.filter(|id| stays && runnable.iter().any(|task| task.id() == *id));
        goes_on.or_else(|| self.random.next_task(runnable, current, is_yielding))
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next_u64()
    }
}

/// Background work is done by whoever waits for it, step by step; others run between two steps.
#[derive(Default)]
struct Yielding(StepExecutor);

impl Executor for Yielding {
    fn submit(&self, lane: Lane, job: Job) {
        self.0.submit(lane, job);
    }

    fn submit_after(&self, delay: Duration, lane: Lane, job: Job) {
        self.0.submit_after(delay, lane, job);
    }

    fn assist(&self) -> bool {
        // Timers come again for ever: a thread that waits must not keep the others from what it
        // waits for.
        thread::yield_now();
        self.0.assist()
    }

    fn workers(&self, lane: Lane) -> usize {
        self.0.workers(lane)
    }

    fn shut_down(&self) {
        self.0.shut_down();
    }
}

/// An executor whose jobs are done by those who wait for them.
pub(crate) fn yielding() -> Arc<dyn Executor> {
    Arc::new(Yielding::default())
}

/// Opens the database of `world`.
pub(crate) fn open(world: &World, options: Options) -> Database {
    open_with(world, options, yielding())
}

pub(crate) fn open_with(world: &World, options: Options, executor: Arc<dyn Executor>) -> Database {
    let executor = Some(executor);
    let environment = Environment { executor, ..world.environment().0 };
    Database::builder(World::dir()).options(options).environment(environment).open().unwrap()
}
