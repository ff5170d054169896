//! Temporary files: what sorts, groups and index builds have no memory for.
//!
//! The files are in the directory of the database, whose open removes those that a crash left. With
//! a scratch directory they are there instead. One open database uses a scratch directory at a
//! time: the first file locks it. The open and the first file remove leftovers, and the close
//! removes the lock file, unless it was there before for something else. The numbers of the files
//! are random, so that a process that closes late removes no file of its successor.
//!
//! Scratch directories are where cleaners of old files work. One that has removed the lock file
//! ends no query: the next temporary file locks the directory again.

use crate::core::Core;
use flagstone_base::{DatabaseId, Error, ErrorKind, Result};
use flagstone_env::disk::check_own;
use flagstone_env::names::{self, Name};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_env::{Disk, DiskLock, HeldDir, LockMode, ReadFile, WriteFile};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Creates the temporary files of an open database.
pub struct Scratch {
    core: Arc<Core>,
    /// The scratch directory, if there is one and a file was created in it. Held across the I/O of
    /// the first file; no other lock is taken under it.
    taken: Mutex<Option<TakenDir>>,
    /// The bytes that queries hold, and the most.
    held: AtomicU64,
    held_max: u64,
}

/// All queries together may hold one part in this many of the memory budget, and at least this.
const QUERY_PARTS: u64 = 4;
const QUERY_BYTES_MIN: u64 = 16 << 20;
/// What each sort, group or pipeline holds besides, so that small ones share nothing.
const QUERY_BYTES_FREE: usize = 64 << 10;

/// Memory that a part of a query holds, until it is dropped.
pub struct QueryMemory {
    scratch: Arc<Scratch>,
    bytes: u64,
}

impl QueryMemory {
    /// Begins to hold memory, with none.
    pub fn new(scratch: &Arc<Scratch>) -> Self {
        Self { scratch: Arc::clone(scratch), bytes: 0 }
    }

    /// Holds `bytes` in all. Returns false, and holds what it has, if all queries together would
    /// hold more than they may.
    #[inline]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let counted = bytes.saturating_sub(QUERY_BYTES_FREE) as u64;
        counted <= self.bytes || self.take(counted)
    }

    fn take(&mut self, counted: u64) -> bool {
        let (held, most) = (&self.scratch.held, self.scratch.held_max);
        let more = counted - self.bytes;
        let take = |held: u64| held.checked_add(more).filter(|all| *all <= most);
        let is_taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if is_taken {
            self.bytes = counted;
        }
        is_taken
    }

    /// Holds `bytes` in all, whatever others hold.
    pub fn set(&mut self, bytes: usize) {
        let counted = bytes.saturating_sub(QUERY_BYTES_FREE) as u64;
        let held = &self.scratch.held;
        if counted >= self.bytes {
            held.fetch_add(counted - self.bytes, Ordering::Relaxed);
        } else {
            held.fetch_sub(self.bytes - counted, Ordering::Relaxed);
        }
        self.bytes = counted;
    }

    /// The bytes that all queries together may hold.
    pub fn most(&self) -> u64 {
        self.scratch.held_max
    }

    /// Where the query may write what it does not hold.
    pub const fn scratch(&self) -> &Arc<Scratch> {
        &self.scratch
    }
}

impl Drop for QueryMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueryMemory({} bytes)", self.bytes)
    }
}

/// A scratch directory that is in use.
struct TakenDir {
    held: HeldDir,
    lock: Box<dyn DiskLock>,
    /// The lock file is not needed by anything else in the directory.
    removes_lock: bool,
}

/// A temporary file. It is removed when this is dropped.
pub struct ScratchFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    database: DatabaseId,
    number: u64,
}

impl Scratch {
    pub(crate) fn new(core: &Arc<Core>) -> Arc<Self> {
        let held_max = (core.setup().options.memory_budget / QUERY_PARTS).max(QUERY_BYTES_MIN);
        let (taken, held) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { core: Arc::clone(core), taken, held, held_max })
    }

    /// The bytes that queries hold, beyond the first of each.
    pub(crate) fn query_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The directory of the database, for messages.
    pub fn database_dir(&self) -> &Path {
        &self.core.setup().dir
    }

    /// Returns whether there is a directory for temporary files: a database that is open for
    /// reading only has none unless its builder names one.
    pub fn is_available(&self) -> bool {
        !self.core.history.is_read_only() || self.core.setup().scratch_dir.is_some()
    }

    /// Creates a temporary file, which is to be written from front to back.
    ///
    /// # Errors
    /// InvalidInput without a directory for temporary files, or for a scratch directory that holds
    /// a database; Busy if another open database uses the scratch directory; OutOfSpace, Io,
    /// Closed.
    pub fn create(&self) -> Result<(ScratchFile, Box<dyn WriteFile>)> {
        self.core.health.check_open()?;
        self.core.setup().guard.check_process()?;
        let (disk, dir) = match &self.core.setup().scratch_dir {
            Some(dir) => self.take(dir)?,
            None if self.core.history.is_read_only() => {
                return Err(Error::invalid(format!(
                    "{} is open for reading only, without a scratch directory",
                    self.core.setup().dir.display()
                )));
            }
            None => {
                (Arc::clone(&self.core.setup().environment.disk), self.core.setup().dir.clone())
            }
        };
        let number = self.core.setup().environment.random.next_u64();
        let path = dir.join(names::spill(number));
        // From here on an error removes the file, which may exist in spite of it.
        let database = self.core.setup().id;
        let file = ScratchFile { disk, path, database, number };
        let writer = file.disk.create(&file.path)?;
        Ok((file, writer))
    }

    /// The bytes of the disk of the database that temporary files leave to writers: as many as the
    /// memtables hold, so that all can be flushed. In a scratch directory none are kept back.
    pub fn bytes_kept_back(&self) -> u64 {
        match self.core.setup().scratch_dir {
            Some(_) => 0,
            None => self.core.setup().options.memtable_share(),
        }
    }

    /// Refuses `more` bytes of a temporary file if they would leave writers too little of the disk.
    ///
    /// # Errors
    /// OutOfSpace.
    pub fn check_room(&self, more: u64) -> Result<()> {
        let kept = self.bytes_kept_back();
        if kept == 0 {
            return Ok(());
        }
        let dir = &self.core.setup().dir;
        // A disk that does not say how much is free refuses when it is full.
        match self.core.setup().environment.disk.free_bytes(dir) {
            Ok(free) if free < kept.saturating_add(more) => Err(Error::new(
                ErrorKind::OutOfSpace,
                format!(
                    "{}: {free} bytes are free, of which {kept} are kept back for writers: a sort \
                     cannot spill {more} more (a scratch directory may be on another disk)",
                    dir.display()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Locks the scratch directory and empties it, unless that was done before. If the directory or
    /// its lock file was removed since, it is only locked again: files in it may be in use. Returns
    /// the disk that holds it, and its path there.
    fn take(&self, dir: &Path) -> Result<(Arc<dyn Disk>, PathBuf)> {
        let mut taken = self.taken.lock();
        let is_lost = taken.as_ref().is_some_and(|taken| taken.held.guard.check().is_err());
        if is_lost {
            *taken = None;
        }
        let TakenDir { held, .. } = match &mut *taken {
            Some(taken) => taken,
            none => none.insert(self.lock(dir, !is_lost)?),
        };
        Ok((Arc::clone(&held.disk), held.path.clone()))
    }

    fn lock(&self, dir: &Path, empties: bool) -> Result<TakenDir> {
        let disk = &*self.core.setup().environment.disk;
        if !disk.exists(dir)? {
            disk.create_dir(dir)?;
        }
        let held = disk.hold(dir)?;
        let (disk, dir) = (&*held.disk, &held.path);
        if disk.exists(&dir.join(names::CURRENT))? {
            let text = format!("{}: a scratch directory holds a database", dir.display());
            return Err(Error::invalid(text));
        }
        let path = dir.join(names::LOCK);
        let had_lock = disk.exists(&path)?;
        let lock = disk.lock(&path, LockMode::Exclusive)?;
        check_own(&*lock, &path)?;
        let mut removes_lock = true;
        for name in disk.list(dir)? {
            match names::parse(&name) {
                Name::Spill(_) if empties => disk.remove(&dir.join(name))?,
                Name::Spill(_) | Name::Lock => {}
                // Say a directory of backups, whose lock it is.
                _ => removes_lock = !had_lock,
            }
        }
        Ok(TakenDir { held, lock, removes_lock })
    }

    /// Removes what a killed process has left in the scratch directory, unless another database
    /// uses it. If that fails, the first file of a query says so.
    pub(crate) fn remove_leftovers(&self) {
        let Some(dir) = &self.core.setup().scratch_dir else { return };
        let is_ours = |name: &String| matches!(names::parse(name), Name::Spill(_));
        let found = self.core.setup().environment.disk.list(dir).unwrap_or_default();
        if found.iter().any(is_ours) && self.take(dir).is_ok() {
            self.unlock();
        }
    }

    /// Releases the scratch directory when the database is closed. Files that are still read keep
    /// their bytes until their last handle is dropped, even if a successor removes their names.
    pub(crate) fn unlock(&self) {
        let Some(TakenDir { held, lock, removes_lock }) = self.taken.lock().take() else { return };
        // Of a lost directory, the file may be that of a successor.
        if removes_lock && held.guard.check().is_ok() {
            lock.unwatch();
            // While it is locked: a successor locks a file of its own.
            let _left = held.disk.remove(&held.path.join(names::LOCK));
        }
        drop(lock);
    }
}

impl ScratchFile {
    /// Opens the file for reading, when it is written.
    ///
    /// # Errors
    /// Io.
    pub fn open(&self) -> Result<Arc<dyn ReadFile>> {
        self.disk.open(&self.path)
    }

    /// The database that the file belongs to.
    pub const fn database(&self) -> DatabaseId {
        self.database
    }

    /// The random number of the file, which is also in its name.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The path of the file, for error texts.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // If this fails, the next open removes the file.
        let _leftover = self.disk.remove_own(&self.path);
    }
}

impl fmt::Debug for ScratchFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScratchFile({})", self.path.display())
    }
}
