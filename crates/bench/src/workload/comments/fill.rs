//! A store filled with generated comments before anything is measured.

use super::facts::{CommentTally, Facts, each_comment};
use crate::engine::{Comment, CommentIndex, CommentStore, Engine, Outcome};
use crate::workload::fill::check_free;
use crate::workload::{Case, Opened};
use flagstone_comments::Comments;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Comments of one transaction.
const BATCH: u64 = 1000;
/// Threads that fill a store before anything is measured.
const FILLERS: usize = 2;
/// The mean length of a comment as JSON, in bytes.
const COMMENT_BYTES: u64 = 1300;

/// An open store of comments.
pub(super) struct Filled {
    pub(super) opened: Opened,
    pub(super) facts: Facts,
    /// Comments inserted a second, indexes that were there included.
    pub(super) fill_per_s: f64,
}

/// Returns the comments of `engine`.
pub(in super::super) fn comments_of(engine: &dyn Engine) -> Outcome<&dyn CommentStore> {
    Ok(engine.comments().ok_or("this engine keeps no comments: see flagstone-peers list")?)
}

/// Opens an empty store and inserts comments `0..comments`.
pub(super) fn fill(case: &Case<'_>, comments: u64) -> Outcome<Filled> {
    let opened = case.stage.open_fresh(&case.options.store)?;
    check_free(&opened.place.data(), comments.saturating_mul(COMMENT_BYTES).saturating_mul(3))?;
    let made = Comments::new(case.options.data.seed);
    let started = Instant::now();
    let tally = insert(comments_of(&*opened.engine)?, &made, 0..comments)?;
    let fill_per_s = comments as f64 / started.elapsed().as_secs_f64().max(1e-9);
    opened.engine.flush()?;
    Ok(Filled { opened, facts: Facts::new(comments, tally), fill_per_s })
}

/// Inserts the comments of `numbers` with several threads.
fn insert(store: &dyn CommentStore, made: &Comments, numbers: Range<u64>) -> Outcome<CommentTally> {
    let next = AtomicU64::new(numbers.start);
    let filler = || {
        let mut tally = CommentTally::default();
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= numbers.end {
                return Ok(tally);
            }
            write_batch(store, made, from..numbers.end.min(from + BATCH), &mut tally)?;
        }
    };
    std::thread::scope(|scope| {
        let fillers: Vec<_> = (0..FILLERS).map(|_| scope.spawn(filler)).collect();
        let mut all = CommentTally::default();
        for filler in fillers {
            let tally: Outcome<CommentTally> =
                filler.join().unwrap_or_else(|_panic| Err("a thread panicked".into()));
            all.unite(tally?);
        }
        Ok(all)
    })
}

fn write_batch(
    store: &dyn CommentStore,
    made: &Comments,
    numbers: Range<u64>,
    tally: &mut CommentTally,
) -> Outcome<()> {
    let mut texts = Vec::new();
    each_comment(made, numbers, &mut |key, json| {
        tally.add(json)?;
        texts.push((key.to_owned(), json.to_owned()));
        Ok(())
    })?;
    let comments: Vec<_> = texts.iter().map(|(key, json)| Comment { key, json }).collect();
    store.write(&comments)
}

/// Creates the first `count` indexes. Returns the seconds that it took.
pub(super) fn create_indexes(store: &dyn CommentStore, count: usize) -> Outcome<f64> {
    let started = Instant::now();
    CommentIndex::ALL.iter().take(count).try_for_each(|index| store.create_index(*index))?;
    Ok(started.elapsed().as_secs_f64())
}
