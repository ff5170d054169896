//! The real disk: the file system of the operating system, through `std::fs` and `rustix`.

#[cfg(target_os = "linux")]
use crate::direct::DirectReadFile;
use crate::disk::{Access, Disk, DiskLock, LockMode, PAGE, ReadFile, SyncFile, WriteFile};
use crate::stream::StreamedFile;
use flagstone_base::{Error, ErrorKind, Result};
use rustix::fs::{Advice, FallocateFlags, FlockOperation};
use std::fs::{self, File, OpenOptions};
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

struct OsWriteFile {
    file: File,
    path: PathBuf,
    position: u64,
    /// The offset up to which the system was asked to begin writing out.
    written_back: u64,
    /// The length of a reused file when it was opened; 0 for a new file.
    old_len: u64,
    /// In a reused file: all pages before this offset were written as a whole.
    whole_pages: u64,
}

struct OsSyncFile {
    file: File,
    path: PathBuf,
}

struct OsReadFile {
    file: File,
    path: PathBuf,
    len: u64,
}

struct OsLock {
    _file: File,
}

impl DiskLock for OsLock {}

fn failed<'a>(doing: &'a str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |source| Error::io(doing, path, source)
}

impl WriteFile for OsWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
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
        let blanked = self.file.metadata().and_then(|file| {
            let len = file.len().saturating_sub(offset).min(len);
            self.file.write_all_at(&vec![0; len as usize], offset)
        });
        blanked.map_err(failed("blank a part of", &self.path))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(failed("sync", &self.path))
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
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(errno) => Err(Error::io("reserve room for", &self.path, errno.into())),
        }
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        let file = self.file.try_clone().map_err(failed("open", &self.path))?;
        Ok(Box::new(OsSyncFile { file, path: self.path.clone() }))
    }
}

impl OsWriteFile {
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

impl SyncFile for OsSyncFile {
    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(failed("sync", &self.path))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    //! `sync_file_range` and `malloc_trim`, which neither `std` nor `rustix` offers.
    #![expect(unsafe_code, reason = "calls without a safe wrapper")]

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

    #[cfg(all(target_env = "gnu", not(miri)))]
    pub(super) fn trim_memory() {
        // SAFETY: the call takes an integer and gives back only memory that was freed.
        let _released = unsafe { libc::malloc_trim(0) };
    }
}

impl ReadFile for OsReadFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|source| {
            if source.kind() == std::io::ErrorKind::UnexpectedEof {
                Error::corruption(
                    self.path.display(),
                    offset,
                    format_args!("expected {} bytes, the file ends before", buffer.len()),
                )
            } else {
                Error::io("read", &self.path, source)
            }
        })
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise(&self, access: Access) {
        let advice = match access {
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
            Access::Done => Advice::DontNeed,
        };
        let _hint = rustix::fs::fadvise(&self.file, 0, None, advice);
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl OsDisk {
    fn writer(
        &self,
        path: &Path,
        doing: &str,
        options: &OpenOptions,
    ) -> Result<Box<dyn WriteFile>> {
        let file = options.open(path).map_err(failed(doing, path))?;
        let old_len = file.metadata().map_err(failed("examine", path))?.len();
        Ok(Box::new(OsWriteFile {
            file,
            path: path.to_owned(),
            position: 0,
            written_back: 0,
            old_len,
            whole_pages: 0,
        }))
    }
}

impl Disk for OsDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.writer(path, "create", OpenOptions::new().write(true).create_new(true))
    }

    fn create_streamed(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(StreamedFile::new(self.create(path)?)))
    }

    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.writer(path, "reuse", OpenOptions::new().write(true))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = File::open(path).map_err(failed("open", path))?;
        let len = file.metadata().map_err(failed("examine", path))?.len();
        Ok(Arc::new(OsReadFile { file, path: path.to_owned(), len }))
    }

    #[cfg(target_os = "linux")]
    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.open(path).and_then(DirectReadFile::open)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(failed("rename", from))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(failed("link", from))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(failed("remove", path))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).map_err(failed("create the directory", path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed("list", dir))? {
            let name = entry.map_err(failed("list", dir))?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        File::open(dir).and_then(|file| file.sync_all()).map_err(failed("sync the directory", dir))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(failed("examine", path))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        let (file, operation) = match mode {
            LockMode::Exclusive => (
                OpenOptions::new().write(true).create(true).truncate(false).open(path),
                FlockOperation::NonBlockingLockExclusive,
            ),
            LockMode::Shared => (File::open(path), FlockOperation::NonBlockingLockShared),
        };
        let file = file.map_err(failed("open", path))?;
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Box::new(OsLock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "{} is locked: another process, or another handle of this one, has the \
                     database open",
                    path.display()
                ),
            )),
            Err(errno) => Err(Error::io("lock", path, errno.into())),
        }
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        let found = rustix::fs::statvfs(path)
            .map_err(|errno| Error::io("examine the file system of", path, errno.into()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// The size of the machine's memory in bytes; `None` if the system does not tell.
pub fn memory_bytes() -> Option<u64> {
    memory_of(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the size of the memory in bytes from the text of `/proc/meminfo`.
fn memory_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// Raises the soft limit of open files of this process to the hard limit, for programs: a database
/// keeps its tables open. Where that is refused, the limit stays.
pub fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _unchanged =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The number of descriptors that this process may have (its soft limit); `None` without a limit.
pub fn descriptors_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Returns freed memory, which the allocator keeps between pieces in use, to the system. Takes
/// milliseconds for a large heap. Does nothing where the C library has no such call.
pub fn trim_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    linux::trim_memory();
}

/// The smallest buffer for which [`freed`] has an effect.
pub const LARGE_BUFFER: usize = 1 << 20;
/// The number of bytes that may be freed in large buffers before memory is returned to the system.
const KEPT_BY_ALLOCATOR: u64 = 32 << 20;

/// Notes that a large buffer was freed, or will be soon. Once a process has freed a large buffer,
/// the allocator of the C library keeps such memory in each of its arenas: with documents of 16
/// MiB, several times the memory budget. So after each 32 MiB the caller returns it to the system,
/// which takes about as long as filling such a buffer.
pub fn freed(bytes: usize) {
    static FREED: AtomicU64 = AtomicU64::new(0);
    if bytes < LARGE_BUFFER {
        return;
    }
    let sum = FREED.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    if sum >= KEPT_BY_ALLOCATOR
        && FREED.compare_exchange(sum, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        trim_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{read_whole, replace_whole};

    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn the_memory_of_the_machine_is_read_in_bytes() {
        let text = "MemFree:  7 kB\nMemTotal:       1000 kB\nSwapTotal:  9 kB\n";
        assert_eq!(memory_of(text), Some(1_024_000));
        let malformed = ["", "MemFree: 7 kB\n", "MemTotal: 1000\n", "MemTotal: x kB\n"];
        assert_eq!(malformed.map(memory_of), [None; 4]);
        assert_eq!(memory_of(&format!("MemTotal: {} kB", u64::MAX)), None);
        #[cfg(target_os = "linux")]
        assert!(memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn what_is_appended_is_read_back() {
        let dir = scratch();
        let path = dir.path().join("a");
        let mut file = OsDisk.create(&path).unwrap();
        file.append(b"hello ").unwrap();
        file.append(b"disk").unwrap();
        file.reserve(100).unwrap();
        file.start_writeback().unwrap();
        file.syncer().unwrap().sync().unwrap();
        assert_eq!(file.position(), 10);
        let read = OsDisk.open(&path).unwrap();
        assert_eq!(read.len(), 10);
        let mut buffer = [0; 4];
        read.read_exact_at(&mut buffer, 6).unwrap();
        assert_eq!(&buffer, b"disk");
        assert_eq!(read.read_exact_at(&mut buffer, 7).unwrap_err().kind(), ErrorKind::Corruption);
        assert!(OsDisk.create(&path).is_err());
    }

    #[test]
    fn a_reused_file_keeps_what_is_not_overwritten() {
        let dir = scratch();
        let path = dir.path().join("a");
        OsDisk.create(&path).unwrap().append(b"old bytes").unwrap();
        OsDisk.reuse(&path).unwrap().append(b"NEW").unwrap();
        assert_eq!(read_whole(&OsDisk, &path, 100).unwrap(), b"NEW bytes");
        assert!(read_whole(&OsDisk, &path, 8).is_err());
        assert!(OsDisk.reuse(&dir.path().join("b")).err().unwrap().is_missing_file());
    }

    #[test]
    fn a_reused_file_is_written_by_whole_pages_with_zeros_after_the_appended_bytes() {
        let (page, dir) = (PAGE as usize, scratch());
        let path = dir.path().join("a");
        let mut expected = vec![7; 4 * page + 100];
        OsDisk.create(&path).unwrap().append(&expected).unwrap();
        let mut file = OsDisk.reuse(&path).unwrap();
        let mut at = 0;
        for (i, len) in [10, 20, page, page - 30, 1, 2 * page - 2, 7].into_iter().enumerate() {
            let bytes = vec![i as u8 + 1; len];
            file.append(&bytes).unwrap();
            expected[at..at + len].copy_from_slice(&bytes);
            at += len;
            let behind = at.next_multiple_of(page);
            // The last page is not whole, so its old bytes stay.
            if behind < expected.len() {
                expected[at..behind].fill(0);
            }
            assert_eq!(file.position(), at as u64);
            assert_eq!(read_whole(&OsDisk, &path, 1 << 20).unwrap(), expected, "{i}");
        }
        assert!(at > 4 * page);
    }

    #[test]
    fn a_part_is_blanked_up_to_the_end_of_the_file_and_the_position_stays() {
        let dir = scratch();
        let path = dir.path().join("a");
        let mut file = OsDisk.create(&path).unwrap();
        file.append(b"abcdef").unwrap();
        file.blank(1, 2).unwrap();
        file.blank(5, 10).unwrap();
        file.blank(7, 10).unwrap();
        file.append(b"gh").unwrap();
        assert_eq!(read_whole(&OsDisk, &path, 100).unwrap(), b"a\0\0de\0gh");
    }

    #[test]
    fn a_directory_is_locked_once() {
        let dir = scratch();
        let path = dir.path().join("LOCK");
        let lock = |mode| OsDisk.lock(&path, mode);
        let held = lock(LockMode::Exclusive).unwrap();
        assert_eq!(lock(LockMode::Exclusive).err().unwrap().kind(), ErrorKind::Busy);
        assert_eq!(lock(LockMode::Shared).err().unwrap().kind(), ErrorKind::Busy);
        drop(held);
        let _readers = [lock(LockMode::Shared).unwrap(), lock(LockMode::Shared).unwrap()];
        assert_eq!(lock(LockMode::Exclusive).err().unwrap().kind(), ErrorKind::Busy);
    }

    #[test]
    fn a_whole_file_is_replaced_even_over_a_leftover_temporary_one() {
        let dir = scratch();
        let path = dir.path().join("CURRENT");
        OsDisk.create(&dir.path().join("CURRENT.tmp")).unwrap();
        for content in [b"one".as_slice(), b"two"] {
            replace_whole(&OsDisk, &path, content).unwrap();
            assert_eq!(read_whole(&OsDisk, &path, 10).unwrap(), content);
        }
        assert_eq!(OsDisk.list(dir.path()).unwrap(), ["CURRENT"]);
        assert!(OsDisk.free_bytes(dir.path()).unwrap() > 0);
    }
}
