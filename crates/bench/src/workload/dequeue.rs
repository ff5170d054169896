//! Takes the first entry of a queue and removes it, until the queue is empty or the time is over.

use super::Case;
use super::fill::FilledStore;
use crate::engine::Outcome;
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Tally, crew};
use std::sync::atomic::{AtomicU64, Ordering};

/// Fills a store; then each thread takes the first entry in the order of the keys, and removes it:
/// an operation is an entry that this thread has removed, its latency that of the scan and the
/// remove, including those in vain because another thread was faster. Figures: `us_per_job`, of
/// wall time; `left`: entries that nobody took in the time.
pub(super) fn dequeues(case: &Case<'_>) -> Outcome<Summary> {
    let options = case.options;
    let filled = FilledStore::as_written(case, options.records)?;
    let state = filled.state("as they were written a moment ago");
    let mut recorder = case.record(&filled.opened, &state)?;
    let engine = &*filled.opened.engine;
    let taken = AtomicU64::new(0);
    let workers = crew(options.pace.threads, |_| {
        let (mut key, taken) = (Vec::new(), &taken);
        move |meter: &mut Meter<'_>| {
            meter.begin();
            loop {
                let scanned = engine.scan(&[], 1, &mut |first, _value| {
                    key.clear();
                    key.extend_from_slice(first);
                })?;
                if scanned == 0 {
                    return Ok(false);
                }
                if engine.remove(&key)? {
                    break;
                }
            }
            meter.end(OpKind::Delete, Tally::found(true));
            taken.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        }
    });
    let worked = recorder.run(engine, &options.pace, workers)?;
    let taken = taken.load(Ordering::Relaxed);
    let mut left = 0;
    engine.scan(&[], usize::MAX, &mut |_, _| left += 1)?;
    // Two threads may both count an entry where `remove` is a get and a delete.
    if taken + left < options.records {
        let records = options.records;
        return Err(format!("{taken} of {records} entries were taken, and {left} are left").into());
    }
    recorder.figure("us_per_job", worked.seconds * 1e6 / taken.max(1) as f64);
    recorder.figure("left", left as f64);
    case.stage.finish(filled.opened, recorder)
}
