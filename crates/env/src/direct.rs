//! Reads single blocks without the page cache (`O_DIRECT`).

use crate::disk::{Access, ReadFile};
use flagstone_base::{Error, Result};
use std::cell::RefCell;
use std::fs::File;
use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The alignments of offsets, lengths and memory, tried in this order. If none works, the page
/// cache is used.
const ALIGNMENTS: [u64; 2] = [512, 4096];
/// Longer reads use the page cache, since each thread keeps a buffer as long as its longest direct
/// read.
const DIRECT_BYTES_MAX: usize = 256 << 10;

/// A file whose blocks are read without the page cache, as far as device and file system support
/// it.
pub(crate) struct DirectReadFile {
    cached: Arc<dyn ReadFile>,
    direct: File,
    /// The alignment that works or is tried next; 0 when none works.
    alignment: AtomicU64,
}

impl DirectReadFile {
    /// Opens the file of `cached` for direct reads. Returns `cached` itself if the file system does
    /// not support them.
    pub(crate) fn open(
        cached: Arc<dyn ReadFile>,
        open_direct: impl FnOnce() -> Result<File>,
    ) -> Result<Arc<dyn ReadFile>> {
        match open_direct() {
            Ok(direct) => {
                let alignment = AtomicU64::new(ALIGNMENTS[0]);
                Ok(Arc::new(Self { cached, direct, alignment }))
            }
            Err(error) if error.io_error().is_some_and(is_refused) => Ok(cached),
            Err(error) => Err(error),
        }
    }

    /// Fills `buffer` by a direct read. Returns false if the caller must use the page cache.
    fn read_direct(&self, buffer: &mut [u8], offset: u64) -> IoResult<bool> {
        let is_inside =
            offset.checked_add(buffer.len() as u64).is_some_and(|end| end <= self.len());
        loop {
            let alignment = self.alignment.load(Ordering::Relaxed);
            if alignment == 0 || !is_inside || buffer.len() > DIRECT_BYTES_MAX {
                return Ok(false);
            }
            match read_aligned(&self.direct, buffer, offset, alignment) {
                Err(error) if is_refused(&error) => {
                    let next = ALIGNMENTS.iter().find(|&&larger| larger > alignment);
                    self.alignment.store(next.copied().unwrap_or(0), Ordering::Relaxed);
                }
                done => return done.map(|()| true),
            }
        }
    }
}

/// Returns whether the error means that the system cannot read the file directly, or not with this
/// alignment.
fn is_refused(error: &IoError) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

/// Reads the aligned bytes around the wanted ones into a buffer of this thread, and copies the
/// wanted ones.
fn read_aligned(file: &File, buffer: &mut [u8], offset: u64, alignment: u64) -> IoResult<()> {
    thread_local! {
        static MEMORY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let start = offset - offset % alignment;
    let skipped = (offset - start) as usize;
    let needed = skipped + buffer.len();
    let len = needed.next_multiple_of(alignment as usize);
    MEMORY.with_borrow_mut(|memory| {
        if memory.len() < len + alignment as usize {
            memory.resize(len + alignment as usize, 0);
        }
        let first = memory.as_ptr().align_offset(alignment as usize);
        let aligned = &mut memory[first..first + len];
        let mut read = 0;
        while read < needed {
            match file.read_at(&mut aligned[read..], start + read as u64) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                // Only the last read of a file may return less than whole sectors.
                Ok(some)
                    if some == 0
                        || (read + some < needed && !(some as u64).is_multiple_of(alignment)) =>
                {
                    return Err(IoError::from(ErrorKind::UnexpectedEof));
                }
                Ok(some) => read += some,
            }
        }
        buffer.copy_from_slice(&aligned[skipped..needed]);
        Ok(())
    })
}

impl ReadFile for DirectReadFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.cached.read_exact_at(buffer, offset)
    }

    fn read_block_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        match self.read_direct(buffer, offset) {
            Ok(true) => Ok(()),
            // The read through the page cache reports a file that ends too early as a Corruption.
            Ok(false) => self.cached.read_exact_at(buffer, offset),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.cached.read_exact_at(buffer, offset)
            }
            Err(error) => Err(Error::io("read", self.path(), error)),
        }
    }

    fn len(&self) -> u64 {
        self.cached.len()
    }

    fn advise(&self, access: Access) {
        self.cached.advise(access);
    }

    fn path(&self) -> &Path {
        self.cached.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, OsDisk};
    use std::path::PathBuf;

    /// A directory below the build's folder, which is rarely a file system in memory.
    fn scratch() -> tempfile::TempDir {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        tempfile::tempdir_in(here.join("../../target")).or_else(|_| tempfile::tempdir()).unwrap()
    }

    #[test]
    fn blocks_at_any_place_are_read_as_through_the_page_cache() {
        let dir = scratch();
        let path = dir.path().join("a");
        let bytes: Vec<u8> = (0..300_123_u32).map(|i| (i % 251) as u8).collect();
        let mut file = OsDisk.create(&path).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
        let file = OsDisk.open_direct(&path).unwrap();
        assert_eq!((file.len(), file.path()), (300_123, &*path));
        for (offset, len) in
            [(0, 1), (511, 2), (512, 512), (4095, 16_002), (300_000, 123), (77, 290_000), (5, 0)]
        {
            let mut block = vec![0; len];
            file.read_block_at(&mut block, offset as u64).unwrap();
            assert_eq!(block, bytes[offset..offset + len], "{offset} {len}");
        }
        for (offset, len) in [(300_000, 124), (300_123, 1), (999_999, 10), (u64::MAX - 5, 3)] {
            let short = file.read_block_at(&mut vec![0; len], offset).unwrap_err();
            assert!(!short.to_string().is_empty(), "{short}");
        }
        assert!(OsDisk.open_direct(&dir.path().join("b")).err().unwrap().is_missing_file());
    }

    /// Does not need a file system that supports direct reads.
    #[test]
    fn the_bytes_asked_for_are_cut_out_of_aligned_reads() {
        let dir = scratch();
        let path = dir.path().join("a");
        let bytes: Vec<u8> = (0..20_000_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        for alignment in ALIGNMENTS {
            for (offset, len) in [(0, 20_000), (4095, 2), (511, 1025), (19_990, 10), (8192, 4096)] {
                let mut block = vec![0; len];
                read_aligned(&file, &mut block, offset as u64, alignment).unwrap();
                assert_eq!(block, bytes[offset..offset + len], "{alignment}: {offset} {len}");
            }
            let short = read_aligned(&file, &mut [0; 11], 19_990, alignment).unwrap_err();
            assert_eq!(short.kind(), ErrorKind::UnexpectedEof);
        }
        let cached = OsDisk.open(&path).unwrap();
        let never = DirectReadFile { cached, direct: file, alignment: AtomicU64::new(0) };
        assert!(!never.read_direct(&mut [0; 10], 0).unwrap());
        let mut block = [0; 10];
        never.read_block_at(&mut block, 700).unwrap();
        assert_eq!(block, bytes[700..710]);
    }
}
