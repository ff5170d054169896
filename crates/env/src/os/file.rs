//! Files of the operating system: one that is written, one that is read.

use crate::disk::{Access, PAGE, ReadFile, SyncFile, WriteFile, failed, too_short};
use crate::guard::DirGuard;
use flagstone_base::{Error, Result};
use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

pub(super) struct OsWriteFile {
    file: File,
    path: PathBuf,
    position: u64,
    /// The offset up to which the system was asked to begin writing out.
    written_back: u64,
    /// The length of a reused file when it was opened; 0 for a new file.
    old_len: u64,
    /// In a reused file: all pages before this offset were written as a whole.
    whole_pages: u64,
    /// The guard of its directory, if that is held.
    guard: Option<Arc<DirGuard>>,
}

struct OsSyncFile {
    file: File,
    path: PathBuf,
    guard: Option<Arc<DirGuard>>,
}

pub(super) struct OsReadFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl WriteFile for OsWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(guard) = &self.guard {
            guard.check_at_append()?;
        }
        let end = self.position + bytes.len() as u64;
        let page_end = end.next_multiple_of(PAGE);
        let appended = if end > self.whole_pages && page_end <= self.old_len {
            self.append_whole_pages(bytes, page_end)
        } else {
            self.file.write_all_at(bytes, self.position)
        };
        appended.map_err(failed("append to", &self.path))?;
        self.position = end;
        Ok(())
    }

    fn blank(&mut self, offset: u64, len: u64) -> Result<()> {
        self.check_process()?;
        let blanked = self.file.metadata().and_then(|file| {
            let len = file.len().saturating_sub(offset).min(len);
            self.file.write_all_at(&vec![0; len as usize], offset)
        });
        blanked.map_err(failed("blank a part of", &self.path))
    }

    fn sync(&mut self) -> Result<()> {
        sync(&self.file, &self.path, self.guard.as_deref())
    }

    fn start_writeback(&mut self) -> Result<()> {
        #[cfg(target_os = "linux")]
        if self.position > self.written_back {
            // A hint: without it, writing out is only less smooth.
            let _hint = linux::start_writeback(&self.file, self.written_back, self.position);
        }
        self.written_back = self.position;
        Ok(())
    }

    fn reserve(&mut self, len: u64) -> Result<()> {
        self.check_process()?;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(errno) => return Err(Error::io("reserve room for", &self.path, errno.into())),
            }
        }
        // Other systems reserve by making the file longer, which must not be seen.
        #[cfg(not(target_os = "linux"))]
        let _ = len;
        Ok(())
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        let file = self.file.try_clone().map_err(failed("open", &self.path))?;
        let (path, guard) = (self.path.clone(), self.guard.clone());
        Ok(Box::new(OsSyncFile { file, path, guard }))
    }
}

/// Syncs a file. A file of a directory that was removed is synced to nothing.
fn sync(file: &File, path: &Path, guard: Option<&DirGuard>) -> Result<()> {
    guard.map_or(Ok(()), DirGuard::check)?;
    file.sync_data().map_err(failed("sync", path))
}

impl OsWriteFile {
    pub(super) fn new(file: File, path: &Path, guard: Option<Arc<DirGuard>>) -> Result<Self> {
        let old_len = file.metadata().map_err(failed("examine", path))?.len();
        let path = path.to_owned();
        Ok(Self { file, path, position: 0, written_back: 0, old_len, whole_pages: 0, guard })
    }

    fn check_process(&self) -> Result<()> {
        self.guard.as_ref().map_or(Ok(()), |guard| guard.check_process())
    }

    /// Writes `bytes`, then zeros up to `page_end`. To overwrite only a part of the last page, the
    /// system would first have to read its old content, unless that is cached.
    fn append_whole_pages(&mut self, bytes: &[u8], page_end: u64) -> std::io::Result<()> {
        let end = self.position + bytes.len() as u64;
        let zeros = &ZEROS[..(page_end - end) as usize];
        let parts = [IoSlice::new(bytes), IoSlice::new(zeros)];
        let written = match rustix::io::pwritev(&self.file, &parts, self.position) {
            Ok(written) => written,
            Err(rustix::io::Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        if written == bytes.len() + zeros.len() {
            self.whole_pages = page_end;
        } else if let Some(left) = bytes.get(written..) {
            self.file.write_all_at(left, self.position + written as u64)?;
        }
        Ok(())
    }
}

impl OsReadFile {
    pub(super) fn new(file: File, path: &Path) -> Result<Self> {
        let len = file.metadata().map_err(failed("examine", path))?.len();
        Ok(Self { file, path: path.to_owned(), len })
    }
}

impl SyncFile for OsSyncFile {
    fn sync(&self) -> Result<()> {
        sync(&self.file, &self.path, self.guard.as_deref())
    }
}

impl ReadFile for OsReadFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|source| {
            if source.kind() == std::io::ErrorKind::UnexpectedEof {
                too_short(&self.path, offset, buffer.len())
            } else {
                Error::io("read", &self.path, source)
            }
        })
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise(&self, access: Access) {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Advice, fadvise};
            let advice = match access {
                Access::Random => Advice::Random,
                Access::Sequential => Advice::Sequential,
                Access::Done => Advice::DontNeed,
            };
            let _hint = fadvise(&self.file, 0, None, advice);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = access;
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
mod linux {
    //! `sync_file_range`, which neither `std` nor `rustix` offers.
    #![expect(unsafe_code, reason = "a call without a safe wrapper")]

    use std::fs::File;
    use std::os::fd::AsRawFd;

    pub(super) fn start_writeback(file: &File, from: u64, to: u64) -> std::io::Result<()> {
        let (from, len) = (from as i64, (to - from) as i64);
        // SAFETY: the descriptor is open for as long as `file` is borrowed; the call takes integers
        // only and touches no memory of ours.
        let result = unsafe {
            libc::sync_file_range(file.as_raw_fd(), from, len, libc::SYNC_FILE_RANGE_WRITE)
        };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }
}
