//! The outside world of a database of the simulator: a disk in memory with faults and power cuts,
//! and a clock.

use super::disk::{FailingDisk, FailureRates};
use super::executor::Shuffled;
use flagstone::env::{FaultDisk, ManualClock, MemDisk, Op, SeededRandom};
use flagstone::{Database, Environment, Options, Result};
use flagstone_base::hash::remix;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// The outside world between two crashes.
pub(super) struct Place {
    pub(super) mem: MemDisk,
    pub(super) faults: FaultDisk,
    pub(super) failing: FailingDisk,
    pub(super) clock: Arc<ManualClock>,
    /// Whether the disk was ever full.
    was_full: Cell<bool>,
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

impl Place {
    pub(super) fn new(mem: MemDisk, seed: u64) -> Self {
        let failing = FailingDisk::new(mem.clone());
        let faults = FaultDisk::new(Arc::new(failing.clone()));
        let (was_full, seed) = (Cell::new(false), Cell::new(seed));
        Self { mem, faults, failing, clock: Arc::default(), was_full, seed }
    }

    /// Returns the place after a crash now. `luck` decides which unsynced data survives.
    pub(super) fn after(&self, crash: Crash, luck: u64) -> Self {
        let mem = match crash {
            Crash::Kill => self.mem.kill(),
            Crash::PowerCut if luck.is_multiple_of(4) => self.mem.crash_losing_unsynced(),
            Crash::PowerCut => self.mem.crash(luck),
        };
        Self::new(mem, remix(luck))
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
        let builder = Database::builder(dir).options(options.clone());
        Ok((builder.environment(self.environment(&executor)).open()?, executor))
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

    /// Returns whether the disk has given a reason for an error.
    pub(super) fn has_failed(&self) -> bool {
        self.hits() > 0 || self.was_full.get()
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
