//! A disk that fails at random while failures are switched on, and whose failed syncs may lose
//! unsynced data.

use crate::rng::Rng;
use flagstone::internal::env::disk::{Access, SyncFile};
use flagstone::internal::env::{
    Disk, DiskLock, HeldDir, LockMode, MemDisk, Op, ReadFile, WriteFile,
};
use flagstone::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The rates of failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FailureRates {
    /// The failures among a thousand operations that change the disk.
    pub(super) changes_per_mille: u16,
    /// The failures among a thousand reads.
    pub(super) reads_per_mille: u16,
    /// Whether a failure says that the disk is full, instead of an input/output error.
    pub(super) is_full: bool,
    /// Whether a failed sync loses unsynced data, as on Linux.
    pub(super) loses_dirty: bool,
}

struct DiskState {
    rates: FailureRates,
    rng: Rng,
    hits: u64,
    has_lost_dirty: bool,
}

/// A [`MemDisk`] that fails at given rates.
#[derive(Clone)]
pub(super) struct FailingDisk {
    mem: MemDisk,
    /// The same disk, perhaps with directories that are held.
    inner: Arc<dyn Disk>,
    state: Arc<Mutex<DiskState>>,
}

impl FailingDisk {
    pub(super) fn new(mem: MemDisk) -> Self {
        let state = DiskState {
            rates: FailureRates::default(),
            rng: Rng::new(0),
            hits: 0,
            has_lost_dirty: false,
        };
        let inner = Arc::new(mem.clone());
        Self { mem, inner, state: Arc::new(Mutex::new(state)) }
    }

    /// Makes operations fail as `rates` says. `seed` chooses them.
    pub(super) fn set(&self, rates: FailureRates, seed: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.rates, state.rng) = (rates, Rng::new(seed));
    }

    /// Returns the number of operations that failed.
    pub(super) fn hits(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).hits
    }

    /// Returns whether a failed sync has lost unsynced data.
    pub(super) fn has_lost_dirty(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).has_lost_dirty
    }

    fn check(&self, op: Op, path: &Path) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rates = state.rates;
        let per_mille = match op {
            Op::Read | Op::Open | Op::OpenDirect | Op::List => rates.reads_per_mille,
            _ => rates.changes_per_mille,
        };
        if per_mille == 0 || state.rng.below(1000) >= u64::from(per_mille) {
            return Ok(());
        }
        state.hits += 1;
        let loses = op == Op::Sync && rates.loses_dirty;
        state.has_lost_dirty |= loses;
        drop(state);
        if loses {
            // A file that was renamed meanwhile keeps its data.
            let _renamed = self.mem.lose_dirty(path);
        }
        let kind =
            if rates.is_full { std::io::ErrorKind::StorageFull } else { std::io::ErrorKind::Other };
        Err(Error::io("use (injected failure)", path, kind.into()))
    }

    fn then<T>(&self, op: Op, path: &Path, run: impl FnOnce(&dyn Disk) -> Result<T>) -> Result<T> {
        self.check(op, path)?;
        run(&*self.inner)
    }
}

struct Failing<T> {
    inner: T,
    path: PathBuf,
    disk: FailingDisk,
}

impl FailingDisk {
    fn failing<T>(&self, path: &Path, inner: T) -> Failing<T> {
        Failing { inner, path: path.to_owned(), disk: self.clone() }
    }
}

impl WriteFile for Failing<Box<dyn WriteFile>> {
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
        Ok(Box::new(self.disk.failing(&self.path, self.inner.syncer()?)))
    }
}

impl SyncFile for Failing<Box<dyn SyncFile>> {
    fn sync(&self) -> Result<()> {
        self.disk.check(Op::Sync, &self.path)?;
        self.inner.sync()
    }
}

impl ReadFile for Failing<Arc<dyn ReadFile>> {
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

impl Disk for FailingDisk {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn hold(&self, dir: &Path) -> Result<HeldDir> {
        let held = self.inner.hold(dir)?;
        let disk = Arc::new(Self { inner: held.disk, ..self.clone() });
        Ok(HeldDir { disk, ..held })
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = self.then(Op::Create, path, |disk| disk.create(path))?;
        Ok(Box::new(self.failing(path, file)))
    }

    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = self.then(Op::Reuse, path, |disk| disk.reuse(path))?;
        Ok(Box::new(self.failing(path, file)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = self.then(Op::Open, path, |disk| disk.open(path))?;
        Ok(Arc::new(self.failing(path, file)))
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
        self.inner.exists(path)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        self.inner.lock(path, mode)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        self.inner.free_bytes(path)
    }
}
