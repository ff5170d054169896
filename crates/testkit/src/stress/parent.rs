//! The parent: repeatedly starts a child, kills it at a random moment, and compares.

use super::batch::Source;
use super::compare::{Comparison, Expected};
use super::ledger;
use super::place::Mode;
use crate::rng::Rng;
use flagstone::Moment;
use flagstone::internal::env::{Clock, SystemClock};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The limits and the seed of a run.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The run ends after this time,
    pub time: Duration,
    /// or after this number of kills.
    pub ends: u64,
    /// The seed of the first child.
    pub seed: u64,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The number of kills or power cuts.
    pub ends: u64,
    /// The number of new databases.
    pub databases: u64,
    /// The number of acknowledged batches.
    pub commits: u64,
    /// The number of transfers between accounts.
    pub transfers: u64,
    /// The number of commits that found no room and were tried again.
    pub full: u64,
    /// The number of times that the file system was full and got room again.
    pub filled: u64,
    /// The number of children that found their database poisoned or their disk gone.
    pub gone: u64,
    /// The slowest open after a crash, and the sum of all.
    pub opened_in: (Duration, Duration),
}

impl Report {
    pub(super) fn add(&mut self, found: Comparison) {
        self.ends += 1;
        self.commits += found.commits;
        self.transfers += found.transfers;
        self.full += found.full;
        let (slowest, sum) = &mut self.opened_in;
        (*slowest, *sum) = ((*slowest).max(found.opened_in), *sum + found.opened_in);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ends, databases, commits, transfers, full, filled, gone, opened_in } = self;
        let mean = opened_in.1.as_secs_f64() * 1000.0 / (*ends).max(1) as f64;
        write!(
            f,
            "{ends} ends in {databases} databases, {commits} commits, {transfers} transfers; \
             disk full {filled} times, {full} commits refused by it; {gone} children ended before; \
             opened in {mean:.0} ms, at most {:.0} ms",
            opened_in.0.as_secs_f64() * 1000.0
        )
    }
}

/// The number of kills after which a new database begins.
const ENDS_OF_ONE: u64 = 40;

/// Starts and kills children that work below `dir` until the time is over or there were enough
/// kills.
///
/// # Errors
/// What was wrong, with the seed. The directory stays as it is.
pub fn kill(dir: &Path, asked: Asked, mut note: impl FnMut(&Report)) -> Result<Report, String> {
    let (mut report, started) = (Report::default(), Instant::now());
    while report.ends < asked.ends && started.elapsed() < asked.time {
        let seed = asked.seed + report.databases;
        let mut rng = Rng::new(seed);
        let place = Workplace::new(dir, &dir.join("db"), Mode::Kill, rng.between(1, 4) as usize);
        let source = source(seed);
        let mut expected = Expected::new(source, place.threads);
        report.databases += 1;
        for _ in 0..ENDS_OF_ONE {
            if report.ends >= asked.ends || started.elapsed() >= asked.time {
                break;
            }
            let mut child = place.start(source, rng.number());
            std::thread::sleep(moment(&mut rng));
            child.kill().unwrap();
            let status = child.wait().unwrap();
            let ended = match status.code() {
                Some(code) => Err(format!("the child ended by itself with code {code}")),
                None => Ok(()),
            };
            let marks = ledger::marks(&place.ledger, place.threads);
            let found = expected.compare(&place, &marks, &mut rng);
            let found = found.and_then(|found| ended.map(|()| found));
            report.add(found.map_err(|what| format!("seed {seed}: {what}"))?);
            note(&report);
        }
    }
    Ok(report)
}

/// Returns what decides the batches of a new database. In every second one entries expire.
pub(super) fn source(seed: u64) -> Source {
    let now = Moment::since_1970(SystemClock::default().wall());
    Source { seed, created: seed.is_multiple_of(2).then_some(now) }
}

/// Returns the time after which a child is killed: mostly at work, sometimes while it opens.
fn moment(rng: &mut Rng) -> Duration {
    let micros = match rng.below(10) {
        0 => rng.below(15_000),
        1..=8 => rng.between(15_000, 250_000),
        _ => rng.between(250_000, 1_500_000),
    };
    Duration::from_micros(micros)
}

/// The directories of the children.
pub(super) struct Workplace {
    pub(super) db: PathBuf,
    pub(super) ledger: PathBuf,
    pub(super) mode: Mode,
    pub(super) threads: usize,
}

impl Workplace {
    /// Creates empty directories.
    pub(super) fn new(dir: &Path, db: &Path, mode: Mode, threads: usize) -> Self {
        for old in [db.to_owned(), db.with_extension("copy")] {
            let _none = std::fs::remove_dir_all(old);
        }
        let ledger = dir.join("ledger");
        ledger::clear(&ledger);
        Self { db: db.to_owned(), ledger, mode, threads }
    }

    /// Starts this program again, as a child.
    pub(super) fn start(&self, source: Source, life: u64) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("child").arg(&self.db).arg(&self.ledger);
        let created = source.created.map_or(0, Moment::millis);
        let numbers = [self.threads as u64, source.seed, created, life];
        command.args(numbers.map(|number| number.to_string())).arg(self.mode.word());
        command.spawn().unwrap()
    }
}
