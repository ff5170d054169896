//! The creation of an index while writers continue.

use super::facts::each_comment;
use super::fill::{Filled, comments_of, fill};
use crate::engine::{Comment, CommentIndex, Outcome};
use crate::options::Pace;
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Recorder, Tally, Worker, crew};
use crate::workload::Case;
use flagstone_comments::Comments;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Fills a store; then writers insert comments, first alone for the time of the trial, then while
/// an index is created. Figures: `build_s`, `comments_per_s` (of the index), `alone_p99_us` and
/// `beside_p99_us` (of the inserts), `beside_per_s`.
pub(in crate::workload) fn builds(case: &Case<'_>) -> Outcome<Summary> {
    let (comments, pace) = (case.options.documents.comments, &case.options.pace);
    let Filled { opened, .. } = fill(case, comments)?;
    let engine = &*opened.engine;
    let store = comments_of(engine)?;
    let mut recorder = case.record(&opened, &format!("{comments} comments, flushed"))?;
    let (next, is_built) = (AtomicU64::new(comments), AtomicBool::new(false));
    let seed = case.options.data.seed;
    let writers = |threads| {
        crew(threads, |_| {
            let (made, next, is_built) = (Comments::new(seed), &next, &is_built);
            move |meter: &mut Meter<'_>| {
                let number = next.fetch_add(1, Ordering::Relaxed);
                each_comment(&made, number..number + 1, &mut |key, json| {
                    meter.begin();
                    let written = store.write(&[Comment { key, json }]);
                    meter.end(OpKind::Put, Tally::put(key.len() + json.len()));
                    written
                })?;
                Ok(!is_built.load(Ordering::Relaxed))
            }
        })
    };
    recorder.run(engine, pace, writers(pace.threads))?;
    let alone = p99_of_puts(&recorder);
    let mut build_s = 0.0;
    let builder: Worker<'_> = Box::new(|_meter: &mut Meter<'_>| {
        let started = Instant::now();
        let built = store.create_index(CommentIndex::SubredditScore);
        build_s = started.elapsed().as_secs_f64();
        // The writers end with it, also if it has failed.
        is_built.store(true, Ordering::Relaxed);
        built.map(|()| false)
    });
    let mut workers = writers(pace.threads);
    workers.push(builder);
    let beside = Pace { until_done: true, operations: None, threads: pace.threads + 1, ..*pace };
    let indexed = next.load(Ordering::Relaxed);
    let worked = recorder.run(engine, &beside, workers)?;
    let beside = p99_of_puts(&recorder);
    recorder.figure("build_s", build_s);
    recorder.figure("comments_per_s", indexed as f64 / build_s.max(1e-9));
    recorder.figure("alone_p99_us", alone);
    recorder.figure("beside_p99_us", beside);
    recorder.figure("beside_per_s", worked.ops_per_s());
    case.stage.finish(opened, recorder)
}

/// The 99th percentile of the puts of the last phase, in microseconds.
fn p99_of_puts(recorder: &Recorder<'_>) -> f64 {
    let puts = recorder.phase().latencies().find(|(kind, _)| *kind == OpKind::Put);
    puts.map_or(0.0, |(_, latency)| latency.p99)
}
