//! Writes runs into a spill file.

use super::format::{BLOCK_HEADER, ENTRY_HEADER_MAX, block_checksum, put_entry, put_header};
use flagstone_base::Result;
use flagstone_base::bytes::assign;
use flagstone_base::codec::put_u32;
use flagstone_engine::{Scratch, ScratchFile};
use flagstone_env::{ReadFile, WriteFile};
use std::sync::Arc;

/// A spill file that is being written, run after run. Dropping it removes the file.
pub(super) struct SpillWriter {
    // Declared before the file: the handle is closed before the name is removed.
    writer: Box<dyn WriteFile>,
    file: ScratchFile,
    scratch: Arc<Scratch>,
    block_bytes: usize,
    /// The header of the current block, to be filled in, and its entries.
    block: Vec<u8>,
    last_key: Vec<u8>,
    run: Option<Extent>,
    runs: Vec<Extent>,
}

/// The part of a file that a run takes.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The length of its largest block without the header, and of its longest key.
    pub(super) block_max: usize,
    pub(super) key_max: usize,
}

/// A spill file that is written. The last run of it removes it.
pub(super) struct SpillFile {
    pub(super) reader: Arc<dyn ReadFile>,
    pub(super) number: u64,
    _file: ScratchFile,
}

/// A run: sorted entries in a part of a file.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) file: Arc<SpillFile>,
    pub(super) extent: Extent,
}

impl Run {
    /// The bytes that it takes to read the run.
    pub(super) const fn reader_bytes(&self) -> usize {
        self.extent.block_max + self.extent.key_max
    }
}

impl SpillWriter {
    /// Creates a file whose blocks have about `block_bytes`.
    pub(super) fn create(scratch: &Arc<Scratch>, block_bytes: usize) -> Result<Self> {
        scratch.check_room(block_bytes as u64)?;
        let (file, mut writer) = scratch.create()?;
        let mut header = Vec::new();
        put_header(file.database(), file.number(), &mut header);
        writer.append(&header)?;
        let block = Vec::with_capacity(block_bytes);
        let last_key = Vec::new();
        let scratch = Arc::clone(scratch);
        let (run, runs) = (None, Vec::new());
        Ok(Self { writer, file, scratch, block_bytes, block, last_key, run, runs })
    }

    /// The number of bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.writer.position()
    }

    /// Appends an entry to the current run, or begins one.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let len = key.len() + value.len() + ENTRY_HEADER_MAX;
        if self.block.len() > BLOCK_HEADER && self.block.len() + len > self.block_bytes {
            self.write_block()?;
        }
        if self.block.is_empty() {
            self.block.resize(BLOCK_HEADER, 0);
            self.last_key.clear();
        }
        put_entry(&self.last_key, key, value, &mut self.block);
        assign(&mut self.last_key, key);
        let start = self.writer.position();
        let empty = Extent { start, end: start, block_max: 0, key_max: 0 };
        let run = self.run.get_or_insert(empty);
        run.key_max = run.key_max.max(key.len());
        Ok(())
    }

    fn write_block(&mut self) -> Result<()> {
        self.scratch.check_room(self.block.len() as u64)?;
        let (header, entries) = self.block.split_at_mut(BLOCK_HEADER);
        let crc = block_checksum(self.file.number(), self.writer.position(), entries);
        let mut filled = Vec::with_capacity(BLOCK_HEADER);
        put_u32(&mut filled, entries.len() as u32);
        put_u32(&mut filled, crc);
        header.copy_from_slice(&filled);
        self.writer.append(&self.block)?;
        if let Some(run) = &mut self.run {
            run.block_max = run.block_max.max(self.block.len() - BLOCK_HEADER);
            run.end = self.writer.position();
        }
        self.block.clear();
        // A large entry leaves no large buffer.
        self.block.shrink_to(self.block_bytes);
        Ok(())
    }

    /// Completes the current run, if it has entries.
    pub(super) fn end_run(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        self.runs.extend(self.run.take());
        Ok(())
    }

    /// Returns the runs of the file, which is complete.
    pub(super) fn finish(mut self) -> Result<Vec<Run>> {
        self.end_run()?;
        drop(self.writer);
        let (reader, number) = (self.file.open()?, self.file.number());
        let file = Arc::new(SpillFile { reader, number, _file: self.file });
        Ok(self
            .runs
            .iter()
            .map(|extent| Run { file: Arc::clone(&file), extent: *extent })
            .collect())
    }
}
