//! A disk for tests that fails on purpose: at the Nth operation of a kind, once or from then on, or
//! at all operations after a power cut. It can also be full, run out of descriptors, or flip a bit
//! in a read.

use crate::disk::{Access, Disk, DiskLock, HeldDir, LockMode, ReadFile, SyncFile, WriteFile};
use crate::names::{FileKind, Name, parse};
use crate::op::Op;
use crate::sync::model_point;
use flagstone_base::{Error, Result};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The error that a failing disk reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An input/output error (EIO).
    Io,
    /// No space left (ENOSPC).
    NoSpace,
    /// Too many open files (EMFILE).
    NoDescriptor,
    /// Another device (EXDEV), as for a link from one file system to another.
    OtherDevice,
}

impl Failure {
    fn error(self, op: Op, path: &Path) -> Error {
        #[cfg(unix)]
        let code = match self {
            Self::Io => libc::EIO,
            Self::NoSpace => libc::ENOSPC,
            Self::NoDescriptor => libc::EMFILE,
            Self::OtherDevice => libc::EXDEV,
        };
        // ERROR_IO_DEVICE, ERROR_DISK_FULL, ERROR_TOO_MANY_OPEN_FILES, ERROR_NOT_SAME_DEVICE.
        #[cfg(windows)]
        let code = match self {
            Self::Io => 1117,
            Self::NoSpace => 112,
            Self::NoDescriptor => 4,
            Self::OtherDevice => 17,
        };
        Error::io(op.doing(), path, std::io::Error::from_raw_os_error(code))
    }
}

/// What happens to the operation that a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The operation fails and has no effect.
    Fail(Failure),
    /// An append writes at most this many bytes, then fails. Other operations fail without effect.
    Short(usize, Failure),
    /// The operation is performed, but reports a failure.
    FailAfter(Failure),
    /// The operation and all later ones fail: the power is off.
    PowerCut,
    /// The operation panics.
    Panic,
    /// A read returns this bit flipped (counted from the start of the buffer, modulo its length).
    FlipBit(usize),
}

/// A plan for one failure: which operations count, which of them is hit, and what happens to it.
#[derive(Clone, Debug)]
pub struct Fault {
    effect: Effect,
    ops: Vec<Op>,
    kind: Option<FileKind>,
    nth: u64,
    forever: bool,
}

impl Fault {
    /// A fault that hits the first operation of any kind, once.
    pub const fn new(effect: Effect) -> Self {
        Self { effect, ops: Vec::new(), kind: None, nth: 1, forever: false }
    }

    /// Counts only operations of these kinds.
    #[must_use]
    pub fn on(mut self, ops: &[Op]) -> Self {
        self.ops = ops.to_vec();
        self
    }

    /// Counts only operations on files of this kind.
    #[must_use]
    pub const fn of(mut self, kind: FileKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Hits the `nth` counted operation, from 1.
    #[must_use]
    pub const fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self
    }

    /// Hits every later counted operation, too.
    #[must_use]
    pub const fn forever(mut self) -> Self {
        self.forever = true;
        self
    }

    fn counts(&self, op: Op, path: &Path) -> bool {
        let name = || path.file_name().map(|name| parse(&name.to_string_lossy()));
        (self.ops.is_empty() || self.ops.contains(&op))
            && self.kind.is_none_or(|kind| match name() {
                Some(Name::Numbered(found, _)) => found == kind,
                _ => false,
            })
    }
}

#[derive(Default)]
struct Plan {
    faults: Vec<(Fault, u64)>,
    operations: u64,
    hits: u64,
    is_off: bool,
    /// The number of bytes that still fit on the disk; `None` for no limit.
    room: Option<u64>,
    /// The number of descriptors in use, and its limit.
    open_files: usize,
    open_files_max: Option<usize>,
}

type SharedPlan = Arc<Mutex<Plan>>;

impl Plan {
    /// Counts an operation. Returns its effect if a fault hits it.
    fn next(&mut self, op: Op, path: &Path) -> Option<Effect> {
        self.operations += 1;
        let mut effect = None;
        for (fault, seen) in &mut self.faults {
            if fault.counts(op, path) {
                *seen += 1;
                if *seen == fault.nth || (fault.forever && *seen > fault.nth) {
                    effect = effect.or(Some(fault.effect));
                }
            }
        }
        self.is_off |= effect == Some(Effect::PowerCut);
        self.hits += u64::from(effect.is_some());
        if self.is_off { Some(Effect::PowerCut) } else { effect }
    }
}

/// The descriptors of a file, released when dropped.
struct Descriptors {
    plan: SharedPlan,
    count: usize,
}

impl Descriptors {
    fn take(plan: &SharedPlan, count: usize, op: Op, path: &Path) -> Result<Self> {
        let mut now = plan.lock();
        if now.open_files_max.is_some_and(|max| now.open_files + count > max) {
            return Err(Failure::NoDescriptor.error(op, path));
        }
        now.open_files += count;
        Ok(Self { plan: Arc::clone(plan), count })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        self.plan.lock().open_files -= self.count;
    }
}

/// A disk over another one that fails as planned. A clone shares the plan.
#[derive(Clone)]
pub struct FaultDisk {
    inner: Arc<dyn Disk>,
    plan: SharedPlan,
}

impl FaultDisk {
    /// A disk over `inner` that works until a fault is injected.
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        Self { inner, plan: SharedPlan::default() }
    }

    /// Adds a fault, which counts operations from now on.
    pub fn inject(&self, fault: Fault) {
        self.plan.lock().faults.push((fault, 0));
    }

    /// Cuts the power at the `nth` operation from now (from 1) that changes the disk. That
    /// operation and all later ones fail.
    pub fn cut_power_at(&self, nth: u64) {
        self.inject(Fault::new(Effect::PowerCut).on(&Op::CHANGES).nth(nth));
    }

    /// Removes all faults and switches the power on again.
    pub fn heal(&self) {
        let mut plan = self.plan.lock();
        plan.faults.clear();
        plan.is_off = false;
    }

    /// Limits the disk to `bytes` more from now on. Removed files free their space. `None` removes
    /// the limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.plan.lock().room = bytes;
    }

    /// Limits the number of descriptors that can be in use at once, as the system does for a
    /// process. `None` removes the limit.
    pub fn set_open_files_max(&self, max: Option<usize>) {
        self.plan.lock().open_files_max = max;
    }

    /// The number of descriptors in use: one for each file, two for a file that is read without the
    /// page cache.
    pub fn open_files(&self) -> usize {
        self.plan.lock().open_files
    }

    /// The number of operations requested so far.
    pub fn operations(&self) -> u64 {
        self.plan.lock().operations
    }

    /// The number of operations that a fault has hit so far; a power cut counts once.
    pub fn hits(&self) -> u64 {
        self.plan.lock().hits
    }

    /// Returns whether the power is off.
    pub fn is_off(&self) -> bool {
        self.plan.lock().is_off
    }

    fn run<T>(&self, op: Op, path: &Path, action: impl FnOnce() -> Result<T>) -> Result<T> {
        run(&self.plan, op, path, action)
    }

    fn len_of(&self, path: &Path) -> u64 {
        self.inner.open(path).map_or(0, |file| file.len())
    }

    fn writer(
        &self,
        op: Op,
        path: &Path,
        len: u64,
        open: impl FnOnce() -> Result<Box<dyn WriteFile>>,
    ) -> Result<Box<dyn WriteFile>> {
        let descriptors = Descriptors::take(&self.plan, 1, op, path)?;
        let (inner, plan) = (self.run(op, path, open)?, Arc::clone(&self.plan));
        Ok(Box::new(FaultWriteFile {
            inner,
            path: path.to_owned(),
            plan,
            len,
            _descriptors: descriptors,
        }))
    }

    fn reader(
        &self,
        op: Op,
        path: &Path,
        count: usize,
        open: impl FnOnce() -> Result<Arc<dyn ReadFile>>,
    ) -> Result<Arc<dyn ReadFile>> {
        let descriptors = Descriptors::take(&self.plan, count, op, path)?;
        let (inner, plan) = (self.run(op, path, open)?, Arc::clone(&self.plan));
        Ok(Arc::new(FaultReadFile { inner, plan, _descriptors: descriptors }))
    }

    fn give_back(&self, bytes: u64) {
        if let Some(room) = &mut self.plan.lock().room {
            *room = room.saturating_add(bytes);
        }
    }
}

#[expect(clippy::panic, reason = "the test that injects it wants a panic")]
fn panic_on(op: Op, path: &Path) -> ! {
    panic!("an injected panic: {} {}", op.doing(), path.display())
}

fn run<T>(plan: &SharedPlan, op: Op, path: &Path, action: impl FnOnce() -> Result<T>) -> Result<T> {
    model_point();
    let effect = plan.lock().next(op, path);
    match effect {
        None | Some(Effect::FlipBit(_)) => action(),
        Some(Effect::Fail(failure) | Effect::Short(_, failure)) => Err(failure.error(op, path)),
        Some(Effect::PowerCut) => Err(Failure::Io.error(op, path)),
        Some(Effect::Panic) => panic_on(op, path),
        Some(Effect::FailAfter(failure)) => {
            action()?;
            Err(failure.error(op, path))
        }
    }
}

struct FaultWriteFile {
    inner: Box<dyn WriteFile>,
    path: PathBuf,
    plan: SharedPlan,
    /// The length of the file: overwriting bytes within it takes no space.
    len: u64,
    _descriptors: Descriptors,
}

impl FaultWriteFile {
    /// Takes space for an append of `wanted` bytes, and returns the number of bytes that fit on the
    /// disk.
    fn take_room(&mut self, wanted: usize) -> usize {
        let position = self.inner.position();
        let mut plan = self.plan.lock();
        let mut fits = wanted;
        if let Some(room) = &mut plan.room {
            let within = self.len.saturating_sub(position);
            let added = (wanted as u64).saturating_sub(within).min(*room);
            *room -= added;
            fits = (within + added).min(wanted as u64) as usize;
        }
        self.len = self.len.max(position + fits as u64);
        fits
    }
}

impl WriteFile for FaultWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        model_point();
        let effect = self.plan.lock().next(Op::Append, &self.path);
        let (arrives, failure) = match effect {
            None | Some(Effect::FlipBit(_)) => (bytes.len(), None),
            Some(Effect::Fail(failure)) => (0, Some(failure)),
            Some(Effect::PowerCut) => (0, Some(Failure::Io)),
            Some(Effect::Panic) => panic_on(Op::Append, &self.path),
            Some(Effect::Short(most, failure)) => (bytes.len().min(most), Some(failure)),
            Some(Effect::FailAfter(failure)) => (bytes.len(), Some(failure)),
        };
        let fits = self.take_room(arrives);
        if fits > 0 {
            self.inner.append(&bytes[..fits])?;
        }
        let failure = failure.or((fits < bytes.len()).then_some(Failure::NoSpace));
        failure.map_or(Ok(()), |failure| Err(failure.error(Op::Append, &self.path)))
    }

    fn blank(&mut self, offset: u64, len: u64) -> Result<()> {
        run(&self.plan, Op::Blank, &self.path, || self.inner.blank(offset, len))
    }

    fn sync(&mut self) -> Result<()> {
        run(&self.plan, Op::Sync, &self.path, || self.inner.sync())
    }

    fn start_writeback(&mut self) -> Result<()> {
        self.inner.start_writeback()
    }

    fn reserve(&mut self, len: u64) -> Result<()> {
        run(&self.plan, Op::Reserve, &self.path, || self.inner.reserve(len))
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        let descriptors = Descriptors::take(&self.plan, 1, Op::Open, &self.path)?;
        let inner = self.inner.syncer()?;
        let (path, plan) = (self.path.clone(), Arc::clone(&self.plan));
        Ok(Box::new(FaultSyncFile { inner, path, plan, _descriptors: descriptors }))
    }
}

struct FaultSyncFile {
    inner: Box<dyn SyncFile>,
    path: PathBuf,
    plan: SharedPlan,
    _descriptors: Descriptors,
}

impl SyncFile for FaultSyncFile {
    fn sync(&self) -> Result<()> {
        run(&self.plan, Op::Sync, &self.path, || self.inner.sync())
    }
}

struct FaultReadFile {
    inner: Arc<dyn ReadFile>,
    plan: SharedPlan,
    _descriptors: Descriptors,
}

impl ReadFile for FaultReadFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        model_point();
        let path = self.inner.path();
        let effect = self.plan.lock().next(Op::Read, path);
        match effect {
            None => self.inner.read_exact_at(buffer, offset),
            Some(Effect::FlipBit(bit)) => {
                self.inner.read_exact_at(buffer, offset)?;
                if !buffer.is_empty() {
                    let bit = bit % (buffer.len() * 8);
                    buffer[bit / 8] ^= 1 << (bit % 8);
                }
                Ok(())
            }
            Some(Effect::PowerCut) => Err(Failure::Io.error(Op::Read, path)),
            Some(Effect::Panic) => panic_on(Op::Read, path),
            Some(Effect::Fail(f) | Effect::Short(_, f) | Effect::FailAfter(f)) => {
                Err(f.error(Op::Read, path))
            }
        }
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

impl Disk for FaultDisk {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn hold(&self, dir: &Path) -> Result<HeldDir> {
        let held = self.inner.hold(dir)?;
        let disk = Arc::new(Self { inner: held.disk, plan: Arc::clone(&self.plan) });
        Ok(HeldDir { disk, ..held })
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        if self.plan.lock().room == Some(0) {
            return Err(Failure::NoSpace.error(Op::Create, path));
        }
        self.writer(Op::Create, path, 0, || self.inner.create(path))
    }

    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.writer(Op::Reuse, path, self.len_of(path), || self.inner.reuse(path))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.reader(Op::Open, path, 1, || self.inner.open(path))
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.reader(Op::OpenDirect, path, 2, || self.inner.open_direct(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let replaced = self.len_of(to);
        self.run(Op::Rename, from, || self.inner.rename(from, to))?;
        self.give_back(replaced);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.run(Op::Link, from, || self.inner.link(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.len_of(path);
        self.run(Op::Remove, path, || self.inner.remove(path))?;
        self.give_back(removed);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.run(Op::CreateDir, path, || self.inner.create_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.run(Op::List, dir, || self.inner.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.run(Op::SyncDir, dir, || self.inner.sync_dir(dir))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        self.run(Op::Lock, path, || self.inner.lock(path, mode))
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        let free = self.inner.free_bytes(path)?;
        Ok(self.plan.lock().room.map_or(free, |room| room.min(free)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemDisk;
    use flagstone_base::ErrorKind;

    fn disks() -> (MemDisk, FaultDisk) {
        let mem = MemDisk::default();
        (mem.clone(), FaultDisk::new(Arc::new(mem)))
    }

    #[test]
    fn the_nth_operation_of_its_kind_fails_once() {
        let (_, disk) = disks();
        let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Append]);
        disk.inject(fault.of(FileKind::Wal).nth(2));
        let mut other = disk.create(Path::new("000001.sst")).unwrap();
        let mut wal = disk.create(Path::new("000001.wal")).unwrap();
        other.append(b"1").unwrap();
        other.append(b"2").unwrap();
        wal.append(b"3").unwrap();
        assert_eq!(wal.append(b"4").unwrap_err().kind(), ErrorKind::Io);
        wal.append(b"5").unwrap();
        assert_eq!(wal.position(), 2);
        assert_eq!(disk.hits(), 1);
    }

    #[test]
    fn a_lasting_fault_lasts_until_it_is_healed() {
        let (_, disk) = disks();
        let mut file = disk.create(Path::new("a")).unwrap();
        disk.inject(Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Sync]).forever());
        let syncer = file.syncer().unwrap();
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert_eq!(syncer.sync().unwrap_err().kind(), ErrorKind::OutOfSpace);
        disk.heal();
        assert!(file.sync().is_ok() && syncer.sync().is_ok());
    }

    #[test]
    fn a_short_append_leaves_a_part_and_a_late_failure_leaves_all() {
        let (mem, disk) = disks();
        let mut file = disk.create(Path::new("a")).unwrap();
        disk.inject(Fault::new(Effect::Short(3, Failure::Io)));
        assert!(file.append(b"abcdef").is_err());
        disk.inject(Fault::new(Effect::FailAfter(Failure::Io)));
        assert!(file.append(b"XY").is_err());
        assert_eq!(mem.content(Path::new("a")).unwrap(), b"abcXY");
    }

    #[test]
    fn after_a_power_cut_everything_fails_and_the_disk_below_can_crash() {
        let (mem, disk) = disks();
        disk.cut_power_at(4);
        let mut file = disk.create(Path::new("a")).unwrap();
        file.append(b"kept").unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        assert!(!disk.is_off());
        assert!(file.sync().is_err());
        assert!(disk.is_off());
        assert!(file.append(b"x").is_err());
        assert!(disk.open(Path::new("a")).is_err());
        assert_eq!(disk.hits(), 1);
        assert_eq!(mem.crash_losing_unsynced().content(Path::new("a")).unwrap(), b"");
        disk.heal();
        file.sync().unwrap();
        assert_eq!(mem.crash_losing_unsynced().content(Path::new("a")).unwrap(), b"kept");
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_works_again_when_there_is_space() {
        let (mem, disk) = disks();
        let mut file = disk.create(Path::new("a")).unwrap();
        disk.set_room(Some(4));
        assert_eq!(disk.free_bytes(Path::new("")).unwrap(), 4);
        assert_eq!(file.append(b"abcdef").unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert_eq!(mem.content(Path::new("a")).unwrap(), b"abcd");
        assert_eq!(disk.create(Path::new("b")).err().unwrap().kind(), ErrorKind::OutOfSpace);
        let mut again = disk.reuse(Path::new("a")).unwrap();
        again.append(b"1234").unwrap();
        assert!(again.append(b"5").is_err());
        disk.remove(Path::new("a")).unwrap();
        disk.create(Path::new("b")).unwrap().append(b"four").unwrap();
        disk.set_room(None);
        file.append(&[0; 1000]).unwrap();
    }

    #[test]
    fn a_part_is_blanked_on_a_full_disk_and_survives_a_power_cut_once_synced() {
        let (mem, disk) = disks();
        let path = Path::new("a");
        let mut file = disk.create(path).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.append(b"abcdef").unwrap();
        file.sync().unwrap();
        disk.set_room(Some(0));
        file.blank(4, 10).unwrap();
        assert_eq!(mem.content(path).unwrap(), b"abcd\0\0");
        assert_eq!(mem.crash_losing_unsynced().content(path).unwrap(), b"abcdef");
        file.sync().unwrap();
        assert_eq!(mem.crash_losing_unsynced().content(path).unwrap(), b"abcd\0\0");
        assert_eq!(file.position(), 6);
        disk.inject(Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Blank]));
        assert_eq!(file.blank(0, 1).unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn a_read_returns_one_flipped_bit() {
        let (_, disk) = disks();
        disk.create(Path::new("a")).unwrap().append(&[0; 8]).unwrap();
        disk.inject(Fault::new(Effect::FlipBit(9)).on(&[Op::Read]).nth(2));
        let file = disk.open(Path::new("a")).unwrap();
        let mut buffer = [0; 4];
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert_eq!(buffer, [0; 4]);
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert_eq!(buffer, [0, 2, 0, 0]);
    }
}
