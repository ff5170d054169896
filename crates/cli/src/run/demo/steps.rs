//! The steps of the demo, one after another, and the line that each prints.

use super::directory::{Directory, bytes_in};
use super::samples::Samples;
use super::{read, update};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::write_all;
use crate::progress::{Progress, rates};
use crate::run::collections::to_json;
use crate::run::stats;
use crate::units::{grouped, show_bytes};
use flagstone::internal::summary;
use flagstone::{Collection, Database, Options, Space};
use flagstone_comments::Comments;
use flagstone_load::{Input, Plan};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

const SEED: u64 = 1;
pub(super) const COLLECTION: &str = "comments";
/// A keyspace of a database that nobody has asked to keep: the next demo may remove what a killed
/// one has left.
pub(super) const PASSING: &str = "flagstone.demo";
const GETS: u64 = 200_000;
const UPDATES: u64 = 50_000;
const SCANNED: u64 = 10_000;

/// The demo, and the number of wrong results so far.
pub(super) struct Demo<'a> {
    count: u64,
    dir: &'a Path,
    keeps: bool,
    comments: Comments,
    threads: u64,
    wrong: u64,
}

impl<'a> Demo<'a> {
    pub(super) fn new(count: u64, directory: &'a Directory) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let (dir, keeps, comments) = (directory.path(), directory.keeps(), Comments::new(SEED));
        Self { count, dir, keeps, comments, threads, wrong: 0 }
    }

    pub(super) fn run(mut self) -> Result<(), Failure> {
        let started = Instant::now();
        let json_bytes = self.load()?;
        let (database, collection) = self.reopen()?;
        self.verify(&database, &collection)?;
        self.get(&collection)?;
        let increments = self.update(&collection)?;
        self.scan(&collection, &increments)?;
        self.compact(&database, json_bytes)?;
        self.scan(&collection, &increments)?;
        let table =
            stats::draw(&to_json(&summary::stats(&database.stats(), |name| name != PASSING))?);
        database.close()?;
        self.sizes(json_bytes)?;
        write_all(format!("\n{table}\n").as_bytes())?;
        if self.wrong > 0 {
            return Err(Failure::Check(format!("{} answers were wrong", grouped(self.wrong))));
        }
        let took = started.elapsed().as_secs_f64();
        write_all(format!("all answers were right; {took:.1} s in all\n").as_bytes())
    }

    /// Prints the result of a step. Ctrl-C ends the demo between steps.
    fn tell(&mut self, step: &str, text: &str, wrong: u64) -> Result<(), Failure> {
        self.wrong += wrong;
        let wrong = match wrong {
            0 => String::new(),
            wrong => format!("   {} WRONG", grouped(wrong)),
        };
        write_all(format!("{step:<9} {text}{wrong}\n").as_bytes())?;
        if interrupt::is_asked() {
            return Err(Failure::Interrupted(format!("stopped after the step `{step}`")));
        }
        Ok(())
    }

    fn load(&mut self) -> Result<u64, Failure> {
        let database = Database::open(self.dir)?;
        if !self.keeps {
            database.keyspace(PASSING)?;
        }
        let comments = self.comments;
        let make = move |numbers, lines: &mut Vec<u8>| comments.write_lines(numbers, lines);
        let inputs = vec![Input::made("comments", 0..self.count, Box::new(make))];
        let plan = Plan::new(&database, &database.collection(COLLECTION)?, inputs);
        let outcome = plan.run(&mut Progress::on_terminal())?;
        if let Some(failure) = outcome.failure {
            return Err(failure.into());
        }
        if outcome.is_interrupted {
            return Err(Failure::Interrupted("stopped while loading".into()));
        }
        let (count, took) = (outcome.count, outcome.took);
        let (documents, rates) = (grouped(count.documents), rates(took, count));
        let text = format!("{documents} comments generated and loaded: {rates} of JSON");
        self.tell("load", &text, count.documents.abs_diff(self.count))?;
        let started = Instant::now();
        database.close()?;
        self.tell("close", &format!("{:.1?}", started.elapsed()), 0)?;
        Ok(count.json_bytes)
    }

    fn reopen(&mut self) -> Result<(Database, Collection), Failure> {
        let started = Instant::now();
        let database =
            Database::builder(self.dir).options(Options::new().create_if_missing(false)).open()?;
        let took = started.elapsed();
        self.tell("reopen", &format!("{took:.1?}"), 0)?;
        let found = database.space(COLLECTION).existing().collection()?;
        let collection =
            found.ok_or_else(|| Failure::Check("the collection is gone after reopening".into()))?;
        Ok((database, collection))
    }

    fn verify(&mut self, database: &Database, collection: &Collection) -> Result<(), Failure> {
        let started = Instant::now();
        let report = database.verify()?;
        let count = collection.count()?;
        let text = format!(
            "{} tables and {} documents read in {:.1?}: all checksums, orders and bounds hold",
            grouped(report.tables),
            grouped(count),
            started.elapsed()
        );
        self.tell("verify", &text, count.abs_diff(self.count))
    }

    fn get(&mut self, collection: &Collection) -> Result<(), Failure> {
        let (count, comments, gets) = (self.count, self.comments, GETS / self.threads);
        let done = in_threads(self.threads, |thread| {
            read::random_gets(collection, comments, count, gets, thread)
        })?;
        let (mut samples, mut wrong) = (Samples::default(), 0);
        for (of_thread, wrong_of_thread) in done {
            samples.join(of_thread);
            wrong += wrong_of_thread;
        }
        let gets = grouped(gets * self.threads);
        self.tell(
            "get",
            &format!("{samples}   {gets} random keys, {} threads", self.threads),
            wrong,
        )
    }

    /// Increments scores. Returns by how much each was increased.
    fn update(&mut self, collection: &Collection) -> Result<BTreeMap<u64, i64>, Failure> {
        let (count, comments, updates) = (self.count, self.comments, UPDATES / self.threads);
        let choices = |thread| update::choices(count, updates, 1000 + thread);
        let done = in_threads(self.threads, |thread| {
            update::count_up(collection, comments, choices(thread))
        })?;
        let mut samples = Samples::default();
        done.into_iter().for_each(|of_thread| samples.join(of_thread));
        let mut increments = BTreeMap::new();
        for number in (0..self.threads).flat_map(choices) {
            *increments.entry(number).or_insert(0) += 1;
        }
        let wrong = update::check(collection, comments, &increments)?;
        let (updates, scores) = (grouped(updates * self.threads), grouped(increments.len() as u64));
        let text = format!("{samples}   {updates} increments of {scores} scores by all threads");
        self.tell("update", &text, wrong)?;
        Ok(increments)
    }

    fn scan(
        &mut self,
        collection: &Collection,
        increments: &BTreeMap<u64, i64>,
    ) -> Result<(), Failure> {
        let len = SCANNED.min(self.count);
        let start = (self.count - len) / 2;
        let added = |number| increments.get(&number).copied().unwrap_or(0);
        let numbers = start..start + len;
        let (took, wrong) = read::scan(collection, self.comments, numbers, added)?;
        let rate = grouped(crate::units::per_second(len, took));
        self.tell(
            "scan",
            &format!("{rate:>9} a second   {} documents in order", grouped(len)),
            wrong,
        )
    }

    fn compact(&mut self, database: &Database, json_bytes: u64) -> Result<(), Failure> {
        let started = Instant::now();
        database.compact()?;
        let took = started.elapsed();
        let bytes = database.stats().table_bytes();
        let text = format!("{took:.1?}; tables {}", ratio(bytes, json_bytes));
        self.tell("compact", &text, 0)
    }

    fn sizes(&mut self, json_bytes: u64) -> Result<(), Failure> {
        let bytes = bytes_in(self.dir).map_err(|error| Failure::io("read", self.dir, &error))?;
        let json = show_bytes(json_bytes);
        self.tell(
            "on disk",
            &format!("{} of JSON; all files {}", json, ratio(bytes, json_bytes)),
            0,
        )
    }
}

/// `93.1 MB, 24.5 % of the JSON`.
fn ratio(bytes: u64, json_bytes: u64) -> String {
    let percent = bytes as f64 * 100.0 / json_bytes.max(1) as f64;
    format!("{}, {percent:.1} % of the JSON", show_bytes(bytes))
}

/// The results of `run` in several threads.
fn in_threads<T: Send>(
    threads: u64,
    run: impl Fn(u64) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    std::thread::scope(|scope| {
        let run = &run;
        let spawned: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let joined = spawned.into_iter().map(|thread| thread.join());
        joined
            .map(|done| done.unwrap_or_else(|_panic| Err(Failure::Io("a thread panicked".into()))))
            .collect()
    })
}
