//! Keys with any number of values, as the origin's multi-value store kept them: author -> ids of
//! comments, subreddit -> ids. Here an entry is the key, a zero byte and the id.

use super::facts::{Fields, each_comment};
use crate::engine::{Engine, EngineError, Outcome};
use crate::options::Pace;
use crate::record::{OpKind, Summary};
use crate::run::{Crew, Meter, Probe, Tally, crew, work};
use crate::workload::options::PostedBy;
use crate::workload::{Case, random};
use flagstone_comments::Comments;
use std::collections::HashMap;
use std::time::Instant;

/// Puts all entries one by one, flushes and compacts, and then reads all values of keys drawn at
/// random, each as often as any other; their number is checked. An operation is a key. Figures:
/// `put_per_s`; `stored_bytes_per_entry` (tables, if the engine reports them) beside
/// `bytes_per_entry` (what was put); `keys`; `values_per_s`; `largest_key_values`, and
/// `largest_key_s`, the seconds in which the values of the key that has most are read.
pub(in crate::workload) fn postings(case: &Case<'_>) -> Outcome<Summary> {
    let (options, threads) = (case.options, case.options.pace.threads);
    let all = Postings::new(options.data.seed, options.documents.comments, options.documents.by)?;
    let opened = case.stage.open_fresh(&options.store)?;
    let engine = &*opened.engine;
    let mut recorder = case.record(&opened, "an empty store")?;
    let filling = Pace { interval: options.pace.interval, ..Pace::unwatched(threads) };
    let worked = recorder.run(engine, &filling, all.puts(engine, threads))?;
    recorder.figure("put_per_s", worked.ops_per_s());
    recorder.aside("flush", &Probe::NONE, |_| engine.flush())?;
    recorder.aside("compact", &Probe::NONE, |_| engine.compact())?;
    let stored: u64 = engine.gauges().level_bytes.iter().sum();
    let entries = all.of.len() as f64;
    recorder.figure("bytes_per_entry", all.put_bytes() as f64 / entries);
    if stored > 0 {
        recorder.figure("stored_bytes_per_entry", stored as f64 / entries);
    }
    recorder.figure("keys", all.keys.len() as f64);

    let (largest, values) = all.largest();
    // Once before, so that it is in the caches.
    all.read(engine, largest)?;
    let started = Instant::now();
    all.read(engine, largest)?;
    recorder.figure("largest_key_s", started.elapsed().as_secs_f64());
    recorder.figure("largest_key_values", f64::from(values));

    let before = recorder.totals().scanned;
    let warm = Pace { operations: Some(all.keys.len() as u64), ..Pace::unwatched(threads) };
    work(&warm, all.reads(engine, threads, !options.data.seed), &mut |_, _| Ok(()))?;
    let reads = all.reads(engine, threads, options.data.seed);
    let worked = recorder.run(engine, &options.pace, reads)?;
    let scanned = recorder.totals().scanned - before;
    recorder.figure("values_per_s", scanned as f64 / worked.seconds.max(1e-9));
    recorder.figure("keys_per_s", worked.ops_per_s());
    case.stage.finish(opened, recorder)
}

/// Which comments belong to which key.
struct Postings {
    comments: Comments,
    /// Each key with the number of its values, sorted.
    keys: Vec<(String, u32)>,
    /// The place in `keys` of the key of each comment.
    of: Vec<u32>,
}

impl Postings {
    fn new(seed: u64, comments: u64, by: PostedBy) -> Outcome<Self> {
        let made = Comments::new(seed);
        let (mut places, mut keys, mut of) = (HashMap::new(), Vec::new(), Vec::new());
        each_comment(&made, 0..comments, &mut |_, json| {
            let fields = Fields::of(json)?;
            let key = match by {
                PostedBy::Author => fields.author,
                PostedBy::Subreddit => fields.subreddit,
            };
            let place = match places.get(&*key) {
                Some(place) => *place,
                None => {
                    let place = u32::try_from(keys.len())?;
                    keys.push((key.to_string(), 0));
                    places.insert(key.into_owned(), place);
                    place
                }
            };
            keys[place as usize].1 += 1;
            of.push(place);
            Ok(())
        })?;
        Ok(Self { comments: made, keys, of })
    }

    /// The place of the key that has the most values, and their number.
    fn largest(&self) -> (usize, u32) {
        let counts = self.keys.iter().map(|(_, count)| *count).enumerate();
        counts.max_by_key(|(_, count)| *count).unwrap_or_default()
    }

    /// Bytes of all entries.
    fn put_bytes(&self) -> u64 {
        let of_key = |place: &u32| self.keys[*place as usize].0.len() as u64 + 1;
        let id = self.comments.key(0).as_bytes().len() as u64;
        self.of.iter().map(|place| of_key(place) + id).sum()
    }

    /// Workers that put each entry once, in the order of the comments.
    fn puts<'e>(&'e self, engine: &'e dyn Engine, threads: usize) -> Crew<'e> {
        crew(threads, |thread| {
            let (mut key, mut next) = (Vec::new(), thread as usize);
            move |meter: &mut Meter<'_>| {
                let Some(place) = self.of.get(next) else { return Ok(false) };
                self.begin_of(*place as usize, &mut key);
                key.extend_from_slice(self.comments.key(next as u64).as_bytes());
                next += threads;
                meter.begin();
                engine.put(&key, &[])?;
                meter.end(OpKind::Put, Tally::put(key.len()));
                Ok(true)
            }
        })
    }

    /// Workers that read all values of keys drawn at random.
    fn reads<'e>(&'e self, engine: &'e dyn Engine, threads: usize, seed: u64) -> Crew<'e> {
        crew(threads, |thread| {
            let mut random = random(seed, thread);
            move |meter: &mut Meter<'_>| {
                let place = random.below(self.keys.len() as u64) as usize;
                meter.begin();
                let values = self.read(engine, place)?;
                meter.end(OpKind::Scan, Tally::scanned(values));
                Ok(true)
            }
        })
    }

    /// Reads all values of a key: until an entry of another key follows. Returns their number,
    /// which it checks.
    fn read(&self, engine: &dyn Engine, place: usize) -> Outcome<usize> {
        let mut from = Vec::new();
        self.begin_of(place, &mut from);
        let expected = self.keys[place].1 as usize;
        let mut found = 0;
        engine.scan(&from, expected + 1, &mut |key, _| {
            found += usize::from(key.len() > from.len() && key.starts_with(&from));
        })?;
        if found == expected { Ok(found) } else { Err(self.wrong(place, found)) }
    }

    /// Writes what all entries of a key begin with.
    fn begin_of(&self, place: usize, to: &mut Vec<u8>) {
        to.clear();
        to.extend_from_slice(self.keys[place].0.as_bytes());
        to.push(0);
    }

    #[cold]
    fn wrong(&self, place: usize, found: usize) -> EngineError {
        let (key, expected) = &self.keys[place];
        format!("wrong answer: {key} has {found} values, expected {expected}").into()
    }
}
