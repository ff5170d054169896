//! Queries over comments. The number of rows of each result is checked.

use super::facts::Facts;
use super::fill::{Filled, comments_of, create_indexes, fill};
use crate::engine::{CommentStore, EngineError, Outcome, Question};
use crate::options::Pace;
use crate::record::{OpKind, Summary};
use crate::run::{Crew, Meter, Tally, crew, work};
use crate::workload::options::Asks;
use crate::workload::{Case, Random, Trials, random};
use flagstone_comments::Comments;
use std::hint::black_box;

/// Indexes that questions use: by author, and by subreddit and score.
const INDEXES: usize = 2;
/// Comments of a `best` question.
const BEST: u64 = 10;
/// Seconds before which a `best` question's comments are left out, at most: half a day.
const WITHIN: i64 = 12 * 3600;

/// Trials of questions on one store.
pub(in crate::workload) struct Questions {
    filled: Filled,
    index_s: f64,
}

impl Questions {
    /// Fills a store, creates the indexes, compacts all.
    pub(in crate::workload) fn begin(case: &Case<'_>) -> Outcome<Box<dyn Trials>> {
        let filled = fill(case, case.options.documents.comments)?;
        let engine = &*filled.opened.engine;
        let index_s = create_indexes(comments_of(engine)?, INDEXES)?;
        engine.flush()?;
        engine.compact()?;
        Ok(Box::new(Self { filled, index_s }))
    }
}

impl Trials for Questions {
    /// Asks one kind of question with random values. Figures: `rows_per_s`; `fill_per_s` (comments
    /// a second into a store without indexes), `index_s` (seconds to create the indexes).
    fn run(&mut self, case: &Case<'_>) -> Outcome<Summary> {
        let Filled { opened, facts, fill_per_s } = &self.filled;
        let (pace, asks) = (&case.options.pace, case.options.documents.question);
        let store = comments_of(&*opened.engine)?;
        let seed = case.options.data.seed;
        let asker = Asker { store, facts, made: Comments::new(seed), asks };
        // What fits the caches is in them.
        let warm = Pace { operations: Some(asker.warm_up()), ..Pace::unwatched(pace.threads) };
        work(&warm, asker.crew(pace.threads, !seed), &mut |_, _| Ok(()))?;
        let state = format!("{} comments, {INDEXES} indexes, compacted", facts.comments);
        let mut recorder = case.record(opened, &state)?;
        let worked = recorder.run(&*opened.engine, pace, asker.crew(pace.threads, seed))?;
        let rows = recorder.totals().scanned as f64;
        recorder.figure("rows_per_s", rows / worked.seconds.max(1e-9));
        recorder.figure("fill_per_s", *fill_per_s);
        recorder.figure("index_s", self.index_s);
        recorder.finish()
    }

    fn end(self: Box<Self>, keep: bool) -> Outcome<()> {
        let opened = self.filled.opened;
        opened.engine.close()?;
        if keep { Ok(()) } else { opened.place.remove() }
    }
}

/// Draws queries of one kind and checks their results.
#[derive(Clone, Copy)]
struct Asker<'a> {
    store: &'a dyn CommentStore,
    facts: &'a Facts,
    made: Comments,
    asks: Asks,
}

impl<'a> Asker<'a> {
    /// Questions before the clock starts, by all threads.
    fn warm_up(&self) -> u64 {
        match self.asks {
            Asks::Key | Asks::Rare => self.facts.comments.min(200_000),
            Asks::Popular | Asks::Covered => 2 * self.facts.popular.len() as u64,
            Asks::Best => self.facts.comments.min(1000),
            Asks::Groups => 2,
        }
    }

    fn crew(self, threads: usize, seed: u64) -> Crew<'a> {
        crew(threads, |thread| {
            let mut random = random(seed, thread);
            move |meter: &mut Meter<'_>| self.ask(&mut random, meter).map(|()| true)
        })
    }

    fn ask(&self, random: &mut Random, meter: &mut Meter<'_>) -> Outcome<()> {
        let Facts { comments, rare, popular, groups, times } = self.facts;
        let mut below = |n: usize| random.below(n.max(1) as u64) as usize;
        match self.asks {
            Asks::Key => {
                let key = self.made.key(below(*comments as usize) as u64);
                self.expect(Question::Key(key.as_str()), Some(1), meter)
            }
            Asks::Rare => {
                let (author, count) = rare.get(below(rare.len())).ok_or_else(no_comments)?;
                self.expect(Question::Author(author), Some(*count), meter)
            }
            Asks::Popular | Asks::Covered => {
                let at = below(popular.len());
                let (subreddit, count) = popular.get(at).ok_or_else(no_comments)?;
                let question = match self.asks {
                    Asks::Covered => Question::Scores(subreddit),
                    _ => Question::Subreddit(subreddit),
                };
                self.expect(question, Some(count.comments), meter)
            }
            Asks::Best => {
                let (subreddit, _) = popular.get(below(popular.len())).ok_or_else(no_comments)?;
                let since = times.end - 1 - below(WITHIN as usize) as i64;
                let best = Question::Best { subreddit, score: 2, since, limit: BEST };
                self.expect(best, None, meter)
            }
            Asks::Groups => self.expect(Question::Groups, Some(groups.0), meter),
        }
    }

    /// Asks and counts the rows, of which `count` are expected, if that is known.
    fn expect(
        &self,
        question: Question<'_>,
        count: Option<u64>,
        meter: &mut Meter<'_>,
    ) -> Outcome<()> {
        let mut bytes = 0;
        meter.begin();
        let asked = self.store.ask(question, &mut |row| bytes += black_box(row).len());
        let rows = *asked.as_ref().unwrap_or(&0);
        meter.end(OpKind::Scan, Tally::scanned(rows as usize));
        asked?;
        let is_right = match count {
            Some(count) => rows == count && bytes > 0,
            None => rows <= BEST,
        };
        if is_right { Ok(()) } else { Err(wrong(question, rows, count)) }
    }
}

#[cold]
fn wrong(question: Question<'_>, rows: u64, count: Option<u64>) -> EngineError {
    let expected = count.map_or_else(|| format!("at most {BEST}"), |count| count.to_string());
    format!("wrong answer: {question:?} has {rows} rows, expected {expected}").into()
}

#[cold]
fn no_comments() -> EngineError {
    "there are too few comments to ask about".into()
}
