//! Threads that work in a closed loop, and the one that samples them every interval.

use super::meter::{Ledger, Meter, Slot};
use crate::engine::{Engine, EngineEvent, Gauges, Outcome};
use crate::options::Pace;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// The functions that sample a store while it is measured.
#[derive(Clone, Copy)]
pub struct Probe<'a> {
    pub gauges: &'a dyn Fn() -> Gauges,
    /// Returns the events since the last call.
    pub events: &'a dyn Fn() -> Vec<EngineEvent>,
}

impl Probe<'static> {
    /// For stores without gauges and events.
    pub const NONE: Self = Self { gauges: &Gauges::default, events: &Vec::new };
}

/// Calls `call` with the [`Probe`] of an engine.
pub(super) fn with_probe<T>(engine: &dyn Engine, call: impl FnOnce(Probe<'_>) -> T) -> T {
    call(Probe { gauges: &|| engine.gauges(), events: &|| engine.take_events() })
}

/// The operations and the time of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worked {
    pub ops: u64,
    /// Seconds until the last thread had ended.
    pub seconds: f64,
}

impl Worked {
    pub fn ops_per_s(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }
}

/// The time between two samples of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The time of the previous sample; for the first interval, when the first thread began.
    pub from: Instant,
    /// The time of this sample.
    pub to: Instant,
    /// Whether this is the last interval of its phase, in which threads end: it is seldom as long
    /// as the others.
    pub is_last: bool,
}

/// The steps of a thread. Each prepares one operation, performs it between [`Meter::begin`] and
/// [`Meter::end`], and checks its result. A step returns false when there is nothing more to do;
/// they are called until the phase ends.
pub type Worker<'w> = Box<dyn FnMut(&mut Meter<'_>) -> Outcome<bool> + Send + 'w>;

/// Workers, one a thread.
pub type Crew<'w> = Vec<Worker<'w>>;

/// Creates a worker for each thread, by the number of the thread.
pub fn crew<'w, W>(threads: usize, worker: impl Fn(u64) -> W) -> Crew<'w>
where
    W: FnMut(&mut Meter<'_>) -> Outcome<bool> + Send + 'w,
{
    (0..threads as u64).map(|thread| Box::new(worker(thread)) as Worker<'w>).collect()
}

/// Runs the workers as `pace` says, each on a thread of its own. Calls `each` every interval and at
/// the end, with the counts since the last call; if a call is late, its interval is longer.
/// `pace.threads` must be the number of the workers. The first error of a worker stops the others.
pub fn work<'w>(
    pace: &Pace,
    workers: Crew<'w>,
    each: &mut dyn FnMut(Interval, &Ledger) -> Outcome<()>,
) -> Outcome<Worked> {
    let slots: Vec<Slot> = workers.iter().map(|_| Slot::default()).collect();
    let stop = AtomicBool::new(false);
    // Set by whichever thread runs first: with more threads than cores this one may come late.
    let started = OnceLock::new();
    let barrier = Barrier::new(workers.len() + 1);
    let (done, finished) = channel();
    std::thread::scope(|scope| {
        for (thread, (mut worker, slot)) in workers.into_iter().zip(&slots).enumerate() {
            let (done, barrier, stop, started) = (done.clone(), &barrier, &stop, &started);
            let quota = pace.quota(thread);
            scope.spawn(move || {
                barrier.wait();
                started.get_or_init(Instant::now);
                let mut meter = Meter::new(slot, stop);
                let labour = AssertUnwindSafe(|| labour(&mut worker, &mut meter, quota));
                let outcome = catch_unwind(labour)
                    .unwrap_or_else(|_panic| Err("a worker thread panicked".into()));
                // The receiver is gone when the watcher failed.
                let _gone = done.send(outcome);
            });
        }
        drop(done);
        barrier.wait();
        let started = *started.get_or_init(Instant::now);
        let watched = Watcher { pace, slots: &slots, stop: &stop, started }.watch(&finished, each);
        stop.store(true, Ordering::Relaxed);
        watched
    })
}

fn labour(worker: &mut Worker<'_>, meter: &mut Meter<'_>, quota: u64) -> Outcome<()> {
    for _ in 0..quota {
        if meter.is_over() || !worker(meter)? {
            break;
        }
    }
    Ok(())
}

struct Watcher<'a> {
    pace: &'a Pace,
    slots: &'a [Slot],
    stop: &'a AtomicBool,
    started: Instant,
}

impl Watcher<'_> {
    fn watch(
        &self,
        finished: &Receiver<Outcome<()>>,
        each: &mut dyn FnMut(Interval, &Ledger) -> Outcome<()>,
    ) -> Outcome<Worked> {
        let started = self.started;
        let deadline = self.pace.time().map(|time| started + time);
        let interval = self.pace.interval.max(Duration::from_millis(1));
        let (mut next, mut from) = (started + interval, started);
        let (mut ended, mut failed, mut ops) = (0, None, 0);
        let mut spares = [Ledger::default(), Ledger::default()];
        while ended < self.slots.len() {
            let now = Instant::now();
            let mut wake = next;
            if let Some(deadline) = deadline {
                if now >= deadline {
                    self.stop.store(true, Ordering::Relaxed);
                } else {
                    wake = wake.min(deadline);
                }
            }
            match finished.recv_timeout(wake.saturating_duration_since(now)) {
                Ok(outcome) => {
                    ended += 1;
                    if let Err(error) = outcome {
                        failed.get_or_insert(error);
                        self.stop.store(true, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    if now < next {
                        continue;
                    }
                    // The row at the deadline is the last one. It includes the operations that are
                    // running then.
                    if deadline.is_none_or(|deadline| next < deadline) {
                        ops += self.take(&mut spares).ops;
                        each(Interval { from, to: now, is_last: false }, &spares[1])?;
                        from = now;
                    }
                    next = following(next, now, interval);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let now = Instant::now();
        ops += self.take(&mut spares).ops;
        each(Interval { from, to: now, is_last: true }, &spares[1])?;
        let seconds = (now - started).as_secs_f64();
        failed.map_or(Ok(Worked { ops, seconds }), Err)
    }

    /// Returns what all threads did since the last call, in `spares[1]`. Each ledger is exchanged
    /// for an empty one, so that its thread waits for a moment only.
    fn take<'s>(&self, spares: &'s mut [Ledger; 2]) -> &'s Ledger {
        let [empty, sum] = spares;
        sum.clear();
        for slot in self.slots {
            empty.clear();
            std::mem::swap(&mut *slot.lock(), empty);
            sum.add(empty);
        }
        sum
    }
}

/// The time of the sample after one that was due at `due` and came at `now`. Samples keep to their
/// clock as long as that leaves 95 hundredths of an interval; after a later one the clock starts
/// again, so that only the last row of a phase is shorter.
fn following(due: Instant, now: Instant, interval: Duration) -> Instant {
    let next = due + interval;
    if next < now + interval.mul_f64(0.95) { now + interval } else { next }
}

#[cfg(test)]
mod tests {
    use super::super::meter::Tally;
    use super::*;
    use crate::record::OpKind;

    fn counts(n: usize) -> Crew<'static> {
        crew(n, |_| {
            |meter: &mut Meter<'_>| {
                meter.begin();
                meter.end(OpKind::Put, Tally::put(10));
                Ok(true)
            }
        })
    }

    const INTERVAL: Duration = Duration::from_millis(20);

    fn lasting(threads: usize, milliseconds: u64) -> Pace {
        let seconds = Duration::from_millis(milliseconds);
        Pace { threads, seconds, interval: INTERVAL, ..Pace::default() }
    }

    #[test]
    fn no_operation_is_lost_between_intervals() {
        let mut seen = (0, 0, 0);
        let pace = Pace { operations: Some(300_001), ..lasting(3, 1) };
        let worked = work(&pace, counts(3), &mut |_, ledger| {
            seen.0 += ledger.ops;
            seen.1 += ledger.user_bytes;
            seen.2 += ledger.latencies().map(|(_, latency)| latency.count).sum::<u64>();
            Ok(())
        });
        assert_eq!(worked.unwrap().ops, 300_001);
        assert_eq!(seen, (300_001, 3_000_010, 300_001));
    }

    #[test]
    fn time_ends_a_phase_and_rows_come_until_then() {
        let (mut rows, mut time) = (0, 0.0);
        let pace = lasting(2, 100);
        let worked = work(&pace, counts(2), &mut |interval, _| {
            rows += 1;
            time += (interval.to - interval.from).as_secs_f64();
            Ok(())
        });
        let seconds = worked.unwrap().seconds;
        assert!(seconds >= 0.1);
        assert!((time - seconds).abs() < 1e-6, "rows of {time} s in {seconds} s");
        assert!((1..=5).contains(&rows), "{rows}");
    }

    #[test]
    fn a_late_sample_shortens_no_row_after_it() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(following(at(1000), at(1003), second), at(2000));
        assert_eq!(following(at(1000), at(1050), second), at(2000));
        assert_eq!(following(at(1000), at(1700), second), at(2700));
        assert_eq!(following(at(1000), at(5500), second), at(6500));
    }

    #[test]
    fn rows_after_late_samples_are_whole_intervals_but_for_the_last() {
        let mut rows = Vec::new();
        let pace = lasting(1, 400);
        let late = pace.interval.mul_f64(1.7);
        let worked = work(&pace, counts(1), &mut |interval, _| {
            rows.push((interval.to - interval.from, interval.is_last));
            std::thread::sleep(late);
            Ok(())
        });
        assert!(worked.is_ok());
        let (last, whole) = rows.split_last().unwrap();
        assert!(last.1 && !whole.iter().any(|row| row.1), "{rows:?}");
        assert!(whole.iter().all(|row| row.0 >= pace.interval.mul_f64(0.9)), "{rows:?}");
    }

    #[test]
    fn an_error_of_one_worker_stops_all_and_is_told() {
        let mut workers = counts(2);
        let mut steps = 0;
        workers.push(Box::new(move |_| {
            steps += 1;
            if steps > 1000 { Err("the value of key 7 is wrong".into()) } else { Ok(true) }
        }));
        let pace = Pace { until_done: true, ..lasting(3, 1) };
        let failed = work(&pace, workers, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(failed.to_string(), "the value of key 7 is wrong");
    }
}
