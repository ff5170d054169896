//! `MemDisk`: the `Disk` that keeps names and files in memory.

use super::crash::CrashDecisions;
use super::file::Inode;
use super::held::MemHeld;
use super::names::{Names, SharedInode};
use super::state::{DiskState, EXCLUSIVE, id_of, os_error};
use crate::disk::{Access, Disk, DiskLock, HeldDir, LockMode, PAGE, ReadFile, SyncFile, WriteFile};
use crate::guard::DirGuard;
use crate::op::{Op, OpCounts};
use flagstone_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system in memory. A clone is another handle of the same disk.
///
/// The model of a power cut: everything synced survives. Any subset of a file's unsynced 512-byte
/// sectors survives; the others keep their old bytes or are zero. The length of the file is any
/// between the synced and the written one. Any subset of unsynced creations, renames, links and
/// removals survives, a rename always as a whole. Directories survive as soon as they are created.
///
/// A directory may be moved or removed while it is held, and relative paths follow
/// [`MemDisk::change_dir`].
#[derive(Clone, Default)]
pub struct MemDisk {
    state: Arc<Mutex<DiskState>>,
    held: Vec<MemHeld>,
}

impl MemDisk {
    /// Returns the disk as a power cut at this moment would leave it. `seed` decides which unsynced
    /// changes survive. This disk is unchanged; no locks are held on the new one.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        self.after(|names| names.crash(&CrashDecisions::random(seed)))
    }

    /// Returns the disk as the worst power cut would leave it: everything unsynced is lost.
    #[must_use]
    pub fn crash_losing_unsynced(&self) -> Self {
        self.after(|names| names.crash(&CrashDecisions::lose_all()))
    }

    /// Returns the disk as it is after the process was killed: everything written is there, but a
    /// later power cut can still lose what was not synced.
    #[must_use]
    pub fn kill(&self) -> Self {
        self.after(Names::copy)
    }

    fn after(&self, event: impl FnOnce(&Names) -> Names) -> Self {
        let state = self.state.lock();
        let (names, current) = (event(&state.names), state.current.clone());
        let state = Arc::new(Mutex::new(DiskState { names, current, ..DiskState::default() }));
        Self { state, held: Vec::new() }
    }

    /// Moves a directory with all that is in it, whoever has it open. It arrives durably.
    pub fn rename_dir(&self, from: &Path, to: &Path) {
        self.state.lock().names.rename_dir(from, to);
    }

    /// Removes a directory with all that is in it, whoever has it open.
    pub fn remove_dir(&self, dir: &Path) {
        self.state.lock().names.remove_dir(dir);
    }

    /// Changes the directory in which relative paths begin, as a process does.
    pub fn change_dir(&self, dir: &Path) {
        let mut state = self.state.lock();
        state.current = state.current.join(dir);
    }

    /// The path, now, of what the caller calls `path`.
    fn find(&self, state: &DiskState, op: Op, path: &Path) -> Result<PathBuf> {
        let inside = self.held.iter().filter(|held| path.starts_with(&held.path));
        match inside.max_by_key(|held| held.path.as_os_str().len()) {
            Some(held) => held
                .find(&state.names, path)
                .ok_or_else(|| os_error(op, path, io::ErrorKind::NotFound)),
            None if path.is_relative() && !state.current.as_os_str().is_empty() => {
                Ok(state.current.join(path))
            }
            None => Ok(path.to_owned()),
        }
    }

    /// The guard of the held directory that `path` is in.
    fn guard(&self, path: &Path) -> Option<&Arc<DirGuard>> {
        let inside = self.held.iter().filter(|held| path.starts_with(&held.path));
        inside.max_by_key(|held| held.path.as_os_str().len()).map(|held| &held.guard)
    }

    /// Refuses a change in a directory that is held and lost. Called without the lock of the disk.
    fn check(&self, path: &Path) -> Result<()> {
        self.guard(path).map_or(Ok(()), |guard| guard.check())
    }

    /// Counts an operation that changes nothing, and finds its file. What is missing in a directory
    /// that is gone is no news.
    fn file_to_read(&self, op: Op, path: &Path) -> Result<(SharedInode, u64)> {
        let mut state = self.state.lock();
        state.counts.add(op);
        let found = self.find(&state, op, path).and_then(|now| state.file(op, &now, path));
        drop(state);
        match found {
            Err(error) if error.is_missing_file() => Err(self.check(path).err().unwrap_or(error)),
            found => found.map(|file| {
                let len = file.lock().data.len() as u64;
                (file, len)
            }),
        }
    }

    /// The number of operations of each kind that were performed on this disk.
    pub fn counts(&self) -> OpCounts {
        self.state.lock().counts
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// Io when there is no such file.
    pub fn content(&self, path: &Path) -> Result<Vec<u8>> {
        let (file, _) = self.file_to_read(Op::Open, path)?;
        let content = file.lock().data.clone();
        Ok(content)
    }

    /// Replaces the content of a file durably, and creates the file if it is missing. Tests damage
    /// a disk with it.
    pub fn put_content(&self, path: &Path, content: &[u8]) {
        let mut inode = Inode::default();
        inode.write_at(0, content);
        inode.sync();
        let mut state = self.state.lock();
        let path = self.find(&state, Op::Create, path).unwrap_or_else(|_| path.to_owned());
        if let Some(dir) = path.parent() {
            state.names.make_dir(dir);
        }
        match state.names.get(&path) {
            Some(file) => *file.lock() = inode,
            None => {
                state.names.make(&path, Arc::new(Mutex::new(inode)));
                state.names.sync_dir(path.parent().unwrap_or(Path::new("")));
            }
        }
    }

    /// Puts a file into the state after a failed sync, as on Linux. The dirty bytes count as
    /// written, so that the next sync succeeds, and readers see them until their pages leave the
    /// cache ([`Access::Done`]); but the device does not have them.
    ///
    /// # Errors
    /// Io when there is no such file.
    pub fn lose_dirty(&self, path: &Path) -> Result<()> {
        let state = self.state.lock();
        let now = self.find(&state, Op::Sync, path)?;
        state.file(Op::Sync, &now, path)?.lock().lose();
        Ok(())
    }

    fn reader(&self, op: Op, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let (file, len) = self.file_to_read(op, path)?;
        Ok(Arc::new(MemReadFile { file: self.handle(path, file), len }))
    }

    fn writer(
        &self,
        path: &Path,
        file: SharedInode,
        whole_pages: Option<u64>,
    ) -> Box<dyn WriteFile> {
        Box::new(MemWriteFile { file: self.handle(path, file), position: 0, whole_pages })
    }

    fn handle(&self, path: &Path, file: SharedInode) -> MemFile {
        let (state, guard) = (Arc::clone(&self.state), self.guard(path).map(Arc::clone));
        MemFile { file, path: path.to_owned(), state, guard }
    }
}

#[derive(Clone)]
struct MemFile {
    file: SharedInode,
    path: PathBuf,
    state: Arc<Mutex<DiskState>>,
    guard: Option<Arc<DirGuard>>,
}

struct MemWriteFile {
    file: MemFile,
    position: u64,
    /// In a reused file: all pages before this offset were written as a whole, as the real disk
    /// does it.
    whole_pages: Option<u64>,
}

struct MemReadFile {
    file: MemFile,
    len: u64,
}

struct MemLock {
    file: SharedInode,
    held: Option<MemHeld>,
    state: Arc<Mutex<DiskState>>,
}

impl DiskLock for MemLock {
    fn unwatch(&self) {
        if let Some(held) = &self.held {
            held.set_locked(None);
        }
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.unwatch();
        let locked = &mut self.state.lock().locked;
        match locked.get_mut(&id_of(&self.file)) {
            Some(holders) if *holders != EXCLUSIVE && *holders > 1 => *holders -= 1,
            _ => {
                locked.remove(&id_of(&self.file));
            }
        }
    }
}

impl SyncFile for MemFile {
    fn sync(&self) -> Result<()> {
        // A file of a directory that was removed is synced to nothing.
        self.guard.as_ref().map_or(Ok(()), |guard| guard.check())?;
        // Every change holds the lock of the whole disk, so a crash sees all files at the same
        // moment.
        let mut state = self.state.lock();
        state.counts.add(Op::Sync);
        self.file.lock().sync();
        Ok(())
    }
}

impl WriteFile for MemWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(guard) = &self.file.guard {
            guard.check_at_append()?;
        }
        let mut state = self.file.state.lock();
        state.counts.add(Op::Append);
        state.counts.bytes_appended += bytes.len() as u64;
        let mut inode = self.file.file.lock();
        inode.write_at(self.position as usize, bytes);
        self.position += bytes.len() as u64;
        let page_end = self.position.next_multiple_of(PAGE);
        if let Some(whole) = &mut self.whole_pages
            && self.position > *whole
            && page_end <= inode.data.len() as u64
        {
            inode.write_at(self.position as usize, &vec![0; (page_end - self.position) as usize]);
            *whole = page_end;
        }
        Ok(())
    }

    fn blank(&mut self, offset: u64, len: u64) -> Result<()> {
        let mut state = self.file.state.lock();
        state.counts.add(Op::Blank);
        let mut inode = self.file.file.lock();
        let len = (inode.data.len() as u64).saturating_sub(offset).min(len);
        inode.write_at(offset as usize, &vec![0; len as usize]);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        SyncFile::sync(&self.file)
    }

    fn start_writeback(&mut self) -> Result<()> {
        Ok(())
    }

    fn reserve(&mut self, _len: u64) -> Result<()> {
        self.file.state.lock().counts.add(Op::Reserve);
        Ok(())
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        Ok(Box::new(self.file.clone()))
    }
}

impl ReadFile for MemReadFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let mut state = self.file.state.lock();
        state.counts.add(Op::Read);
        state.counts.bytes_read += buffer.len() as u64;
        drop(state);
        let inode = self.file.file.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = inode.data.get(start..).and_then(|rest| rest.get(..buffer.len()));
        let Some(found) = found else {
            return Err(Error::corruption(
                self.file.path.display(),
                offset,
                format_args!("expected {} bytes, the file ends before", buffer.len()),
            ));
        };
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise(&self, access: Access) {
        let _state = self.file.state.lock();
        if access == Access::Done {
            self.file.file.lock().evict();
        }
    }

    fn path(&self) -> &Path {
        &self.file.path
    }
}

impl Disk for MemDisk {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        Ok(self.state.lock().current.join(path))
    }

    fn hold(&self, dir: &Path) -> Result<HeldDir> {
        let path = self.absolute(dir)?;
        let state = self.state.lock();
        let now = self.find(&state, Op::Open, &path)?;
        let Some(id) = state.names.dir_at(&now) else {
            return Err(os_error(Op::Open, dir, io::ErrorKind::NotFound));
        };
        drop(state);
        let new = MemHeld::new(&path, id, &self.state);
        let guard = Arc::clone(&new.guard);
        let held = self.held.iter().cloned().chain([new]).collect();
        let disk = Arc::new(Self { state: Arc::clone(&self.state), held });
        Ok(HeldDir { disk, path, guard })
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.check(path)?;
        let mut state = self.state.lock();
        state.counts.add(Op::Create);
        let now = self.find(&state, Op::Create, path)?;
        state.check_new(Op::Create, &now)?;
        let file = SharedInode::default();
        state.names.make(&now, Arc::clone(&file));
        Ok(self.writer(path, file, None))
    }

    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.check(path)?;
        let (file, _) = self.file_to_read(Op::Reuse, path)?;
        Ok(self.writer(path, file, Some(0)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.reader(Op::Open, path)
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.reader(Op::OpenDirect, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check(from)?;
        self.check(to)?;
        let mut state = self.state.lock();
        state.counts.add(Op::Rename);
        let old = self.find(&state, Op::Rename, from)?;
        let new = self.find(&state, Op::Rename, to)?;
        let file = state.file(Op::Rename, &old, from)?;
        if !state.names.has_room_for(&new) {
            return Err(os_error(Op::Rename, to, io::ErrorKind::NotFound));
        }
        state.names.rename(&old, &new, file);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.check(to)?;
        let mut state = self.state.lock();
        state.counts.add(Op::Link);
        let old = self.find(&state, Op::Link, from)?;
        let new = self.find(&state, Op::Link, to)?;
        let file = state.file(Op::Link, &old, from)?;
        state.check_new(Op::Link, &new)?;
        state.names.make(&new, file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.check(path)?;
        let mut state = self.state.lock();
        state.counts.add(Op::Remove);
        let now = self.find(&state, Op::Remove, path)?;
        let file = state.file(Op::Remove, &now, path)?;
        state.names.remove(&now, file);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.check(path)?;
        let mut state = self.state.lock();
        state.counts.add(Op::CreateDir);
        let now = self.find(&state, Op::CreateDir, path)?;
        if now.ancestors().any(|part| state.names.get(part).is_some()) {
            return Err(os_error(Op::CreateDir, path, io::ErrorKind::AlreadyExists));
        }
        state.names.make_dir(&now);
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut state = self.state.lock();
        state.counts.add(Op::List);
        let now = self.find(&state, Op::List, dir)?;
        if !state.names.is_dir(&now) {
            return Err(os_error(Op::List, dir, io::ErrorKind::NotFound));
        }
        Ok(state.names.list(&now))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.check(dir)?;
        let mut state = self.state.lock();
        state.counts.add(Op::SyncDir);
        let now = self.find(&state, Op::SyncDir, dir)?;
        if !state.names.is_dir(&now) {
            return Err(os_error(Op::SyncDir, dir, io::ErrorKind::NotFound));
        }
        state.names.sync_dir(&now);
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let state = self.state.lock();
        let Ok(now) = self.find(&state, Op::Open, path) else { return Ok(false) };
        Ok(state.names.get(&now).is_some() || state.names.is_dir(&now))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        self.check(path)?;
        let mut state = self.state.lock();
        state.counts.add(Op::Lock);
        let now = self.find(&state, Op::Lock, path)?;
        if mode == LockMode::Exclusive && state.names.get(&now).is_none() {
            state.check_new(Op::Lock, &now)?;
            state.names.make(&now, SharedInode::default());
        }
        let file = state.file(Op::Lock, &now, path)?;
        let holders = state.locked.entry(id_of(&file)).or_default();
        let free = *holders == 0 || (mode == LockMode::Shared && *holders != EXCLUSIVE);
        if free {
            *holders = if mode == LockMode::Shared { *holders + 1 } else { EXCLUSIVE };
        } else {
            let text = format!("{} is locked by another handle of this disk", path.display());
            return Err(Error::new(ErrorKind::Busy, text));
        }
        drop(state);
        let held = self.held.iter().find(|held| path.starts_with(&held.path)).cloned();
        if let Some(held) = &held {
            held.set_locked(Some((path, &file)));
        }
        Ok(Box::new(MemLock { file, held, state: Arc::clone(&self.state) }))
    }

    fn free_bytes(&self, _path: &Path) -> Result<u64> {
        Ok(1 << 50)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
