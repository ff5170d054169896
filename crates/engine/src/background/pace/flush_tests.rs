//! The pauses of flushes of a database.

use crate::keyspace_core::Trees;
use crate::parts::Parts;
use crate::stall::{Wait, free_bytes};
use crate::testing::Builder;
use crate::{Engine, Environment, Keyspace, KeyspaceOptions, Routing};
use flagstone_env::executor::Job;
use flagstone_env::sync::Mutex;
use flagstone_env::{Clock, Executor, Lane, MemDisk, Progress, SeededRandom, StepExecutor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that advances by ten milliseconds at each reading.
#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(10, Ordering::Relaxed))
    }

    fn wall(&self) -> Duration {
        self.monotonic()
    }
}

/// An executor that can put an entry before each step of the flush lane, and records what the
/// step returns.
#[derive(Default)]
struct Watched {
    steps: StepExecutor,
    puts_into: Arc<Mutex<Option<Keyspace>>>,
    results: Arc<Mutex<Vec<Progress>>>,
}

impl Executor for Watched {
    fn submit(&self, lane: Lane, mut job: Job) {
        if lane != Lane::Flush {
            return self.steps.submit(lane, job);
        }
        let (puts_into, results) = (Arc::clone(&self.puts_into), Arc::clone(&self.results));
        let watched = move || {
            let kv = puts_into.lock().clone();
            if let Some(kv) = kv {
                kv.put("more", "1").unwrap();
            }
            let result = job();
            results.lock().push(result);
            result
        };
        self.steps.submit(lane, Box::new(watched));
    }

    fn submit_after(&self, delay: Duration, lane: Lane, job: Job) {
        self.steps.submit_after(delay, lane, job);
    }

    fn assist(&self) -> bool {
        self.steps.assist()
    }

    fn workers(&self, lane: Lane) -> usize {
        self.steps.workers(lane)
    }

    fn shut_down(&self) {
        self.steps.shut_down();
    }
}

/// A database with a sealed memtable whose flush has not started.
struct Sealed {
    executor: Arc<Watched>,
    db: Engine,
    kv: Keyspace,
}

impl Sealed {
    /// Memtables are half full.
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(change: impl FnOnce(Builder) -> Builder) -> Self {
        let executor = Arc::new(Watched::default());
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock: Arc::new(Ticking::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<Watched>::clone(&executor)),
        };
        // The memtables' share is 16 MiB.
        let builder = Builder::at("db").environment(environment).memory_budget(32 << 20);
        let db = change(builder).open().unwrap();
        let options = KeyspaceOptions::new().routing(Routing::Hash(2));
        let kv = db.keyspace_with("k", options).unwrap();
        // The memtable of this keyspace is never the largest, so it pins the log.
        db.keyspace("small").unwrap().put("k", "1").unwrap();
        let sealed = Self { executor, db, kv };
        sealed.fill();
        sealed
    }

    fn fill(&self) {
        let parts = self.parts();
        for i in 0..100_000_u64 {
            self.executor.steps.run_all();
            // An entry takes 1,056 bytes with its key and headers; memory use at the start of
            // the flush depends on it.
            self.kv.put(i.to_be_bytes(), [7; 1020]).unwrap();
            if parts.upkeep.core.work.is_flush_pending() {
                return self.executor.results.lock().clear();
            }
        }
        panic!("no flush");
    }

    fn parts(&self) -> &Parts {
        self.kv.handle().parts()
    }

    fn step_to_the_end(&self) {
        while self.parts().upkeep.core.work.is_flush_pending() {
            assert!(self.executor.steps.step(Lane::Flush));
        }
    }

    /// Counts the pauses of the flush that `run` completes during writes.
    fn rests_while_written(&self, run: impl FnOnce(&Self)) -> usize {
        *self.executor.puts_into.lock() = Some(self.kv.clone());
        let rests = self.rests(run);
        // The executor must not keep the database, which keeps the executor.
        self.executor.puts_into.lock().take();
        rests
    }

    fn rests(&self, run: impl FnOnce(&Self)) -> usize {
        run(self);
        let results = std::mem::take(&mut *self.executor.results.lock());
        // Another flush may have followed.
        let end = results.iter().position(|result| *result == Progress::Done).unwrap();
        let results = &results[..end];
        assert!(results.len() > 4, "{results:?}");
        assert_eq!(results.last(), Some(&Progress::Again), "the install is not put off");
        // A sixteenth of the share at 1 GB/s is shorter than the steps here.
        let rest = Progress::Rest(Duration::from_nanos(1 << 20));
        assert!(results.iter().all(|a| [rest, Progress::Again].contains(a)), "{results:?}");
        results.iter().filter(|result| **result == rest).count()
    }
}

#[test]
fn a_flush_rests_while_somebody_writes_and_nobody_waits() {
    assert!(Sealed::new().rests_while_written(Sealed::step_to_the_end) >= 2);
}

#[test]
fn a_flush_does_not_rest_while_nobody_writes() {
    assert_eq!(Sealed::new().rests(Sealed::step_to_the_end), 0);
}

/// Puts entries until `is_so` returns true.
fn put_until(sealed: &Sealed, is_so: impl Fn(&Parts) -> bool) {
    for i in 0..100_000_u64 {
        if is_so(sealed.parts()) {
            return;
        }
        sealed.kv.put(i.to_be_bytes(), [2; 1024]).unwrap();
    }
    panic!("still not so");
}

#[test]
fn a_flush_does_not_rest_when_the_log_grew_long_meanwhile() {
    let is_log_long = |parts: &Parts| {
        parts.core.history.log_bytes() > parts.core.setup().options.wal_bytes_long()
    };
    let sealed = Sealed::new();
    // Flushes of 4 MiB each, until there is no room for another.
    while sealed.parts().core.history.log_bytes() + (4 << 20)
        < sealed.parts().core.setup().options.wal_bytes_long()
    {
        sealed.fill();
    }
    assert!(!is_log_long(sealed.parts()));
    put_until(&sealed, is_log_long);
    assert!(
        sealed.parts().core.memory.memtable_bytes() < 12 << 20,
        "for memory alone it could rest"
    );
    assert_eq!(sealed.rests_while_written(Sealed::step_to_the_end), 0);
}

#[test]
fn a_flush_does_not_rest_when_writers_are_delayed() {
    let sealed = Sealed::new();
    put_until(&sealed, |parts| {
        parts.core.memory.memtable_bytes()
            >= free_bytes(parts.core.setup().options.memtable_share())
    });
    assert_eq!(sealed.rests_while_written(Sealed::step_to_the_end), 0);
}

#[test]
fn a_flush_that_somebody_waits_for_does_not_rest() {
    let waits: [fn(&Sealed); 3] = [
        |sealed| sealed.db.flush().unwrap(),
        |sealed| assert!(sealed.db.checkpoint("copy").is_ok()),
        // Two large writes that do not fit together.
        |sealed| {
            let _first =
                sealed.parts().commits.admission.admit(1 << 20, Wait::Yes, Trees::new).unwrap();
            let _second =
                sealed.parts().commits.admission.admit(8 << 20, Wait::Yes, Trees::new).unwrap();
        },
    ];
    for wait in waits {
        assert_eq!(Sealed::new().rests_while_written(wait), 0);
    }
}

#[test]
fn flushes_rest_again_once_nobody_waits() {
    let sealed = Sealed::new();
    sealed.db.flush().unwrap();
    sealed.db.checkpoint("copy").unwrap();
    sealed.fill();
    assert!(sealed.rests_while_written(Sealed::step_to_the_end) >= 2);
}

#[test]
fn a_flush_of_memtables_whose_size_is_set_does_not_rest() {
    let sealed = Sealed::with(|builder| builder.memtable_bytes(3 << 20));
    assert_eq!(sealed.rests_while_written(Sealed::step_to_the_end), 0);
}
