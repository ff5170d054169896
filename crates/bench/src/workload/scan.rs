//! Scans: of a whole store of small entries, and of few entries while others are inserted.

use super::caller::{Caller, head};
use super::fill::FilledStore;
use super::{Case, Distribution, Keys, Zipf, random};
use crate::engine::{Engine, Outcome};
use crate::options::Pace;
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Tally, crew};

/// Entries of a scan that are timed as one.
const PIECE: u64 = 1 << 16;

/// Fills a store with small entries, compacts it, and lets each thread scan all of it again and
/// again: an operation is an entry, a latency that of 65,536 of them. Order, number and a checksum
/// of the keys are checked. Figure: `entries_per_s`.
pub(super) fn full_scans(case: &Case<'_>) -> Outcome<Summary> {
    let (records, rounds) = (case.options.records, case.options.rounds);
    let pace = &case.options.pace;
    let filled = FilledStore::compacted(case, records)?;
    let state = filled.state("compacted");
    let expected = sum_of_keys(&case.options.data.keys(), records);
    let mut recorder = case.record(&filled.opened, &state)?;
    let engine = &*filled.opened.engine;
    let workers = crew(pace.threads, |_| {
        let mut left = rounds;
        move |meter: &mut Meter<'_>| {
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            scan_all(engine, records, expected, meter).map(|()| true)
        }
    });
    let pace = Pace { interval: pace.interval, ..Pace::unwatched(pace.threads) };
    let worked = recorder.run(engine, &pace, workers)?;
    recorder.figure("entries_per_s", worked.ops_per_s());
    case.stage.finish(filled.opened, recorder)
}

fn sum_of_keys(keys: &Keys, records: u64) -> u64 {
    let mut key = Vec::new();
    (0..records).fold(0, |sum: u64, number| {
        keys.write(number, &mut key);
        sum.wrapping_add(head(&key))
    })
}

/// Scans everything and checks it: the sum of the keys must be `expected`.
fn scan_all(
    engine: &dyn Engine,
    records: u64,
    expected: u64,
    meter: &mut Meter<'_>,
) -> Outcome<()> {
    let (mut sum, mut last, mut count, mut is_ordered) = (0_u64, 0, 0_u64, true);
    let tell = |meter: &mut Meter<'_>, entries: u64| {
        meter.end(OpKind::Scan, Tally { ops: entries, scanned: entries, ..Tally::ONE });
        meter.begin();
    };
    meter.begin();
    engine.scan(&[], usize::MAX, &mut |key, _value| {
        let head = head(key);
        is_ordered &= head >= last;
        last = head;
        sum = sum.wrapping_add(head);
        count += 1;
        if count.is_multiple_of(PIECE) {
            tell(meter, PIECE);
        }
    })?;
    tell(meter, count % PIECE);
    if (count, sum, is_ordered) == (records, expected, true) {
        return Ok(());
    }
    let order = if is_ordered { "in order" } else { "out of order" };
    let keys = if sum == expected { "right" } else { "wrong" };
    Err(format!("wrong scan: {count} entries of {records}, {order}, keys {keys}").into())
}

/// Fills a store; then each thread scans from a random record and inserts a new one, half and half.
/// Figures: `scans_per_s`, `inserts_per_s`.
pub(super) fn short_scans(case: &Case<'_>) -> Outcome<Summary> {
    let (options, threads) = (case.options, case.options.pace.threads as u64);
    let (filled, state) = FilledStore::ready(case)?;
    let mut recorder = case.record(&filled.opened, &state)?;
    let engine = &*filled.opened.engine;
    let records = options.records;
    let zipf = (options.distribution == Distribution::Zipfian).then(|| Zipf::new(records));
    let workers = crew(options.pace.threads, |thread| {
        let (mut caller, zipf) = (Caller::new(engine, &options.data, &filled.values), &zipf);
        let mut random = random(options.data.seed, thread);
        // The record that this thread inserts next.
        let mut next = records + thread;
        move |meter: &mut Meter<'_>| {
            if random.below(2) == 0 {
                let from = match zipf {
                    Some(zipf) => zipf.draw(&mut random),
                    None => random.below(records),
                };
                caller.scan(from, options.limit, meter)?;
            } else {
                caller.put(next, 0, meter)?;
                next += threads;
            }
            Ok(true)
        }
    });
    let worked = recorder.run(engine, &options.pace, workers)?;
    for (kind, name) in [(OpKind::Scan, "scans_per_s"), (OpKind::Put, "inserts_per_s")] {
        let done = recorder.totals().latencies().find(|(of, _)| *of == kind);
        let count = done.map_or(0, |(_, latency)| latency.count);
        recorder.figure(name, count as f64 / worked.seconds.max(1e-9));
    }
    case.stage.finish(filled.opened, recorder)
}
