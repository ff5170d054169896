//! A pool of files for reading, of which only a limited number is open at a time.
//!
//! The next read of a closed file opens it again. When too many files are open, the clock algorithm
//! chooses which to close: its hand goes round over the open files, and closes a file that was not
//! read since the hand last passed. A running read keeps its descriptor until it ends. A read of an
//! open file takes no lock that files share.

use crate::disk::{Access, Disk, ReadFile};
use flagstone_base::{Error, Result};
use parking_lot::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A process without a free descriptor closes one in this many of its files, ..
const CLOSED_PARTS: usize = 4;
/// .. and tries again, at most this many times in all.
const TRIES: usize = 8;
/// The index of a file that is not open.
const NOWHERE: usize = usize::MAX;

/// A pool of files with a common limit of descriptors. Locks, in order: `opening` of a file,
/// `ring`, `file` of a place.
pub struct OpenFiles {
    disk: Arc<dyn Disk>,
    descriptors_max: usize,
    ring: Mutex<Ring>,
    opened: AtomicU64,
}

#[derive(Default)]
struct Ring {
    places: Vec<Option<Arc<FileDescriptor>>>,
    free: Vec<usize>,
    hand: usize,
    descriptors: usize,
}

/// The descriptor of a file, while the file is open.
struct FileDescriptor {
    file: RwLock<Option<Arc<dyn ReadFile>>>,
    /// The file was read since the hand last passed.
    is_used: AtomicBool,
    /// The number of descriptors that the file takes.
    descriptors: usize,
    /// The index in the ring; changed only under the lock of the ring.
    at: AtomicUsize,
}

/// A file of the pool. It is open, or is opened by the next read.
struct PooledFile {
    files: Arc<OpenFiles>,
    place: Arc<FileDescriptor>,
    path: PathBuf,
    len: u64,
    is_direct: bool,
    /// Held while the file is opened again, so that only one thread opens it.
    opening: Mutex<()>,
}

impl OpenFiles {
    /// A pool of files of `disk` with at most `descriptors_max` descriptors, not counting those of
    /// closed files that are still being read.
    pub fn new(disk: Arc<dyn Disk>, descriptors_max: usize) -> Arc<Self> {
        let (ring, opened) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { disk, descriptors_max, ring, opened })
    }

    /// Opens a file as [`Disk::open`] does. The pool may close the file and open it again between
    /// two reads, so the file must keep its name as long as it is used.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn open(self: &Arc<Self>, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.open_as(path, false)
    }

    /// As [`OpenFiles::open`], but as [`Disk::open_direct`] does, which takes a second descriptor.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn open_direct(self: &Arc<Self>, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.open_as(path, true)
    }

    fn open_as(self: &Arc<Self>, path: &Path, is_direct: bool) -> Result<Arc<dyn ReadFile>> {
        let file = self.open_now(path, is_direct)?;
        let place = Arc::new(FileDescriptor {
            file: RwLock::new(None),
            is_used: AtomicBool::new(true),
            descriptors: if is_direct { 2 } else { 1 },
            at: AtomicUsize::new(NOWHERE),
        });
        let (path, len, files) = (path.to_owned(), file.len(), Arc::clone(self));
        self.admit(&place, file);
        Ok(Arc::new(PooledFile { files, place, path, len, is_direct, opening: Mutex::default() }))
    }

    /// The number of descriptors that the pool holds now.
    pub fn descriptors(&self) -> usize {
        self.ring.lock().descriptors
    }

    /// The number of descriptors that the pool may hold.
    pub const fn descriptors_max(&self) -> usize {
        self.descriptors_max
    }

    /// The number of times that files were opened so far, for the first time or again.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Closes a quarter of the open files, because the process has no descriptor left. Returns
    /// false when none was open.
    pub fn close_some(&self) -> bool {
        let mut ring = self.ring.lock();
        let keep = ring.descriptors - ring.descriptors.div_ceil(CLOSED_PARTS);
        let closed = ring.close_down_to(keep);
        drop(ring);
        !closed.is_empty()
    }

    /// Runs `open`. If the process has no descriptor left, closes some files and tries again.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn or_close_some<T>(&self, mut open: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 1..TRIES {
            match open() {
                Err(error) if is_out_of_descriptors(&error) && self.close_some() => {}
                done => return done,
            }
        }
        open()
    }

    fn open_now(&self, path: &Path, is_direct: bool) -> Result<Arc<dyn ReadFile>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.or_close_some(|| {
            if is_direct { self.disk.open_direct(path) } else { self.disk.open(path) }
        })
    }

    fn admit(&self, place: &Arc<FileDescriptor>, file: Arc<dyn ReadFile>) {
        let mut ring = self.ring.lock();
        let closed = ring.close_down_to(self.descriptors_max.saturating_sub(place.descriptors));
        ring.add(place);
        *place.file.write() = Some(file);
        drop(ring);
        // The drop closes the files, outside of the lock.
        drop(closed);
    }
}

impl Ring {
    fn add(&mut self, place: &Arc<FileDescriptor>) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[at] = Some(Arc::clone(place));
        place.at.store(at, Ordering::Relaxed);
        self.descriptors += place.descriptors;
    }

    fn remove(&mut self, at: usize) -> Option<Arc<dyn ReadFile>> {
        let place = self.places.get_mut(at)?.take()?;
        self.free.push(at);
        self.descriptors -= place.descriptors;
        place.at.store(NOWHERE, Ordering::Relaxed);
        place.file.write().take()
    }

    /// Closes files until at most `descriptors` are held, those first that were not read recently.
    fn close_down_to(&mut self, descriptors: usize) -> Vec<Arc<dyn ReadFile>> {
        let mut closed = Vec::new();
        while self.descriptors > descriptors {
            self.hand = (self.hand + 1) % self.places.len();
            let is_idle =
                |place: &Arc<FileDescriptor>| !place.is_used.swap(false, Ordering::Relaxed);
            if self.places[self.hand].as_ref().is_some_and(is_idle) {
                closed.extend(self.remove(self.hand));
            }
        }
        closed
    }
}

impl PooledFile {
    #[inline]
    fn file(&self) -> Result<Arc<dyn ReadFile>> {
        let open = self.place.file.read().as_ref().map(Arc::clone);
        match open {
            Some(file) => {
                if !self.place.is_used.load(Ordering::Relaxed) {
                    self.place.is_used.store(true, Ordering::Relaxed);
                }
                Ok(file)
            }
            None => self.open_again(),
        }
    }

    #[cold]
    fn open_again(&self) -> Result<Arc<dyn ReadFile>> {
        let _one = self.opening.lock();
        if let Some(file) = self.place.file.read().as_ref() {
            return Ok(Arc::clone(file));
        }
        let file = self.files.open_now(&self.path, self.is_direct)?;
        if file.len() != self.len {
            let found = format_args!("{} bytes: expected {} as before", file.len(), self.len);
            return Err(Error::corruption(self.path.display(), file.len().min(self.len), found));
        }
        self.place.is_used.store(true, Ordering::Relaxed);
        self.files.admit(&self.place, Arc::clone(&file));
        Ok(file)
    }
}

impl Drop for PooledFile {
    fn drop(&mut self) {
        let mut ring = self.files.ring.lock();
        let file = ring.remove(self.place.at.load(Ordering::Relaxed));
        drop(ring);
        drop(file);
    }
}

impl ReadFile for PooledFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file()?.read_exact_at(buffer, offset)
    }

    fn read_block_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file()?.read_block_at(buffer, offset)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise(&self, access: Access) {
        if let Some(file) = self.place.file.read().as_ref() {
            file.advise(access);
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns whether the error means that the process, or the system, has no descriptor left.
pub fn is_out_of_descriptors(error: &Error) -> bool {
    #[cfg(unix)]
    let codes = [libc::EMFILE, libc::ENFILE];
    // ERROR_TOO_MANY_OPEN_FILES.
    #[cfg(windows)]
    let codes = [4];
    let code = error.io_error().and_then(std::io::Error::raw_os_error);
    code.is_some_and(|code| codes.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FaultDisk, MemDisk};

    fn path(n: usize) -> PathBuf {
        PathBuf::from(format!("{n}.sst"))
    }

    /// A disk with `files` files, each of which holds its number.
    fn disk(files: usize) -> FaultDisk {
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        for n in 0..files {
            disk.create(&path(n)).unwrap().append(&[n as u8; 10]).unwrap();
        }
        disk
    }

    fn opened(files: &Arc<OpenFiles>, count: usize) -> Vec<Arc<dyn ReadFile>> {
        (0..count).map(|n| files.open(&path(n)).unwrap()).collect()
    }

    fn check(file: &Arc<dyn ReadFile>, n: usize) {
        let mut buffer = [0; 10];
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert_eq!(buffer, [n as u8; 10]);
    }

    #[test]
    fn more_files_are_read_than_may_be_open() {
        let disk = disk(20);
        let files = OpenFiles::new(Arc::new(disk.clone()), 5);
        let open = opened(&files, 20);
        for _ in 0..3 {
            for (n, file) in open.iter().enumerate() {
                check(file, n);
                assert!(disk.open_files() <= 5);
            }
        }
        drop(open);
        assert_eq!((disk.open_files(), files.descriptors()), (0, 0));
    }

    #[test]
    fn a_file_that_is_read_between_others_stays_open() {
        let files = OpenFiles::new(Arc::new(disk(40)), 4);
        let often = files.open(&path(0)).unwrap();
        for n in 1..40 {
            let other = files.open(&path(n)).unwrap();
            check(&often, 0);
            check(&other, n);
            std::mem::forget(other);
        }
        // If the oldest file were closed first, this one would be opened again for every third
        // other file.
        assert!(files.opened() <= 43, "{} times", files.opened());
    }

    #[test]
    fn a_file_read_without_the_page_cache_counts_twice() {
        let disk = disk(8);
        let files = OpenFiles::new(Arc::new(disk.clone()), 6);
        let open: Vec<_> = (0..8).map(|n| files.open_direct(&path(n)).unwrap()).collect();
        assert_eq!((files.descriptors(), disk.open_files()), (6, 6));
        open.iter().enumerate().for_each(|(n, file)| check(file, n));
    }

    #[test]
    fn a_process_without_descriptors_closes_files_and_continues() {
        let disk = disk(20);
        disk.set_open_files_max(Some(7));
        let files = OpenFiles::new(Arc::new(disk.clone()), 1000);
        let open = opened(&files, 20);
        open.iter().enumerate().for_each(|(n, file)| check(file, n));
        drop(open);
        disk.set_open_files_max(Some(0));
        let error = files.open(&path(0)).err().unwrap();
        assert!(is_out_of_descriptors(&error), "{error}");
    }

    #[test]
    fn a_file_that_changed_its_length_while_it_was_closed_is_damaged() {
        let disk = disk(2);
        let files = OpenFiles::new(Arc::new(disk.clone()), 1);
        let open = opened(&files, 2);
        disk.remove(&path(0)).unwrap();
        disk.create(&path(0)).unwrap().append(b"short").unwrap();
        let error = open[0].read_exact_at(&mut [0; 4], 0).unwrap_err();
        assert_eq!(error.kind(), flagstone_base::ErrorKind::Corruption);
        assert!(error.to_string().contains("0.sst"), "{error}");
    }

    #[test]
    fn threads_read_files_while_others_close_them() {
        let files = OpenFiles::new(Arc::new(disk(12)), 3);
        let open = opened(&files, 12);
        std::thread::scope(|scope| {
            for start in 0..4 {
                let open = &open;
                scope.spawn(move || {
                    for step in 0..2000 {
                        let n = (start * 5 + step * 7) % 12;
                        check(&open[n], n);
                    }
                });
            }
        });
        assert!(files.descriptors() <= 3);
    }
}
