//! The file that a device is measured by: made for it, and removed when it goes.

use super::direct::{self, ALIGNMENT, Aligned};
use crate::engine::Outcome;
use crate::workload::{Random, mix64};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a write while the file is filled.
pub(super) const WRITE_BYTES: usize = 1 << 20;

/// A file on the device, read and written past the page cache; removed when it goes.
#[derive(Debug)]
pub struct DeviceFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl DeviceFile {
    /// Makes an empty file in `dir`; `name` tells it from others there.
    ///
    /// # Errors
    /// When it cannot be made, or the file system of `dir` refuses O_DIRECT.
    pub fn make(dir: &Path, name: &str) -> Outcome<Self> {
        std::fs::create_dir_all(dir)
            .map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let path = dir.join(format!("flagstone-device-{name}.bench"));
        let file = direct::open(&path)?;
        let made = Self { file, path, bytes: 0 };
        made.file.set_len(0)?;
        Ok(made)
    }

    /// Makes a file of about `bytes`, all of which lie on the device.
    ///
    /// # Errors
    /// As [`DeviceFile::make`], or what the file system says.
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

    /// It is filled as far as `filler` has come.
    pub(super) fn is_filled_to(&mut self, end: u64) {
        self.bytes = end;
    }

    /// Waits until the device has all of it.
    pub(super) fn sync(&self) -> Outcome<()> {
        Ok(self.file.sync_data()?)
    }

    /// What reads blocks of about `block_bytes` at random places.
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
}

impl Drop for DeviceFile {
    fn drop(&mut self) {
        // Where it cannot be removed, it is left: a name of its own tells what it is.
        let _left = std::fs::remove_file(&self.path);
    }
}

/// Writes bytes that neither compress nor repeat.
pub(super) struct Filler<'a> {
    file: &'a File,
    block: Aligned,
    pub(super) at: u64,
    end: u64,
}

impl Filler<'_> {
    /// Makes the next write differ from all others.
    pub(super) fn stir(&mut self) {
        let at = self.at;
        for (page, bytes) in self.block.as_mut().chunks_mut(ALIGNMENT).enumerate() {
            let stamp = mix64(at, page as u64).to_le_bytes();
            bytes.chunks_mut(512).for_each(|part| part[..8].copy_from_slice(&stamp));
        }
    }

    /// Writes on; how many bytes, 0 at the end.
    pub(super) fn write(&mut self) -> Outcome<usize> {
        if self.at >= self.end {
            return Ok(0);
        }
        self.file.write_all_at(self.block.as_ref(), self.at)?;
        self.at += WRITE_BYTES as u64;
        Ok(WRITE_BYTES)
    }
}

/// Reads whole blocks at random places.
pub(super) struct BlockReader<'a> {
    file: &'a File,
    block: Aligned,
    places: u64,
    random: Random,
}

impl BlockReader<'_> {
    /// Where the next block is read.
    pub(super) fn choose(&mut self) -> u64 {
        self.random.below(self.places) * ALIGNMENT as u64
    }

    /// Reads the block at `place`.
    pub(super) fn read(&mut self, place: u64) -> Outcome<usize> {
        let block = self.block.as_mut();
        self.file.read_exact_at(block, place)?;
        Ok(block.len())
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

impl DeviceFile {
    /// What appends from `at` on and ends at `end`.
    pub(super) fn syncer(&self, at: u64, end: u64) -> Syncer<'_> {
        let mut block = Aligned::new(APPEND_BYTES);
        block.as_mut().fill(0xA5);
        Syncer { file: self, block, at, end }
    }
}

impl Syncer<'_> {
    /// Appends and waits until the device has it; how many bytes, `None` at the end.
    pub(super) fn append(&mut self) -> Outcome<Option<usize>> {
        if self.at >= self.end {
            return Ok(None);
        }
        self.file.file.write_all_at(self.block.as_ref(), self.at)?;
        self.file.sync()?;
        self.at += APPEND_BYTES as u64;
        Ok(Some(APPEND_BYTES))
    }
}
