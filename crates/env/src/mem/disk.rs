//! `MemDisk`: the `Disk` that keeps names and files in memory.

use super::file::Inode;
use super::names::{CrashDecisions, Names, Shared};
use crate::disk::{Access, Disk, DiskLock, LockMode, PAGE, ReadFile, SyncFile, WriteFile};
use crate::op::{Op, OpCounts};
use flagstone_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system in memory. A clone is another handle of the same disk.
///
/// The model of a power cut: everything synced survives. Any subset of a file's unsynced 512-byte
/// sectors survives; the others keep their old bytes or are zero. The length of the file is any
/// between the synced and the written one. Any subset of unsynced creations, renames, links and
/// removals survives, a rename always as a whole. Directories survive as soon as they are created.
#[derive(Clone, Default)]
pub struct MemDisk {
    state: Arc<Mutex<DiskState>>,
}

/// The count of an exclusive lock: more than the number of handles that can ever share one.
const EXCLUSIVE: usize = usize::MAX;

#[derive(Default)]
struct DiskState {
    names: Names,
    /// The number of holders of each lock, or `EXCLUSIVE`.
    locked: BTreeMap<PathBuf, usize>,
    counts: OpCounts,
}

fn os_error(op: Op, path: &Path, kind: io::ErrorKind) -> Error {
    Error::io(op.doing(), path, kind.into())
}

impl DiskState {
    fn file(&self, op: Op, path: &Path) -> Result<Shared> {
        let found = self.names.get(path).map(Arc::clone);
        found.ok_or_else(|| os_error(op, path, io::ErrorKind::NotFound))
    }

    /// Refuses a new name that exists, or whose directory does not exist.
    fn check_new(&self, op: Op, path: &Path) -> Result<()> {
        if self.names.get(path).is_some() || self.names.is_dir(path) {
            return Err(os_error(op, path, io::ErrorKind::AlreadyExists));
        }
        if !self.names.has_room_for(path) {
            return Err(os_error(op, path, io::ErrorKind::NotFound));
        }
        Ok(())
    }
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
        let names = event(&self.state.lock().names);
        Self { state: Arc::new(Mutex::new(DiskState { names, ..DiskState::default() })) }
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
        let file = self.state.lock().file(Op::Open, path)?;
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
        if let Some(dir) = path.parent() {
            state.names.make_dir(dir);
        }
        match state.names.get(path) {
            Some(file) => *file.lock() = inode,
            None => {
                state.names.make(path, Arc::new(Mutex::new(inode)));
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
        self.state.lock().file(Op::Sync, path)?.lock().lose();
        Ok(())
    }

    fn reader(&self, op: Op, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let mut state = self.state.lock();
        state.counts.add(op);
        let file = state.file(op, path)?;
        let len = file.lock().data.len() as u64;
        let file = MemFile { file, path: path.to_owned(), state: Arc::clone(&self.state) };
        Ok(Arc::new(MemReadFile { file, len }))
    }

    fn writer(&self, path: &Path, file: Shared, whole_pages: Option<u64>) -> Box<dyn WriteFile> {
        let file = MemFile { file, path: path.to_owned(), state: Arc::clone(&self.state) };
        Box::new(MemWriteFile { file, position: 0, whole_pages })
    }
}

#[derive(Clone)]
struct MemFile {
    file: Shared,
    path: PathBuf,
    state: Arc<Mutex<DiskState>>,
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
    path: PathBuf,
    state: Arc<Mutex<DiskState>>,
}

impl DiskLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        let locked = &mut self.state.lock().locked;
        match locked.get_mut(&self.path) {
            Some(holders) if *holders != EXCLUSIVE && *holders > 1 => *holders -= 1,
            _ => {
                locked.remove(&self.path);
            }
        }
    }
}

impl SyncFile for MemFile {
    fn sync(&self) -> Result<()> {
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
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let mut state = self.state.lock();
        state.counts.add(Op::Create);
        state.check_new(Op::Create, path)?;
        let file = Shared::default();
        state.names.make(path, Arc::clone(&file));
        Ok(self.writer(path, file, None))
    }

    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let mut state = self.state.lock();
        state.counts.add(Op::Reuse);
        Ok(self.writer(path, state.file(Op::Reuse, path)?, Some(0)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.reader(Op::Open, path)
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.reader(Op::OpenDirect, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.counts.add(Op::Rename);
        let file = state.file(Op::Rename, from)?;
        if !state.names.has_room_for(to) {
            return Err(os_error(Op::Rename, to, io::ErrorKind::NotFound));
        }
        state.names.rename(from, to, file);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.counts.add(Op::Link);
        let file = state.file(Op::Link, from)?;
        state.check_new(Op::Link, to)?;
        state.names.make(to, file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.counts.add(Op::Remove);
        let file = state.file(Op::Remove, path)?;
        state.names.remove(path, file);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.counts.add(Op::CreateDir);
        if path.ancestors().any(|part| state.names.get(part).is_some()) {
            return Err(os_error(Op::CreateDir, path, io::ErrorKind::AlreadyExists));
        }
        state.names.make_dir(path);
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut state = self.state.lock();
        state.counts.add(Op::List);
        if !state.names.is_dir(dir) {
            return Err(os_error(Op::List, dir, io::ErrorKind::NotFound));
        }
        Ok(state.names.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.counts.add(Op::SyncDir);
        if !state.names.is_dir(dir) {
            return Err(os_error(Op::SyncDir, dir, io::ErrorKind::NotFound));
        }
        state.names.sync_dir(dir);
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let state = self.state.lock();
        Ok(state.names.get(path).is_some() || state.names.is_dir(path))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        let mut state = self.state.lock();
        state.counts.add(Op::Lock);
        if mode == LockMode::Shared {
            state.file(Op::Lock, path)?;
        } else if state.names.get(path).is_none() {
            state.check_new(Op::Lock, path)?;
            state.names.make(path, Shared::default());
        }
        let holders = state.locked.entry(path.to_owned()).or_default();
        let free = *holders == 0 || (mode == LockMode::Shared && *holders != EXCLUSIVE);
        if free {
            *holders = if mode == LockMode::Shared { *holders + 1 } else { EXCLUSIVE };
        } else {
            let text = format!("{} is locked by another handle of this disk", path.display());
            return Err(Error::new(ErrorKind::Busy, text));
        }
        Ok(Box::new(MemLock { path: path.to_owned(), state: Arc::clone(&self.state) }))
    }

    fn free_bytes(&self, _path: &Path) -> Result<u64> {
        Ok(1 << 50)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
