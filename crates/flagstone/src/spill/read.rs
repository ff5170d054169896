//! Reads a run, entry by entry.

use super::format::{BLOCK_HEADER, block_checksum, read_entry};
use super::write::Run;
use flagstone_base::checksum::fits;
use flagstone_base::{Error, Result};
use std::ops::Range;

/// A position in a run. Holds one block.
pub(super) struct RunReader {
    run: Run,
    /// The offset of the next block.
    next_block: u64,
    /// The entries of the current block, and the offset of its header.
    block: Vec<u8>,
    block_at: u64,
    /// Where the next entry of the block begins.
    at: usize,
    key: Vec<u8>,
    value: Range<usize>,
    /// The block was given up, and is read again.
    is_parked: bool,
}

impl RunReader {
    pub(super) fn new(run: Run) -> Self {
        let next_block = run.extent.start;
        let (block, key) = (Vec::new(), Vec::new());
        Self { run, next_block, block, block_at: 0, at: 0, key, value: 0..0, is_parked: false }
    }

    /// Gives up the block until [`RunReader::resume`]. The current entry has no value meanwhile.
    pub(super) fn park(&mut self) {
        if !self.block.is_empty() {
            self.block = Vec::new();
            self.is_parked = true;
        }
    }

    /// Reads the block again that was given up.
    pub(super) fn resume(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_parked) {
            let (at, key) = (self.at, std::mem::take(&mut self.key));
            self.next_block = self.block_at;
            self.read_block()?;
            (self.at, self.key) = (at, key);
        }
        Ok(())
    }

    /// Moves to the next entry. Returns false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.at == self.block.len() && !self.read_block()? {
            return Ok(false);
        }
        let read = read_entry(&self.block, self.at, &mut self.key);
        self.value = read.map_err(|wrong| {
            let at = self.block_at + BLOCK_HEADER as u64;
            wrong.in_file(self.run.file.reader.path().display(), at)
        })?;
        self.at = self.value.end;
        Ok(true)
    }

    fn read_block(&mut self) -> Result<bool> {
        let extent = &self.run.extent;
        if self.next_block >= extent.end {
            return Ok(false);
        }
        let file = &*self.run.file.reader;
        let mut header = [0; BLOCK_HEADER];
        file.read_exact_at(&mut header, self.next_block)?;
        let word = |at: usize| header[at..].first_chunk().copied().map_or(0, u32::from_le_bytes);
        let (len, crc) = (word(0) as usize, word(4));
        let end = self.next_block + (BLOCK_HEADER + len) as u64;
        if len == 0 || len > extent.block_max || end > extent.end {
            return Err(self.corrupt(format_args!(
                "a block of {len} bytes: expected 1 to {} before offset {}",
                extent.block_max, extent.end
            )));
        }
        self.block.clear();
        self.block.resize(len, 0);
        file.read_exact_at(&mut self.block, self.next_block + BLOCK_HEADER as u64)?;
        let computed = block_checksum(self.run.file.number, self.next_block, &self.block);
        if !fits(computed, crc) {
            let found = format_args!("checksum {crc:08x}: expected {computed:08x}");
            return Err(self.corrupt(found));
        }
        self.block_at = self.next_block;
        self.next_block = end;
        self.at = 0;
        self.key.clear();
        Ok(true)
    }

    fn corrupt(&self, found: std::fmt::Arguments<'_>) -> Error {
        Error::corruption(self.run.file.reader.path().display(), self.next_block, found)
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.block[self.value.clone()]
    }
}
