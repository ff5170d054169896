//! A disk that fails now and then, for as long as it is told to, and whose failed syncs may lose what was dirty.

use crate::rng::Rng;
use flagstone::env::disk::{Access, SyncFile};
use flagstone::env::{Disk, DiskLock, LockMode, MemDisk, Op, ReadFile, WriteFile};
use flagstone::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How often which operations fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mood {
    /// Of a thousand operations that change the disk.
    pub(super) changes_per_mille: u16,
    /// Of a thousand reads.
    pub(super) reads_per_mille: u16,
    /// A failure says that the disk is full, instead of an input/output error.
    pub(super) is_full: bool,
    /// A failed sync loses what was dirty, as Linux does it.
    pub(super) loses_dirty: bool,
}

struct State {
    mood: Mood,
    rng: Rng,
    hits: u64,
    has_lost_dirty: bool,
}

/// [`MemDisk`] in a mood.
#[derive(Clone)]
pub(super) struct MoodyDisk {
    mem: MemDisk,
    state: Arc<Mutex<State>>,
}

impl MoodyDisk {
    pub(super) fn new(mem: MemDisk) -> Self {
        let state =
            State { mood: Mood::default(), rng: Rng::new(0), hits: 0, has_lost_dirty: false };
        Self { mem, state: Arc::new(Mutex::new(state)) }
    }

    /// From here on operations fail as `mood` says, chosen by `seed`.
    pub(super) fn set(&self, mood: Mood, seed: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.mood, state.rng) = (mood, Rng::new(seed));
    }

    /// How many operations failed.
    pub(super) fn hits(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).hits
    }

    /// Whether a failed sync has lost what was dirty.
    pub(super) fn has_lost_dirty(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).has_lost_dirty
    }

    fn check(&self, op: Op, path: &Path) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mood = state.mood;
        let per_mille = match op {
            Op::Read | Op::Open | Op::OpenDirect | Op::List => mood.reads_per_mille,
            _ => mood.changes_per_mille,
        };
        if per_mille == 0 || state.rng.below(1000) >= u64::from(per_mille) {
            return Ok(());
        }
        state.hits += 1;
        let loses = op == Op::Sync && mood.loses_dirty;
        state.has_lost_dirty |= loses;
        drop(state);
        if loses {
            // A file that was renamed meanwhile keeps what it has.
            let _renamed = self.mem.lose_dirty(path);
        }
        let kind =
            if mood.is_full { std::io::ErrorKind::StorageFull } else { std::io::ErrorKind::Other };
        Err(Error::io("use (in a mood)", path, kind.into()))
    }

    fn then<T>(&self, op: Op, path: &Path, run: impl FnOnce(&MemDisk) -> Result<T>) -> Result<T> {
        self.check(op, path)?;
        run(&self.mem)
    }
}

struct Moody<T> {
    inner: T,
    path: PathBuf,
    disk: MoodyDisk,
}

impl MoodyDisk {
    fn moody<T>(&self, path: &Path, inner: T) -> Moody<T> {
        Moody { inner, path: path.to_owned(), disk: self.clone() }
    }
}

impl WriteFile for Moody<Box<dyn WriteFile>> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.disk.check(Op::Append, &self.path)?;
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.disk.check(Op::Sync, &self.path)?;
        self.inner.sync()
    }

    fn blank(&mut self, offset: u64, len: u64) -> Result<()> {
        self.disk.check(Op::Blank, &self.path)?;
        self.inner.blank(offset, len)
    }

    fn start_writeback(&mut self) -> Result<()> {
        self.inner.start_writeback()
    }

    fn reserve(&mut self, len: u64) -> Result<()> {
        self.inner.reserve(len)
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        Ok(Box::new(self.disk.moody(&self.path, self.inner.syncer()?)))
    }
}

impl SyncFile for Moody<Box<dyn SyncFile>> {
    fn sync(&self) -> Result<()> {
        self.disk.check(Op::Sync, &self.path)?;
        self.inner.sync()
    }
}

impl ReadFile for Moody<Arc<dyn ReadFile>> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.disk.check(Op::Read, &self.path)?;
        self.inner.read_exact_at(buffer, offset)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn advise(&self, access: Access) {
        self.inner.advise(access);
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl Disk for MoodyDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = self.then(Op::Create, path, |disk| disk.create(path))?;
        Ok(Box::new(self.moody(path, file)))
    }

    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = self.then(Op::Reuse, path, |disk| disk.reuse(path))?;
        Ok(Box::new(self.moody(path, file)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = self.then(Op::Open, path, |disk| disk.open(path))?;
        Ok(Arc::new(self.moody(path, file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.then(Op::Rename, from, |disk| disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.then(Op::Link, from, |disk| disk.link(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.then(Op::Remove, path, |disk| disk.remove(path))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.then(Op::CreateDir, path, |disk| disk.create_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.then(Op::List, dir, |disk| disk.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.then(Op::SyncDir, dir, |disk| disk.sync_dir(dir))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.mem.exists(path)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        self.mem.lock(path, mode)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        self.mem.free_bytes(path)
    }
}
