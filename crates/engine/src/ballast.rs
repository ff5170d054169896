//! The ballast: a file that takes space on the disk, and is removed when the disk is full.
//!
//! ```text
//! none --large enough, and room for two--> being created ----> there
//!   \<------------------- no room for it --------/
//! there --something did not fit--> given up: only deletes are accepted --room--> created again
//! ```
//! On a full disk nothing could be deleted: a tombstone needs space in the log, and a flush and a
//! compaction need space before they free any. The space of the ballast is for them. To keep what
//! fills the disk from using it up, writes other than deletes are refused with OutOfSpace until the
//! file could be created again.

use crate::event::Event;
use crate::health::{Health, WhyDropped, tell_of_dropped};
use crate::history::History;
use crate::setup::job_of;
use flagstone_base::hash::remix;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::names::BALLAST;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use flagstone_env::{Disk, Lane, Progress, WriteFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The bytes that are written at a step.
const STEP_BYTES: u64 = 1 << 20;
/// How often the free space is checked while the disk is full.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// By default the ballast is created when the live bytes in tables are this many times its size, so
/// that a small database stays small.
const LIVE_BY_BALLAST: u64 = 16;

const NONE: u8 = 0;
const CREATING: u8 = 1;
const PRESENT: u8 = 2;

/// The state in which an open has found the ballast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FoundBallast {
    #[default]
    None,
    Whole,
    /// The ballast was removed, because the open needs its space.
    GivenUp,
}

/// The ballast of an open database.
pub(crate) struct Ballast {
    pub(crate) health: Arc<Health>,
    pub(crate) history: Arc<History>,
    state: AtomicU8,
    /// The ballast was given up, and could not be created again yet.
    is_given_up: AtomicBool,
}

/// Finds the ballast of a database that is being opened for writing, in a directory with the given
/// files. Removes a ballast of another size, and one whose space the open needs.
pub(crate) fn find_ballast(
    disk: &dyn Disk,
    dir: &Path,
    files: &[String],
    bytes: u64,
) -> Result<FoundBallast> {
    if !files.iter().any(|name| name == BALLAST) {
        return Ok(FoundBallast::None);
    }
    let path = dir.join(BALLAST);
    let is_whole = bytes > 0 && disk.open(&path)?.len() == bytes;
    let is_needed = is_whole && disk.free_bytes(dir).is_ok_and(|free| free < bytes);
    if is_whole && !is_needed {
        return Ok(FoundBallast::Whole);
    }
    disk.remove(&path)?;
    Ok(if is_needed { FoundBallast::GivenUp } else { FoundBallast::None })
}

impl Ballast {
    pub(crate) fn new(
        health: &Arc<Health>,
        history: &Arc<History>,
        found: FoundBallast,
    ) -> Arc<Self> {
        Arc::new(Self {
            health: Arc::clone(health),
            history: Arc::clone(history),
            state: AtomicU8::new(if found == FoundBallast::Whole { PRESENT } else { NONE }),
            is_given_up: AtomicBool::new(found == FoundBallast::GivenUp),
        })
    }

    fn path(&self) -> PathBuf {
        self.health.setup.dir.join(BALLAST)
    }

    fn bytes(&self) -> u64 {
        self.health.setup.options.ballast()
    }

    /// Returns whether the ballast was given up: space on the disk is for deletes, flushes and
    /// compactions.
    #[inline]
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// The error for a write that would take the space of the ballast.
    #[cold]
    pub(crate) fn refusal(&self) -> Error {
        Error::new(
            ErrorKind::OutOfSpace,
            format!(
                "the disk of {} is full: only deletes are accepted until it has room for the \
                 ballast of {} bytes",
                self.health.setup.dir.display(),
                self.bytes()
            ),
        )
    }

    /// Poisons the database or gives up the ballast, if `error` calls for it.
    pub(crate) fn note_failure(self: &Arc<Self>, error: &Error) {
        match error.kind() {
            ErrorKind::Poisoned => self.health.poison(error),
            ErrorKind::OutOfSpace => self.give_up(),
            _ => {}
        }
    }

    /// Removes what is kept for readers of changes, because the disk is full. Returns whether that
    /// has freed space, so that the ballast may stay for now.
    fn has_dropped_changes(&self) -> bool {
        let Some(log) = self.history.log.as_ref().filter(|log| log.keeps_changes()) else {
            return false;
        };
        match log.drop_changes() {
            Ok(dropped) => tell_of_dropped(&self.health, dropped, WhyDropped::DiskFull),
            Err(error) => {
                let doing = "removal of kept changes";
                self.health.tell(&Event::BackgroundFailed { doing, error });
                false
            }
        }
    }

    /// Gives the space of the ballast to flushes, compactions and deletes, because something did
    /// not fit on the disk.
    #[cold]
    pub(crate) fn give_up(self: &Arc<Self>) {
        if self.has_dropped_changes() {
            return;
        }
        let order = Ordering::AcqRel;
        if self.state.compare_exchange(PRESENT, NONE, order, Ordering::Acquire).is_err() {
            return;
        }
        self.is_given_up.store(true, Ordering::Release);
        match self.health.setup.environment.disk.remove(&self.path()) {
            Ok(()) => self.health.tell(&Event::BallastGivenUp { bytes: self.bytes() }),
            Err(error) => {
                let doing = "removal of the ballast";
                self.health.tell(&Event::BackgroundFailed { doing, error });
            }
        }
        self.retry_later();
    }

    /// Creates the ballast if it is wanted and missing. Called after an open, a flush or a
    /// compaction. `holds` tells whether at least the given number of bytes in tables is known to
    /// be live.
    pub(crate) fn ensure(self: &Arc<Self>, holds: impl FnOnce(u64) -> bool) {
        if self.state.load(Ordering::Relaxed) != NONE
            || self.bytes() == 0
            || self.health.check_open_for_writing().is_err()
        {
            return;
        }
        let wanted = self.health.setup.options.ballast_bytes.is_some() || self.is_given_up();
        if !wanted && !holds(LIVE_BY_BALLAST * self.bytes()) {
            return;
        }
        if self.is_given_up() && !self.has_room() {
            return;
        }
        let order = Ordering::AcqRel;
        if self.state.compare_exchange(NONE, CREATING, order, Ordering::Acquire).is_ok() {
            self.create();
        }
    }

    /// Returns whether there is space for the ballast, and as much again.
    fn has_room(&self) -> bool {
        let free = self.health.setup.environment.disk.free_bytes(&self.health.setup.dir);
        free.is_ok_and(|free| free / 2 >= self.bytes())
    }

    fn create(self: &Arc<Self>) {
        let file = Mutex::new(None);
        let job = job_of(self, move |ballast| match ballast.fill(&mut file.lock()) {
            Ok(false) => Progress::Again,
            Ok(true) => {
                // In this order: a thread that finds the ballast may give it up at once.
                ballast.is_given_up.store(false, Ordering::Release);
                ballast.state.store(PRESENT, Ordering::Release);
                ballast.health.tell(&Event::BallastCreated { bytes: ballast.bytes() });
                Progress::Done
            }
            // The space is needed elsewhere. The next flush tries again.
            Err(_no_room) => {
                let _gone = ballast.health.setup.environment.disk.remove(&ballast.path());
                ballast.state.store(NONE, Ordering::Release);
                if ballast.is_given_up() {
                    ballast.retry_later();
                }
                Progress::Done
            }
        });
        self.health.setup.executor.submit(Lane::Compaction, job);
    }

    /// Tries to create a ballast that was given up, until it exists.
    pub(crate) fn retry_later(self: &Arc<Self>) {
        let job = job_of(self, |ballast| {
            if ballast.is_given_up() && ballast.health.check_open_for_writing().is_ok() {
                // A ballast that was given up is wanted, however much the tables hold.
                ballast.ensure(|_bytes| false);
                if ballast.state.load(Ordering::Acquire) == NONE {
                    ballast.retry_later();
                }
            }
            Progress::Done
        });
        self.health.setup.executor.submit_after(RETRY_AFTER, Lane::Compaction, job);
    }

    /// Writes a step of the file. Returns true when all of it is synced.
    fn fill(&self, file: &mut Option<Box<dyn WriteFile>>) -> Result<bool> {
        let (disk, path) = (&self.health.setup.environment.disk, self.path());
        let bytes = self.health.setup.options.ballast();
        let writer = match file {
            Some(writer) => writer,
            None => {
                if !self.has_room() {
                    return Err(Error::new(ErrorKind::OutOfSpace, "no room for the ballast"));
                }
                if disk.exists(&path)? {
                    disk.remove(&path)?;
                }
                file.insert(disk.create(&path)?)
            }
        };
        let at = writer.position();
        if at < bytes {
            writer.append(&noise(at, STEP_BYTES.min(bytes - at) as usize))?;
            return Ok(false);
        }
        writer.sync()?;
        *file = None;
        disk.sync_dir(&self.health.setup.dir)?;
        Ok(true)
    }
}

/// Returns bytes that no file system can compress.
fn noise(at: u64, len: usize) -> Vec<u8> {
    let words = (at..).step_by(8).map(|at| remix(at + 1).to_le_bytes());
    words.flatten().take(len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Builder;
    use crate::{Environment, Options};
    use flagstone_env::{ManualClock, MemDisk, SeededRandom, StepExecutor};
    use std::sync::Arc;

    /// Garbage comes and goes. A ballast that was created because of garbage took a sixth of the
    /// live bytes of a small database.
    #[test]
    fn garbage_creates_no_ballast() {
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::new(StepExecutor::default())),
        };
        let options = Options { memory_budget: 1 << 20, ..Options::default() };
        let db = Builder::at("db").options(options).environment(environment).open().unwrap();
        let kv = db.keyspace("kv").unwrap();
        let upkeep = &kv.handle().parts().upkeep;
        let enough = LIVE_BY_BALLAST * upkeep.core.setup().options.ballast();
        upkeep.core.work.note_table_bytes(0, enough);
        let tree = Arc::clone(&kv.core().trees()[0]);
        let state = |live| {
            let space = flagstone_tree::Space { bytes: enough, live };
            upkeep.core.work.lock().spaces.note(&tree, space);
            upkeep.ensure_ballast();
            upkeep.core.ballast.state.load(Ordering::Relaxed)
        };
        assert_eq!(state(enough - 1), NONE);
        assert_eq!(state(enough), CREATING);
    }
}
