//! The ballast: a file that takes room on the disk, and gives it back when the disk is full.
//!
//! ```text
//! none --large enough, and room for two--> made ----> there --something did not fit--> given up, writes are refused
//!   \<------------------------- it could not be made --/                                  but deletes  --room--> made
//! ```
//! On a full disk nothing can be deleted: a tombstone needs room in the log, a flush and a compaction need room before
//! they give any back. With the room of the ballast they have it. So that it is not used up by what fills the disk, writes that
//! are no deletes are refused with OutOfSpace until the file could be made again.

use crate::commit::Write;
use crate::event::Event;
use crate::shared::Shared;
use flagstone_base::hash::remix;
use flagstone_base::{Error, ErrorKind, Kind, Result};
use flagstone_env::names::BALLAST;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use flagstone_env::{Disk, Lane, Progress, WriteFile};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So much is written at a step.
const STEP_BYTES: u64 = 1 << 20;
/// While the disk is full, so often is looked whether there is room again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// By default the ballast is created when the live bytes in tables are this many times its size, so that a small
/// database stays small.
const LIVE_BY_BALLAST: u64 = 16;

const NONE: u8 = 0;
const MAKING: u8 = 1;
const THERE: u8 = 2;

/// Whether the ballast is there.
#[derive(Default)]
pub(crate) struct Ballast {
    state: AtomicU8,
    /// It was given up, and could not be made again yet.
    is_given_up: AtomicBool,
}

/// Finds the ballast of a database that is being opened for writing, in a directory with these files. One of another size
/// is removed; so is one whose room the open needs.
pub(crate) fn find_ballast(
    disk: &dyn Disk,
    dir: &Path,
    files: &[String],
    bytes: u64,
) -> Result<Ballast> {
    let ballast = Ballast::default();
    if !files.iter().any(|name| name == BALLAST) {
        return Ok(ballast);
    }
    let path = dir.join(BALLAST);
    let is_whole = bytes > 0 && disk.open(&path)?.len() == bytes;
    let is_needed = is_whole && disk.free_bytes(dir).is_ok_and(|free| free < bytes);
    if is_whole && !is_needed {
        ballast.state.store(THERE, Ordering::Relaxed);
        return Ok(ballast);
    }
    disk.remove(&path)?;
    ballast.is_given_up.store(is_needed, Ordering::Relaxed);
    Ok(ballast)
}

impl Shared {
    fn ballast(&self) -> &Ballast {
        &self.background.ballast
    }

    fn ballast_path(&self) -> PathBuf {
        self.dir.join(BALLAST)
    }

    /// Whether the ballast was given up: room on the disk is for deletes, flushes and compactions.
    #[inline]
    pub(crate) fn is_ballast_given_up(&self) -> bool {
        self.ballast().is_given_up.load(Ordering::Relaxed)
    }

    /// Refuses a write that would take the room of the ballast.
    #[inline]
    pub(crate) fn check_room(&self, write: &Write<'_>) -> Result<()> {
        if self.is_ballast_given_up() { self.refuse_growth(write) } else { Ok(()) }
    }

    #[cold]
    fn refuse_growth(&self, write: &Write<'_>) -> Result<()> {
        if write.ops.iter().all(|op| matches!(op.kind, Kind::Delete | Kind::RangeDelete)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::OutOfSpace,
            format!(
                "the disk of {} is full: until there is room for the ballast of {} bytes again, it takes deletes alone",
                self.dir.display(),
                self.options.ballast()
            ),
        ))
    }

    /// Something did not fit on the disk: the room of the ballast is given to flushes, compactions and deletes.
    #[cold]
    pub(crate) fn give_up_ballast(&self) {
        let order = Ordering::AcqRel;
        if self.ballast().state.compare_exchange(THERE, NONE, order, Ordering::Acquire).is_err() {
            return;
        }
        self.ballast().is_given_up.store(true, Ordering::Release);
        match self.environment.disk.remove(&self.ballast_path()) {
            Ok(()) => self.tell(&Event::BallastGivenUp { bytes: self.options.ballast() }),
            Err(error) => {
                self.tell(&Event::BackgroundFailed { doing: "removal of the ballast", error })
            }
        }
        self.try_ballast_later();
    }

    /// Makes the ballast if it is wanted and not there; after an open, a flush, a compaction.
    pub(crate) fn look_after_ballast(&self) {
        if self.ballast().state.load(Ordering::Relaxed) != NONE
            || self.options.ballast() == 0
            || self.check_open_for_writing().is_err()
        {
            return;
        }
        let wanted = self.options.ballast_bytes.is_some() || self.is_ballast_given_up();
        if !wanted && !self.holds(LIVE_BY_BALLAST * self.options.ballast()) {
            return;
        }
        if self.is_ballast_given_up() && !self.has_room_for_ballast() {
            return;
        }
        let order = Ordering::AcqRel;
        if self.ballast().state.compare_exchange(NONE, MAKING, order, Ordering::Acquire).is_ok() {
            self.make_ballast();
        }
    }

    /// The same, after an open.
    pub(crate) fn look_after_found_ballast(&self) {
        self.look_after_ballast();
        if self.is_ballast_given_up() {
            self.try_ballast_later();
        }
    }

    /// Whether at least `bytes` of the tables are known to be live.
    fn holds(&self, bytes: u64) -> bool {
        // Without the lock first: most databases are smaller.
        self.background.table_bytes() >= bytes && self.background.lock().spaces.live() >= bytes
    }

    /// Room for it, and as much again.
    fn has_room_for_ballast(&self) -> bool {
        let free = self.environment.disk.free_bytes(&self.dir);
        free.is_ok_and(|free| free / 2 >= self.options.ballast())
    }

    fn make_ballast(&self) {
        let file = Mutex::new(None);
        let job = self.job(move |shared| match shared.fill_ballast(&mut file.lock()) {
            Ok(false) => Progress::Again,
            Ok(true) => {
                // In this order: whoever finds it there may give it up at once.
                shared.ballast().is_given_up.store(false, Ordering::Release);
                shared.ballast().state.store(THERE, Ordering::Release);
                shared.tell(&Event::BallastMade { bytes: shared.options.ballast() });
                Progress::Done
            }
            // Room is needed elsewhere; the next flush looks again.
            Err(_no_room) => {
                let _gone = shared.environment.disk.remove(&shared.ballast_path());
                shared.ballast().state.store(NONE, Ordering::Release);
                if shared.is_ballast_given_up() {
                    shared.try_ballast_later();
                }
                Progress::Done
            }
        });
        self.executor.submit(Lane::Compaction, job);
    }

    fn try_ballast_later(&self) {
        let job = self.job(|shared| {
            if shared.is_ballast_given_up() && shared.check_open_for_writing().is_ok() {
                shared.look_after_ballast();
                if shared.ballast().state.load(Ordering::Acquire) == NONE {
                    shared.try_ballast_later();
                }
            }
            Progress::Done
        });
        self.executor.submit_after(RETRY_AFTER, Lane::Compaction, job);
    }

    /// Writes a step of the file; true when all of it stands on the disk.
    fn fill_ballast(&self, file: &mut Option<Box<dyn WriteFile>>) -> Result<bool> {
        let (disk, path) = (&self.environment.disk, self.ballast_path());
        let bytes = self.options.ballast();
        let writer = match file {
            Some(writer) => writer,
            None => {
                if !self.has_room_for_ballast() {
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
        disk.sync_dir(&self.dir)?;
        Ok(true)
    }
}

/// Bytes that no file system can make smaller.
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

    /// Garbage comes and goes: a ballast made for its sake took a sixth of what was alive in a small database.
    #[test]
    fn garbage_makes_no_ballast() {
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::new(StepExecutor::default())),
        };
        let options = Options { memory_budget: 1 << 20, ..Options::default() };
        let db = Builder::at("db").options(options).environment(environment).open().unwrap();
        let kv = db.keyspace("kv").unwrap();
        let shared = kv.handle().shared();
        let enough = LIVE_BY_BALLAST * shared.options.ballast();
        shared.background.note_table_bytes(0, enough);
        let tree = Arc::clone(&kv.core().trees[0]);
        let state = |live| {
            let space = flagstone_tree::Space { bytes: enough, live };
            shared.background.lock().spaces.note(&tree, space);
            shared.look_after_ballast();
            shared.ballast().state.load(Ordering::Relaxed)
        };
        assert_eq!(state(enough - 1), NONE);
        assert_eq!(state(enough), MAKING);
    }
}
