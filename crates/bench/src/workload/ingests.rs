//! Puts beside ingests: what an ingest costs the writers of the same keyspace.

use super::caller::Caller;
use super::fill::FilledStore;
use super::{Case, Values, random};
use crate::engine::{Engine, Outcome};
use crate::options::Pace;
use crate::record::{Latency, OpKind, Summary};
use crate::run::{Crew, Ledger, Meter, crew};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The ingests of a trial, one after another.
const ROUNDS: u64 = 3;

/// Fills a store, and replaces records for a time; then replaces records while sorted entries
/// with other keys of the same range are ingested, three times. Figures: `put_p99_alone_us`,
/// `put_p99_beside_us` and their quotient `put_p99_times`; `put_max_alone_us`,
/// `put_max_beside_us`; `puts_alone_per_s`, `puts_beside_per_s`; `ingested_per_s`, entries by the
/// time of the ingests.
pub(super) fn ingests_beside_writes(case: &Case<'_>) -> Outcome<Summary> {
    let (options, pace) = (case.options, &case.options.pace);
    let (filled, state) = FilledStore::ready(case)?;
    let mut recorder = case.record(&filled.opened, &state)?;
    let (engine, values) = (&*filled.opened.engine, &filled.values);
    let is_over = AtomicBool::new(false);
    let puts = |phase| puts(case, engine, values, phase, &is_over);
    let worked_alone = recorder.run(engine, pace, puts(0))?;
    let alone = latency_of_puts(recorder.phase());
    let until_done = Pace { interval: pace.interval, ..Pace::unwatched(pace.threads) };
    let (ingested, worked) = std::thread::scope(|scope| {
        let ingesting = scope.spawn(|| {
            let _ends = EndsWhenDropped(&is_over);
            ingest(engine, case, values)
        });
        let worked = recorder.run(engine, &until_done, puts(1));
        let ingested = ingesting.join().unwrap_or_else(|_panic| Err("an ingest panicked".into()));
        ingested.and_then(|ingested| Ok((ingested, worked?)))
    })?;
    let beside = latency_of_puts(recorder.phase());
    for (name, value) in [
        ("put_p99_alone_us", alone.p99),
        ("put_p99_beside_us", beside.p99),
        ("put_p99_times", beside.p99 / alone.p99.max(1e-9)),
        ("put_max_alone_us", alone.max),
        ("put_max_beside_us", beside.max),
        ("puts_alone_per_s", worked_alone.ops_per_s()),
        ("puts_beside_per_s", worked.ops_per_s()),
        ("ingested_per_s", (ROUNDS * options.ingest_records) as f64 / ingested.as_secs_f64()),
    ] {
        recorder.figure(name, value);
    }
    case.stage.finish(filled.opened, recorder)
}

/// Ends the puts however the ingests end.
struct EndsWhenDropped<'a>(&'a AtomicBool);

impl Drop for EndsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Workers that replace records, until the time is over or the ingests are done.
fn puts<'e>(
    case: &Case<'e>,
    engine: &'e dyn Engine,
    values: &'e Values,
    phase: u64,
    is_over: &'e AtomicBool,
) -> Crew<'e> {
    let options = case.options;
    crew(options.pace.threads, |thread| {
        let mut caller = Caller::new(engine, &options.data, values);
        let mut random = random(options.data.seed.wrapping_add(phase), thread);
        move |meter: &mut Meter<'_>| {
            if is_over.load(Ordering::Relaxed) {
                return Ok(false);
            }
            caller.put(random.below(options.records), random.bits(), meter)?;
            Ok(true)
        }
    })
}

/// Ingests entries that are spread evenly over all keys, three times. Returns the time.
fn ingest(engine: &dyn Engine, case: &Case<'_>, values: &Values) -> Outcome<Duration> {
    let (records, bytes) = (case.options.ingest_records, case.options.data.key_bytes);
    let began = Instant::now();
    let step = u64::MAX / records;
    for round in 0..ROUNDS {
        let mut value = Vec::new();
        let mut entries = (0..records).map(|number| {
            // Hardly any of them is the key of a record: those are random.
            let head = number * step + round * (step / ROUNDS);
            let mut key = vec![0; bytes];
            key[..8].copy_from_slice(&head.to_be_bytes());
            values.write(number, round, &mut value);
            (key, value.clone())
        });
        engine.ingest(&mut entries)?;
    }
    Ok(began.elapsed())
}

fn latency_of_puts(ledger: &Ledger) -> Latency {
    let puts = ledger.latencies().find(|(kind, _)| *kind == OpKind::Put);
    puts.map(|(_, latency)| latency).unwrap_or_default()
}
