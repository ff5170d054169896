//! Takes the first entry of a queue and removes it, until the queue is empty or the time is over.

use super::comments::comments_of;
use super::fill::{FilledStore, check_free, state};
use super::{Case, Opened, Take};
use crate::engine::{Comment, CommentIndex, Engine, Outcome, Question};
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Tally, crew};
use std::sync::atomic::{AtomicU64, Ordering};

/// Documents of one transaction while the store is filled.
const BATCH: usize = 1000;
/// The subreddit of all documents.
const JOBS: &str = "jobs";

/// Fills a store; then each thread takes the next entry, and removes it: an operation is an entry
/// that this thread has removed, its latency that of the scan and the remove, including those in
/// vain because another thread was faster. Figures: `us_per_job`, of wall time; `left`: entries
/// that nobody took in the time.
pub(super) fn dequeues(case: &Case<'_>) -> Outcome<Summary> {
    let options = case.options;
    let (records, which) = (options.records, options.take);
    let opened = match which {
        Take::First | Take::Last => FilledStore::as_written(case, records)?.opened,
        Take::Index => documents(case)?,
    };
    let engine = &*opened.engine;
    let state = state(engine, records, "as they were written a moment ago");
    let mut recorder = case.record(&opened, &state)?;
    let held = if options.snapshot { Some(engine.snapshot()?) } else { None };
    let taken = AtomicU64::new(0);
    let workers = crew(options.pace.threads, |_| {
        let (mut key, taken) = (Vec::new(), &taken);
        move |meter: &mut Meter<'_>| {
            meter.begin();
            if !take(engine, which, &mut key)? {
                return Ok(false);
            }
            meter.end(OpKind::Delete, Tally::found(true));
            taken.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        }
    });
    let worked = recorder.run(engine, &options.pace, workers)?;
    drop(held);
    let taken = taken.load(Ordering::Relaxed);
    let mut left = 0;
    match which {
        Take::First | Take::Last => {
            engine.scan(&[], usize::MAX, &mut |_, _| left += 1)?;
        }
        Take::Index => left = comments_of(engine)?.ask(Question::Subreddit(JOBS), &mut |_| {})?,
    }
    // Two threads may both count an entry where `remove` is a get and a delete.
    if taken + left < records {
        return Err(format!("{taken} of {records} entries were taken, and {left} are left").into());
    }
    recorder.figure("us_per_job", worked.seconds * 1e6 / taken.max(1) as f64);
    recorder.figure("left", left as f64);
    case.stage.finish(opened, recorder)
}

/// Takes the next entry, and removes it. Returns false if there is none.
fn take(engine: &dyn Engine, which: Take, key: &mut Vec<u8>) -> Outcome<bool> {
    loop {
        let is_there = match which {
            Take::Index => return comments_of(engine)?.take_first(),
            Take::Last => engine.last(key)?,
            Take::First => {
                let scanned = engine.scan(&[], 1, &mut |first, _value| {
                    key.clear();
                    key.extend_from_slice(first);
                })?;
                scanned > 0
            }
        };
        if !is_there {
            return Ok(false);
        }
        if engine.remove(key)? {
            return Ok(true);
        }
    }
}

/// Opens an empty store and fills it with documents, in another order than that of their index.
fn documents(case: &Case<'_>) -> Outcome<Opened> {
    let (records, data) = (case.options.records, &case.options.data);
    let opened = case.stage.open_fresh(&case.options.store)?;
    check_free(&opened.place.data(), records.saturating_mul(data.entry_bytes()).saturating_mul(4))?;
    let store = comments_of(&*opened.engine)?;
    store.create_index(CommentIndex::Created)?;
    let body = "x".repeat(data.value_bytes);
    for from in (0..records).step_by(BATCH) {
        let made = (from..records).take(BATCH).map(|number| {
            let at = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 12;
            let key = format!("{number:08}");
            let json = format!(
                r#"{{"id":"{key}","subreddit":"{JOBS}","created_utc":{at},"body":"{body}"}}"#
            );
            (key, json)
        });
        let made: Vec<_> = made.collect();
        let comments: Vec<_> = made.iter().map(|(key, json)| Comment { key, json }).collect();
        store.write(&comments)?;
    }
    Ok(opened)
}
