//! The outside world of a database of the simulator: a disk in memory with faults and power cuts,
//! and a clock.

use super::disk::{FailingDisk, FailureRates};
use super::executor::Shuffled;
use crate::rng::Rng;
use flagstone::admin::Environment;
use flagstone::internal::env::{Clock, FaultDisk, ManualClock, MemDisk, Op, SeededRandom};
use flagstone::{Database, Moment, Options, Result};
use flagstone_base::hash::remix;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The outside world between two crashes.
pub(super) struct SimWorld {
    pub(super) mem: MemDisk,
    pub(super) faults: FaultDisk,
    pub(super) failing: FailingDisk,
    clock: Arc<ManualClock>,
    /// By how many milliseconds the wall clock was set ahead.
    jumped: Cell<u64>,
    /// When it was set ahead first, by the monotonic clock.
    jumped_at: Cell<Option<Duration>>,
    /// By how many milliseconds the wall clock was set back.
    set_back: Cell<u64>,
    /// Whether the disk was ever full.
    was_full: Cell<bool>,
    /// Whether the directory was moved.
    was_moved: Cell<bool>,
    seed: Cell<u64>,
}

/// The kind of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process dies. Written data stays.
    Kill,
    /// The machine dies. Unsynced data may be lost.
    PowerCut,
}

impl SimWorld {
    pub(super) fn new(mem: MemDisk, seed: u64) -> Self {
        let failing = FailingDisk::new(mem.clone());
        let faults = FaultDisk::new(Arc::new(failing.clone()));
        Self {
            mem,
            faults,
            failing,
            clock: Arc::default(),
            jumped: Cell::new(0),
            jumped_at: Cell::new(None),
            set_back: Cell::new(0),
            was_full: Cell::new(false),
            was_moved: Cell::new(false),
            seed: Cell::new(seed),
        }
    }

    /// Returns the place after a crash now. `luck` decides which unsynced data survives, and what
    /// the wall clock shows: nothing before `not_before`.
    pub(super) fn after(&self, crash: Crash, luck: u64, not_before: Moment) -> Self {
        let mem = match crash {
            Crash::Kill => self.mem.kill(),
            Crash::PowerCut if luck.is_multiple_of(4) => self.mem.crash_losing_unsynced(),
            Crash::PowerCut => self.mem.crash(luck),
        };
        let next = Self::new(mem, remix(luck));
        next.set_wall(self.later_wall(luck, not_before));
        next
    }

    /// Returns what the wall clock shows after a while without the database.
    fn later_wall(&self, luck: u64, not_before: Moment) -> u64 {
        let mut rng = Rng::new(remix(luck ^ 8));
        let set_right = if rng.percent(60) { self.jumped.get() } else { 0 };
        let wall = self.wall().millis() - set_right;
        let wall = match rng.below(10) {
            0..=2 => wall,
            3..=5 => wall + rng.below(10_000),
            6 => wall + rng.below(4 * 3_600_000),
            7..=8 => wall - rng.below(5000),
            _ => wall - rng.below(3_600_000),
        };
        wall.max(not_before.millis())
    }

    /// The time of the wall clock.
    pub(super) fn wall(&self) -> Moment {
        Moment::since_1970(self.clock.wall())
    }

    fn set_wall(&self, millis: u64) {
        self.clock.set_wall(Duration::from_millis(millis));
    }

    /// Lets this many milliseconds pass.
    pub(super) fn advance(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    /// Sets the wall clock back.
    pub(super) fn set_back(&self, millis: u64) {
        self.set_wall(self.wall().millis() - millis);
        self.set_back.set(self.set_back.get() + millis);
    }

    /// Sets the wall clock far ahead.
    pub(super) fn jump(&self, millis: u64) {
        self.set_wall(self.wall().millis() + millis);
        self.jumped.set(self.jumped.get() + millis);
        self.jumped_at.set(self.jumped_at.get().or(Some(self.clock.monotonic())));
    }

    /// Returns the latest moment that the manifest of the open database may record, if the wall
    /// clock was set ahead within the last hour: what the clock would show otherwise.
    pub(super) fn before_jump(&self) -> Option<Moment> {
        let passed = self.clock.monotonic().saturating_sub(self.jumped_at.get()?);
        let wall = self.wall().millis() - self.jumped.get() + self.set_back.get();
        (passed < Duration::from_secs(3600)).then_some(Moment::from_millis(wall))
    }

    /// Returns whether the wall clock was set back or ahead while the database was open.
    pub(super) fn was_clock_set(&self) -> bool {
        self.jumped.get() > 0 || self.set_back.get() > 0
    }

    /// Lets the wall clock show something else while the database is closed: nothing before
    /// `not_before`.
    pub(super) fn reset_clock(&self, luck: u64, not_before: Moment) {
        self.set_wall(self.later_wall(luck, not_before));
        self.jumped.set(0);
        self.jumped_at.set(None);
        self.set_back.set(0);
    }

    pub(super) fn dir() -> &'static Path {
        Path::new("/db")
    }

    /// Returns an environment for a builder. Each call gives other random numbers.
    fn environment(&self, executor: &Arc<Shuffled>) -> Environment {
        self.seed.set(self.seed.get().wrapping_add(1));
        Environment {
            disk: Arc::new(self.faults.clone()),
            clock: Arc::clone(&self.clock) as _,
            random: Arc::new(SeededRandom::new(remix(self.seed.get()))),
            executor: Some(Arc::clone(executor) as _),
        }
    }

    /// Opens the database in `dir`.
    pub(super) fn open(
        &self,
        dir: &Path,
        options: &Options,
        seed: u64,
    ) -> Result<(Database, Arc<Shuffled>)> {
        let executor = Arc::new(Shuffled::new(options.compaction_workers));
        executor.reseed(seed);
        // By a relative path, sometimes. It must not matter where the process goes after the open.
        let relative = dir.strip_prefix("/").ok().filter(|_| seed.is_multiple_of(2));
        self.mem.change_dir(Path::new("/"));
        let builder = Database::builder(relative.unwrap_or(dir)).options(options.clone());
        let opened = builder.environment(self.environment(&executor)).open();
        self.mem.change_dir(Path::new("/elsewhere"));
        Ok((opened?, executor))
    }

    /// Opens the database for reading only.
    pub(super) fn open_read_only(&self, options: &Options) -> Result<Database> {
        let executor = Arc::new(Shuffled::new(1));
        let builder = Database::builder(Self::dir()).options(options.clone());
        builder.environment(self.environment(&executor)).open_read_only()
    }

    /// Limits the room on the disk to `bytes` more.
    pub(super) fn set_room(&self, bytes: u64) {
        self.was_full.set(true);
        self.faults.set_room(Some(bytes));
    }

    /// Notes that the directory was moved.
    pub(super) fn note_moved(&self) {
        self.was_moved.set(true);
    }

    /// Returns whether the disk has given a reason for an error.
    pub(super) fn has_failed(&self) -> bool {
        self.hits() > 0 || self.was_full.get() || self.was_moved.get()
    }

    /// Returns the number of operations that failed.
    pub(super) fn hits(&self) -> u64 {
        self.faults.hits() + self.failing.hits()
    }

    /// Ends all faults, and gives the disk room.
    pub(super) fn heal(&self) {
        self.faults.heal();
        self.faults.set_room(None);
        self.failing.set(FailureRates::default(), 0);
    }

    /// Returns the number of operations that have changed the disk.
    pub(super) fn changes(&self) -> u64 {
        let counts = self.mem.counts();
        Op::CHANGES.iter().map(|op| counts.of(*op)).sum()
    }
}
