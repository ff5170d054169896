//! The file that a device is measured by: created for it, read and written past the page cache, and
//! removed when it is dropped.

use crate::engine::Outcome;
use crate::record::OpKind;
use crate::run::{Meter, Tally, Worker};
use crate::workload::{Random, mix64};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The alignment of offsets, lengths and addresses of reads and writes past the page cache.
const ALIGNMENT: usize = 4096;

/// Opens the file `path`, created if there is none, for reads and writes past the page cache.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Outcome<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(OFlags::DIRECT.bits() as i32);
    options.open(path).map_err(|error| {
        let path = path.display();
        let text = match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::INVAL.raw_os_error() => format!(
                "the file system of {path} refuses reads and writes past its page cache \
                 (O_DIRECT), as those in memory do: choose a directory on a disk"
            ),
            _ => format!("cannot open {path}: {error}"),
        };
        text.into()
    })
}

/// Other systems offer no O_DIRECT.
#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path) -> Outcome<File> {
    Err("this system offers no reads and writes past the page cache (O_DIRECT)".into())
}

/// Bytes at an aligned address.
#[derive(Debug)]
struct Aligned {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGNMENT];
        let at = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, at, len }
    }

    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + self.len]
    }

    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.at..self.at + self.len]
    }
}

/// Bytes of a write while the file is filled.
const WRITE_BYTES: usize = 1 << 20;

/// A file on the device.
#[derive(Debug)]
pub struct DeviceFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl DeviceFile {
    /// Creates an empty file in `dir`; `name` tells it from others there.
    pub fn make(dir: &Path, name: &str) -> Outcome<Self> {
        std::fs::create_dir_all(dir)
            .map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let path = dir.join(format!("flagstone-device-{name}.bench"));
        let file = open_direct(&path)?;
        let made = Self { file, path, bytes: 0 };
        made.file.set_len(0)?;
        Ok(made)
    }

    /// Creates a file of about `bytes`, all of which are on the device.
    pub fn filled(dir: &Path, bytes: u64) -> Outcome<Self> {
        let mut made = Self::make(dir, "filled")?;
        let mut filler = made.filler(bytes);
        filler.stir();
        while filler.write()? > 0 {
            filler.stir();
        }
        made.sync()?;
        made.bytes = bytes.next_multiple_of(WRITE_BYTES as u64);
        Ok(made)
    }

    /// Writes the file front to back.
    pub(super) fn filler(&self, bytes: u64) -> Filler<'_> {
        let mut block = Aligned::new(WRITE_BYTES);
        for (at, part) in block.as_mut().chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&mix64(0, at as u64).to_le_bytes());
        }
        Filler { file: &self.file, block, at: 0, end: bytes.next_multiple_of(WRITE_BYTES as u64) }
    }

    /// Tells the file how far it is filled.
    pub(super) fn is_filled_to(&mut self, end: u64) {
        self.bytes = end;
    }

    /// Waits until the device has the whole file.
    pub(super) fn sync(&self) -> Outcome<()> {
        Ok(self.file.sync_data()?)
    }

    /// A reader of blocks of about `block_bytes` at random places.
    pub(super) fn reader(&self, block_bytes: usize, seed: u64) -> Outcome<BlockReader<'_>> {
        let block_bytes = block_bytes.max(1).next_multiple_of(ALIGNMENT);
        let places = (self.bytes.saturating_sub(block_bytes as u64)) / ALIGNMENT as u64;
        if places == 0 {
            return Err(format!(
                "a file of {} bytes: expected more than a block of {block_bytes}",
                self.bytes
            )
            .into());
        }
        let block = Aligned::new(block_bytes);
        Ok(BlockReader { file: &self.file, block, places, random: Random::new(seed, 0) })
    }

    /// Appends, up to `end`.
    pub(super) fn syncer(&self, end: u64) -> Syncer<'_> {
        let mut block = Aligned::new(APPEND_BYTES);
        block.as_mut().fill(0xA5);
        Syncer { file: self, block, at: 0, end }
    }
}

impl Drop for DeviceFile {
    fn drop(&mut self) {
        // A file that cannot be removed stays: its name says what it is.
        let _left = std::fs::remove_file(&self.path);
    }
}

/// Writes bytes that neither compress nor repeat.
pub(super) struct Filler<'a> {
    file: &'a File,
    block: Aligned,
    at: u64,
    end: u64,
}

impl Filler<'_> {
    /// Makes the bytes of the next write differ from all others.
    fn stir(&mut self) {
        let at = self.at;
        for (page, bytes) in self.block.as_mut().chunks_mut(ALIGNMENT).enumerate() {
            let stamp = mix64(at, page as u64).to_le_bytes();
            bytes.chunks_mut(512).for_each(|part| part[..8].copy_from_slice(&stamp));
        }
    }

    /// Writes the next bytes and returns their number, 0 at the end.
    fn write(&mut self) -> Outcome<usize> {
        if self.at >= self.end {
            return Ok(0);
        }
        self.file.write_all_at(self.block.as_ref(), self.at)?;
        self.at += WRITE_BYTES as u64;
        Ok(WRITE_BYTES)
    }
}

impl Worker for Filler<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        self.stir();
        meter.begin();
        let written = self.write()?;
        if written > 0 {
            meter.end(OpKind::Put, Tally::put(written));
        }
        Ok(written > 0)
    }
}

/// Reads whole blocks at random places.
pub(super) struct BlockReader<'a> {
    file: &'a File,
    block: Aligned,
    places: u64,
    random: Random,
}

impl Worker for BlockReader<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let place = self.random.below(self.places) * ALIGNMENT as u64;
        let block = self.block.as_mut();
        meter.begin();
        self.file.read_exact_at(block, place)?;
        meter.end(OpKind::Get, Tally::found(true));
        Ok(true)
    }
}

/// Bytes of an append.
const APPEND_BYTES: usize = 4096;

/// Appends and syncs, one after another.
pub(super) struct Syncer<'a> {
    file: &'a DeviceFile,
    block: Aligned,
    at: u64,
    end: u64,
}

impl Worker for Syncer<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        if self.at >= self.end {
            return Ok(false);
        }
        meter.begin();
        self.file.file.write_all_at(self.block.as_ref(), self.at)?;
        self.file.sync()?;
        meter.end(OpKind::Batch, Tally::put(APPEND_BYTES));
        self.at += APPEND_BYTES as u64;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_memory_is_aligned_and_has_its_length() {
        for len in [1, 4096, 16384, 1 << 20] {
            let mut memory = Aligned::new(len);
            assert_eq!(memory.as_mut().len(), len);
            assert_eq!(memory.as_ref().as_ptr().align_offset(ALIGNMENT), 0);
        }
    }
}
