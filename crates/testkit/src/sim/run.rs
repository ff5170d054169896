//! Runs a history: lives of one database, from crash to crash.

use super::ask::Pages;
use super::clock::{Clocks, move_clock};
use super::conditions::Token;
use super::life::{Check, Life};
use super::model::{Key, State};
use super::oracle::Oracle;
use super::place::SimWorld;
use super::replica::Replica;
use super::setting::SimSetting;
use super::step::{Planned, SimStep};
use flagstone::internal::env::MemDisk;
use flagstone::{Error, ErrorKind, KeyspaceOptions, VersionToken};
use flagstone_base::flip::{self, Site};
use flagstone_base::hash::remix;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The counts of one history or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of histories.
    pub histories: u64,
    /// The outcomes of kills, each recovered and compared.
    pub kills: u64,
    /// The outcomes of power cuts, each recovered and compared.
    pub power_cuts: u64,
    /// The operations of the disk that failed.
    pub faults: u64,
    /// The bits that flipped in memory.
    pub flips: u64,
    /// The number of commits.
    pub commits: u64,
    /// The number of ingests.
    pub ingests: u64,
    /// The number of written values of at least 64 KiB.
    pub large: u64,
    /// The number of entries that were written with an expiry.
    pub expiring: u64,
    /// The number of steps.
    pub steps: u64,
    /// The checkpoints that were opened and compared.
    pub copies: u64,
    /// The lives that ended poisoned.
    pub poisoned: u64,
    /// The builds of indexes that came to an end.
    pub indexes: u64,
    /// The commits that the change feed has delivered.
    pub delivered: u64,
    /// The transactions that another commit came before.
    pub conflicts: u64,
    /// The splits of partitions.
    pub splits: u64,
    /// The times that the directory was moved, replaced or lost its lock.
    pub moves: u64,
    /// The renamings of keyspaces.
    pub renamings: u64,
    /// The times at which a copy that follows the change feed was compared with the database.
    pub followed: u64,
    /// The kept segments that were lost, emptied or replaced while the database was closed.
    pub lost_segments: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.faults += other.faults;
        self.flips += other.flips;
        self.commits += other.commits;
        self.ingests += other.ingests;
        self.large += other.large;
        self.expiring += other.expiring;
        self.steps += other.steps;
        self.copies += other.copies;
        self.poisoned += other.poisoned;
        self.indexes += other.indexes;
        self.delivered += other.delivered;
        self.conflicts += other.conflicts;
        self.splits += other.splits;
        self.moves += other.moves;
        self.renamings += other.renamings;
        self.followed += other.followed;
        self.lost_segments += other.lost_segments;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histories, kills, power_cuts, faults, flips, commits, .. } = self;
        let Self { ingests, large, expiring, steps, copies, poisoned, .. } = self;
        let Self { indexes, delivered, conflicts, splits, .. } = self;
        let Self { moves, renamings, followed, lost_segments, .. } = self;
        write!(
            f,
            "{histories} histories, {} crashes ({kills} kills, {power_cuts} power cuts), {faults} \
             faults, {flips} flipped bits, {commits} commits, {ingests} ingests, {large} large \
             values, {expiring} expiries, {indexes} indexes, {delivered} delivered changes, \
             {conflicts} conflicts, {splits} splits, {moves} moved directories, {renamings} \
             renamings, {followed} comparisons of a copy by the feed, {lost_segments} lost \
             segments, {steps} steps, {copies} checkpoints, {poisoned} poisoned",
            kills + power_cuts
        )
    }
}

/// The result of a history that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The counts of a run.
    pub totals: Totals,
    /// A hash of everything that was seen. The same seed gives the same hash.
    pub fingerprint: u64,
}

/// A failure and its step.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The index of the step.
    pub at: usize,
    /// What was wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at step {}: {}", self.at, self.what)
    }
}

/// A checkpoint and its expected content.
pub(super) struct CheckpointCopy {
    pub(super) dir: PathBuf,
    pub(super) state: State,
}

/// A history that runs.
pub(super) struct Run {
    pub(super) setting: SimSetting,
    pub(super) keyspaces: Vec<KeyspaceOptions>,
    pub(super) place: SimWorld,
    pub(super) oracle: Oracle,
    /// The open database, or `None` if the power is off or opening failed.
    pub(super) life: Option<Life>,
    pub(super) lives: u64,
    pub(super) clocks: Clocks,
    pub(super) copies: Vec<CheckpointCopy>,
    pub(super) copies_made: u32,
    pub(super) tokens: Vec<Token>,
    /// The write of each version that was seen: event, slot, key.
    pub(super) versions: HashMap<VersionToken, (u64, usize, Key)>,
    /// The events that may be ingests: all their keys have one version.
    pub(super) ingested: HashSet<u64>,
    /// Queries of which pages were read.
    pub(super) pages: Vec<Pages>,
    /// The number of indexes and collections that were dropped.
    pub(super) dropped_indexes: u64,
    /// A reader of changes.
    pub(super) replica: Option<Replica>,
    /// Whether the disk has failed since the reader has begun, before this life.
    pub(super) feed_has_failed: bool,
    /// A copy that follows the change feed by the recipe of the guide.
    pub(super) copy_by_feed: crate::Copy,
    /// Whether kept segments were lost since that copy was compared.
    pub(super) has_lost_segments: bool,
    pub(super) totals: Totals,
    /// Whether a failed sync has lost unsynced data, and no power cut has followed.
    pub(super) has_lost_dirty: bool,
    fingerprint: u64,
}

thread_local! {
    /// The current step, and the message of a panic in it.
    static AT: Cell<usize> = const { Cell::new(0) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Whether this thread runs a history: then a panic is a result of it.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Prints every further step and error, to find the cause of a failure.
pub fn trace() {
    TRACES.store(true, Ordering::Relaxed);
}

static TRACES: AtomicBool = AtomicBool::new(false);

fn print(text: impl FnOnce() -> String) {
    if TRACES.load(Ordering::Relaxed) {
        eprintln!("{}", text());
    }
}

/// Runs the steps of `plan` under the options that `seed` draws.
///
/// # Errors
/// The first failure, which may be a panic.
pub fn run(seed: u64, plan: &[Planned]) -> Result<Outcome, Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if RUNS.get() { PANIC.set(Some(format!("a panic: {info}"))) } else { print(info) }
        }));
    });
    let guarded = || {
        RUNS.set(true);
        std::panic::catch_unwind(|| run_steps(seed, plan)).unwrap_or_else(|_payload| {
            let what = PANIC.take().unwrap_or_else(|| "a panic".into());
            Err(Failure { at: AT.get(), what })
        })
    };
    // The history gets a thread of its own, because the state of a thread's compressors and
    // encoders changes the bytes they write, and so the moment at which a disk is full.
    std::thread::scope(|scope| scope.spawn(guarded).join().unwrap())
}

fn run_steps(seed: u64, plan: &[Planned]) -> Result<Outcome, Failure> {
    flagstone_tree::seed_sampling(seed);
    let setting = SimSetting::draw(seed);
    let mut run = Run {
        keyspaces: setting.keyspaces.clone(),
        place: SimWorld::new(MemDisk::default(), remix(seed)),
        setting,
        oracle: Oracle::default(),
        life: None,
        lives: 0,
        clocks: Clocks::default(),
        copies: Vec::new(),
        copies_made: 0,
        tokens: Vec::new(),
        versions: HashMap::new(),
        ingested: HashSet::new(),
        pages: Vec::new(),
        dropped_indexes: 0,
        replica: None,
        feed_has_failed: false,
        copy_by_feed: crate::Copy::default(),
        has_lost_segments: false,
        totals: Totals { histories: 1, ..Totals::default() },
        has_lost_dirty: false,
        fingerprint: 0,
    };
    let failure = |at| move |what| Failure { at, what };
    run.first_life(seed).map_err(failure(0))?;
    for (at, planned) in plan.iter().enumerate() {
        AT.set(at);
        print(|| format!("{at} {:?}", planned.step));
        run.step(planned).map_err(failure(at))?;
        run.note(at as u64);
        run.note(run.place.changes());
    }
    run.totals.faults += run.place.hits();
    run.totals.flips += flip::count();
    Ok(Outcome { totals: run.totals, fingerprint: run.fingerprint })
}

impl Run {
    /// Adds `fact` to the fingerprint.
    pub(super) fn note(&mut self, fact: u64) {
        self.fingerprint = remix(self.fingerprint ^ fact);
    }

    fn step(&mut self, planned: &Planned) -> Check {
        if let SimStep::Crash(ending) = &planned.step {
            // Recoveries must succeed.
            let _happened = flip::flipped();
            self.totals.steps += 1;
            return self.crash(*ending, planned.seed);
        }
        if self.place.faults.is_off() {
            self.life = None;
        }
        let Some(life) = &self.life else { return Ok(()) };
        life.executor.reseed(planned.seed);
        self.totals.steps += 1;
        match &planned.step {
            SimStep::Work(steps) => life.executor.work(*steps),
            SimStep::Fault(fault) => self.place.faults.inject(fault.clone()),
            SimStep::Flip(part, before) => flip::flip_after(Site::Output, *part, *before),
            SimStep::FailureRates(rates) => self.place.failing.set(*rates, planned.seed),
            SimStep::Room(bytes) => self.place.set_room(*bytes),
            SimStep::PowerAt(nth) => self.place.faults.cut_power_at(*nth),
            SimStep::Heal => return self.heal(),
            SimStep::Reopen => return self.reopen(planned.seed),
            SimStep::Documents(step) => return self.document_step(step),
            SimStep::Contend(slot) => return self.contend(*slot, planned.seed),
            SimStep::MoveDirectory(moved) => return self.move_directory(*moved, planned.seed),
            step if self.clock_step(step)? => {}
            step if self.write_step(step)? => {}
            step => self.read_step(step)?,
        }
        Ok(())
    }

    /// Runs a step that moves the clock. The clock of the database must be at the expected moment.
    /// Returns whether it was such a step.
    pub(super) fn clock_step(&mut self, step: &SimStep) -> Check<bool> {
        let Some(read) = move_clock(step, &self.place, &self.oracle) else { return Ok(false) };
        let Some(life) = &self.life else { return Ok(true) };
        self.oracle.moment = self.oracle.moment.max(self.place.wall());
        self.clocks.note(self.place.before_jump().unwrap_or(self.oracle.moment));
        let (found, expected) = (life.db.now(), self.oracle.moment);
        if found != expected {
            return Err(format!("the clock is at {found}, expected {expected}"));
        }
        read.map_or(Ok(()), |(slot, key)| self.get(slot, key)).map(|()| true)
    }

    /// Fails if the disk gave no reason for this error.
    pub(super) fn excuse(&mut self, error: &Error) -> Check {
        if error.kind() == ErrorKind::Poisoned
            && let Some(life) = &mut self.life
        {
            life.is_poisoned = true;
        }
        self.excuse_of_copy(error)
    }

    /// As [`Run::excuse`], for another database than that of this life.
    pub(super) fn excuse_of_copy(&mut self, error: &Error) -> Check {
        print(|| format!("    {error}"));
        self.note(error.kind() as u64 + 100);
        if self.place.has_failed() || flip::count() > 0 {
            Ok(())
        } else {
            Err(format!("an error without a cause: {error:?}"))
        }
    }

    /// As [`Run::excuse`], for a result.
    pub(super) fn excused<T>(&mut self, result: flagstone::Result<T>) -> Check<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.excuse(&error).map(|()| None),
        }
    }

    /// Ends the faults of the disk. The database must then work again, unless it is poisoned.
    fn heal(&mut self) -> Check {
        let _happened = flip::flipped();
        self.place.heal();
        let Some(life) = &self.life else { return Ok(()) };
        // Each waiting caller may get the error of an earlier flush once more.
        let flushed = (0..4).map(|_| life.db.flush()).find_map(|done| match done {
            Ok(()) => Some(Ok(())),
            Err(error) if error.kind() == ErrorKind::Poisoned => Some(Err(error)),
            Err(_) => None,
        });
        match flushed {
            Some(Ok(())) => self.oracle.keep_all(),
            Some(Err(error)) => self.excuse(&error)?,
            None => return Err("a healed disk, and flushes fail all the same".into()),
        }
        Ok(())
    }
}
