//! Replaces records again and again, or puts them at one end of a queue and deletes them at the
//! other, and compares the space of the store with its live bytes, second by second.

use super::caller::Caller;
use super::fill::FilledStore;
use super::{Case, Pattern, random};
use crate::engine::Outcome;
use crate::record::{RowLine, Summary};
use crate::run::{Meter, Recorder, crew};
use crate::sample::DirectoryBytes;
use std::time::{Duration, Instant};

/// The space amplification to which the store must shrink after the last write.
const RESTED: f64 = 1.3;
/// The time between two samples of the space amplification.
const REST_STEP: Duration = Duration::from_millis(200);

/// Fills and compacts a store, whose size then counts as the live bytes, and replaces records until
/// the time is over. Figures: `live_bytes`; `space_mean` and `space_max` over the rows: bytes
/// without the log divided by the live bytes; `rest_s`: seconds after the last write until that
/// ratio is 1.3, at most 10 s plus 1 s per 100 MB of live data; `space_rested`: the ratio then.
pub(super) fn overwrites(case: &Case<'_>) -> Outcome<Summary> {
    let (options, threads) = (case.options, case.options.pace.threads as u64);
    let filled = FilledStore::compacted(case, options.records)?;
    let state = filled.state("compacted");
    let mut recorder = case.record(&filled.opened, &state)?;
    let live = DirectoryBytes::of(recorder.dir()).data().max(1);
    recorder.figure("live_bytes", live as f64);
    let engine = &*filled.opened.engine;
    let workers = crew(options.pace.threads, |thread| {
        let mut caller = Caller::new(engine, &options.data, &filled.values);
        let (mut random, mut version) = (random(options.data.seed, thread), 1_u64);
        // Of a queue: the thread's oldest record, and the one that it puts next.
        let mut oldest = thread;
        let mut next = options.records.next_multiple_of(threads) + thread;
        move |meter: &mut Meter<'_>| {
            version += 1;
            match options.pattern {
                Pattern::Random => {
                    caller.put(random.below(options.records), version, meter)?;
                }
                Pattern::Queue if version.is_multiple_of(2) => {
                    caller.put(next, 0, meter)?;
                    next += threads;
                }
                Pattern::Queue => {
                    caller.delete(oldest, meter)?;
                    oldest += threads;
                }
            }
            Ok(true)
        }
    });
    recorder.run(engine, &options.pace, workers)?;
    let data = |row: &RowLine| row.disk_bytes.saturating_sub(row.log_bytes);
    let ratios = recorder.rows().iter().map(|row| data(row) as f64 / live as f64);
    let ratios: Vec<f64> = ratios.collect();
    recorder.figure("space_mean", ratios.iter().sum::<f64>() / ratios.len().max(1) as f64);
    recorder.figure("space_max", ratios.iter().copied().fold(0.0, f64::max));
    rest(&mut recorder, live);
    case.stage.finish(filled.opened, recorder)
}

/// Waits until the store has removed its garbage, or the time for that is over.
fn rest(recorder: &mut Recorder<'_>, live: u64) {
    let began = Instant::now();
    let most = Duration::from_secs_f64(10.0 + live as f64 / 1e8);
    let space =
        |recorder: &Recorder<'_>| DirectoryBytes::of(recorder.dir()).data() as f64 / live as f64;
    while space(recorder) > RESTED && began.elapsed() < most {
        std::thread::sleep(REST_STEP);
    }
    recorder.figure("rest_s", began.elapsed().as_secs_f64());
    let rested = space(recorder);
    recorder.figure("space_rested", rested);
}
