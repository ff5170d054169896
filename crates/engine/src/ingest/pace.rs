//! Pauses of an ingest beside writers: it writes tables in the thread of its caller, and would
//! take all that the disk and a core can do from them.
//!
//! ```text
//! |-- 1 MiB --|  pause  |-- 1 MiB --|  pause  |     writers write: half of the time
//! |-- 1 MiB --|-- 1 MiB --|-- 1 MiB --|             nobody does: all of it
//! ```
//! The time in which a caller produces entries counts as time of writing, since to tell them apart
//! would cost each entry two looks at the clock. So a pause is short: a slow caller gains nothing
//! from longer ones.

use crate::parts::Parts;
use crate::rate::rest;
use flagstone_base::{Result, SeqNo};
use std::time::Duration;

/// The bytes of keys and values between two pauses.
const STEP_BYTES: u64 = 1 << 20;
/// The longest pause: this many bytes take less even on slow disks.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// The pace of one ingest.
pub(super) struct IngestPace {
    /// Bytes since the last step began.
    bytes: u64,
    began: Duration,
    /// The newest write that was visible then.
    seen: SeqNo,
}

impl IngestPace {
    pub(super) fn new(parts: &Parts) -> Self {
        Self { bytes: 0, began: parts.core.setup().now(), seen: parts.core.history.visible() }
    }

    /// Called after an entry of `bytes`. Pauses after each step if somebody writes.
    ///
    /// # Errors
    /// Closed or Poisoned meanwhile.
    #[inline]
    pub(super) fn after(&mut self, parts: &Parts, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        if self.bytes < STEP_BYTES { Ok(()) } else { self.end_step(parts) }
    }

    #[cold]
    fn end_step(&mut self, parts: &Parts) -> Result<()> {
        let step = parts.core.setup().now().saturating_sub(self.began);
        let visible = parts.core.history.visible();
        let is_beside_writers = std::mem::replace(&mut self.seen, visible) < visible;
        let pause = if is_beside_writers { step.min(PAUSE_MAX) } else { Duration::ZERO };
        // Without threads the writers wait for this one.
        if pause > Duration::ZERO && !parts.core.setup().executor.assist() {
            rest(pause, || parts.core.health.check_open_for_writing())?;
        }
        (self.bytes, self.began) = (0, parts.core.setup().now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Builder;
    use crate::{Environment, Keyspace};
    use flagstone_env::executor::Job;
    use flagstone_env::{Executor, Lane, ManualClock, MemDisk, SeededRandom, StepExecutor};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// An executor that counts those who would wait.
    #[derive(Default)]
    struct Counting {
        steps: StepExecutor,
        assists: AtomicU32,
    }

    impl Executor for Counting {
        fn submit(&self, lane: Lane, job: Job) {
            self.steps.submit(lane, job);
        }

        fn submit_after(&self, delay: Duration, lane: Lane, job: Job) {
            self.steps.submit_after(delay, lane, job);
        }

        fn assist(&self) -> bool {
            self.assists.fetch_add(1, Ordering::Relaxed);
            self.steps.assist();
            true
        }

        fn workers(&self, lane: Lane) -> usize {
            self.steps.workers(lane)
        }

        fn shut_down(&self) {
            self.steps.shut_down();
        }
    }

    fn pauses(write: impl Fn(&ManualClock, &Keyspace)) -> u32 {
        let (clock, counting) = (Arc::<ManualClock>::default(), Arc::<Counting>::default());
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock: Arc::<ManualClock>::clone(&clock),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<Counting>::clone(&counting)),
        };
        let db = Builder::at("db").environment(environment).open().unwrap();
        let (kv, other) = (db.keyspace("kv").unwrap(), db.keyspace("other").unwrap());
        let mut ingest = kv.ingest().unwrap();
        let before = counting.assists.load(Ordering::Relaxed);
        for n in 0..64_u32 {
            write(&clock, &other);
            ingest.put(&n.to_be_bytes(), &[7; 64 << 10], None).unwrap();
        }
        counting.assists.load(Ordering::Relaxed) - before
    }

    /// The clock goes on, or a step would seem to have taken no time.
    #[test]
    fn an_ingest_pauses_after_each_step_while_somebody_writes() {
        let tick = |clock: &ManualClock| clock.advance(Duration::from_millis(1));
        let beside = |clock: &ManualClock, other: &Keyspace| {
            tick(clock);
            other.put("a", "1").unwrap();
        };
        assert_eq!(pauses(beside), 4, "one for each MiB");
        assert_eq!(pauses(|clock, _other| tick(clock)), 0);
    }
}
