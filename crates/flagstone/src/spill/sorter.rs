//! The sorter: takes entries in any order, returns them sorted, within a bound of memory.

use super::buffer::{Buffer, PLACE_BYTES};
use super::merge::Merge;
use super::write::{Run, SpillWriter};
use flagstone_base::bytes::{assign, order};
use flagstone_base::{Error, Result, interrupt};
use flagstone_engine::{QueryMemory, Scratch};
use std::sync::Arc;

/// A sorter takes at least this much memory.
const MEMORY_MIN: usize = 16 << 10;
/// Blocks of a spill file have one part in this many of the memory ..
const BLOCK_PARTS: usize = 32;
/// .. and no more than this: larger blocks read no faster.
const BLOCK_BYTES_MAX: usize = 64 << 10;
/// The most runs that are merged at once.
const RUNS_MAX: usize = 256;

/// A sorter holds no more than this where all queries together hold what they may: no run is
/// shorter for that.
const CROWDED_BYTES: usize = 256 << 10;

/// What a sorter does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortOptions {
    /// The bytes of memory that it takes: at least 16 KiB, and two of the largest entries.
    pub(crate) memory: usize,
    /// Returns only the first entries of all.
    pub(crate) limit: Option<usize>,
    /// Returns only the first entry of each key, in the order of the pushes.
    pub(crate) distinct: bool,
    /// The memory is one part in this many of what the caller was given: for messages.
    pub(crate) share: usize,
}

/// How much a sorter has written to spill files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spilled {
    /// The bytes of all files.
    pub(crate) bytes: u64,
    /// The sorted runs that memory was full of.
    pub(crate) runs: u64,
    /// How often all or some of the runs were merged to longer ones.
    pub(crate) passes: u32,
}

/// Sorts entries of key and value by key; entries with one key stay in the order of the pushes.
///
/// With a limit only entries that can be among the first are kept, so a small limit never spills.
pub(crate) struct ExternalSorter {
    scratch: Arc<Scratch>,
    options: SortOptions,
    limit: usize,
    buffer: Buffer,
    held: QueryMemory,
    writer: Option<SpillWriter>,
    spilled: Spilled,
    /// With a limit: entries at or above this key are not among the first.
    cutoff: Option<Vec<u8>>,
    /// Set when memory is full and there is no directory to spill to: the memory that would be
    /// needed. Entries are only counted then.
    overflow: Option<u64>,
}

impl ExternalSorter {
    pub(crate) fn new(scratch: &Arc<Scratch>, options: SortOptions) -> Self {
        let options = SortOptions { memory: options.memory.max(MEMORY_MIN), ..options };
        Self {
            scratch: Arc::clone(scratch),
            options,
            limit: options.limit.unwrap_or(usize::MAX),
            buffer: Buffer::new(options.memory),
            held: QueryMemory::new(scratch),
            writer: None,
            spilled: Spilled::default(),
            cutoff: None,
            overflow: None,
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// OutOfSpace, Io, Closed; Busy if the scratch directory is in use. The sorter is useless then:
    /// drop it, which removes its files.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_beyond = |cutoff: &Vec<u8>| order(key, cutoff).is_ge();
        if self.limit == 0 || self.cutoff.as_ref().is_some_and(is_beyond) {
            return Ok(());
        }
        let len = key.len() + value.len();
        if let Some(bytes) = &mut self.overflow {
            *bytes += memory_of(len);
            return Ok(());
        }
        // With a limit, what cannot be among the first is dropped long before memory is full.
        let is_many = self.buffer.len() / 2 >= self.limit.max(512);
        let mut bytes = self.buffer.bytes_with(len);
        if is_many || bytes > self.memory_while_pushing() {
            self.make_room(len)?;
            if let Some(bytes) = &mut self.overflow {
                *bytes += memory_of(len);
                return Ok(());
            }
            self.held.set(self.buffer.bytes());
            bytes = self.buffer.bytes_with(len);
        }
        if !self.held.grow(bytes) {
            self.give_way(bytes, len)?;
        }
        self.buffer.push(key, value);
        Ok(())
    }

    /// Holds little memory for the next entry, of `len` bytes: other queries hold the rest.
    #[cold]
    fn give_way(&mut self, mut bytes: usize, len: usize) -> Result<()> {
        if bytes > CROWDED_BYTES && self.scratch.is_available() {
            self.spill()?;
            self.buffer = Buffer::new(CROWDED_BYTES);
            bytes = self.buffer.bytes_with(len);
        }
        self.held.set(bytes);
        Ok(())
    }

    /// Entries that are dropped leave room only after the others were copied. What is kept fits
    /// into a third of the memory then.
    const fn memory_while_pushing(&self) -> usize {
        if self.may_drop() { self.options.memory / 3 * 2 } else { self.options.memory }
    }

    const fn may_drop(&self) -> bool {
        self.options.distinct || self.options.limit.is_some()
    }

    fn sort(&mut self) {
        self.buffer.sort(self.options.distinct, self.limit);
        if self.buffer.len() == self.limit && self.limit > 0 {
            let last = self.buffer.key(self.limit - 1);
            assign(self.cutoff.get_or_insert_default(), last);
        }
    }

    /// Makes room for an entry of `len` bytes: drops what is not needed, or spills.
    #[cold]
    fn make_room(&mut self, len: usize) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if self.may_drop() {
            self.sort();
            if self.buffer.bytes_with(len) <= self.memory_while_pushing() {
                return Ok(());
            }
            if self.buffer.live_bytes() + len <= self.options.memory / 3 {
                self.buffer.compact();
                return Ok(());
            }
        }
        if self.scratch.is_available() {
            return self.spill();
        }
        let bytes =
            |index| memory_of(self.buffer.key(index).len() + self.buffer.value(index).len());
        self.overflow = Some((0..self.buffer.len()).map(bytes).sum());
        self.buffer = Buffer::new(0);
        Ok(())
    }

    /// Writes the buffer as a run.
    fn spill(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.sort();
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = SpillWriter::create(&self.scratch, self.block_bytes())?;
                self.writer.insert(writer)
            }
        };
        for index in 0..self.buffer.len() {
            writer.put(self.buffer.key(index), self.buffer.value(index))?;
        }
        writer.end_run()?;
        self.buffer.clear();
        Ok(())
    }

    fn block_bytes(&self) -> usize {
        (self.options.memory / BLOCK_PARTS).min(BLOCK_BYTES_MAX)
    }

    /// Returns all entries in order.
    ///
    /// # Errors
    /// InvalidInput if memory was full and there is no directory to spill to: the text says how
    /// much memory is needed. Otherwise as [`ExternalSorter::push`], and Corruption.
    pub(crate) fn finish(mut self) -> Result<SortedEntries> {
        if let Some(bytes) = self.overflow {
            return Err(self.no_memory(bytes));
        }
        if self.writer.is_some() {
            self.spill()?;
        }
        let Some(writer) = self.writer.take() else {
            self.sort();
            let Self { buffer, spilled, held, .. } = self;
            let state = SortedState::Memory { buffer, next: 0 };
            return Ok(SortedEntries { state, spilled, held, merge_bytes: 0 });
        };
        // The memory of the buffer is for the merge now.
        self.buffer = Buffer::new(0);
        let runs = self.complete(writer)?;
        self.spilled.runs = runs.len() as u64;
        self.held.set(self.options.memory);
        let runs = self.merge_passes(runs)?;
        let merge_bytes = runs.iter().map(Run::reader_bytes).sum();
        self.held.set(merge_bytes);
        let merge = Merge::new(runs, self.options.distinct, self.limit);
        let (state, spilled) = (SortedState::Merged(merge), self.spilled);
        Ok(SortedEntries { state, spilled, held: self.held, merge_bytes })
    }

    /// Completes a file and returns its runs.
    fn complete(&mut self, writer: SpillWriter) -> Result<Vec<Run>> {
        self.spilled.bytes += writer.bytes();
        writer.finish()
    }

    /// Merges neighbouring runs to longer ones until the rest can be merged at once. Each pass
    /// writes no more than it must.
    fn merge_passes(&mut self, mut runs: Vec<Run>) -> Result<Vec<Run>> {
        loop {
            let width = self.runs_at_once(&runs);
            if runs.len() <= width {
                return Ok(runs);
            }
            let mut writer = SpillWriter::create(&self.scratch, self.block_bytes())?;
            let (mut rest, mut merged) = (runs.into_iter(), 0);
            // Each merge of `n` runs makes them `n - 1` fewer.
            while merged + rest.len() > width && rest.len() > 1 {
                let count = (merged + rest.len() - width + 1).min(width);
                let group: Vec<Run> = rest.by_ref().take(count).collect();
                self.merge_to(&mut writer, group)?;
                merged += 1;
            }
            runs = self.complete(writer)?;
            runs.extend(rest);
            self.spilled.passes += 1;
        }
    }

    fn merge_to(&self, writer: &mut SpillWriter, group: Vec<Run>) -> Result<()> {
        let mut merge = Merge::new(group, self.options.distinct, self.limit);
        while merge.advance()? {
            interrupt::tick()?;
            writer.put(merge.key(), merge.value())?;
        }
        writer.end_run()
    }

    /// The number of runs that memory can merge at once, next to the block that is written.
    fn runs_at_once(&self, runs: &[Run]) -> usize {
        let reader = runs.iter().map(Run::reader_bytes).max().unwrap_or(0).max(1);
        (self.options.memory.saturating_sub(reader) / reader).clamp(2, RUNS_MAX)
    }

    #[cold]
    fn no_memory(&self, bytes: u64) -> Error {
        // What may be dropped while sorting takes more, see `memory_while_pushing`. Chunks of the
        // buffer are not filled to the last byte.
        let bytes = if self.may_drop() { bytes / 2 * 3 } else { bytes };
        let share = self.options.share as u64;
        let needed = share * (bytes + bytes / 4 + MEMORY_MIN as u64);
        Error::invalid(format!(
            "a sort or group with {} bytes of memory needs {needed}, and {} is open for reading \
             only: expected that much memory, or a directory for temporary files \
             (Builder::scratch_dir)",
            self.options.memory * self.options.share,
            self.scratch.database_dir().display()
        ))
    }
}

/// Writes the current entry of a sorted buffer, which is before `next`, and all after it to a file.
/// Returns them, at that entry, and the bytes of the file.
fn spilled(scratch: &Arc<Scratch>, buffer: &Buffer, next: usize) -> Result<(Merge, u64)> {
    let mut writer = SpillWriter::create(scratch, CROWDED_BYTES / BLOCK_PARTS)?;
    for index in next.saturating_sub(1)..buffer.len() {
        writer.put(buffer.key(index), buffer.value(index))?;
    }
    writer.end_run()?;
    let bytes = writer.bytes();
    let (distinct, limit) = (false, usize::MAX);
    let mut merge = Merge::new(writer.finish()?, distinct, limit);
    if next > 0 {
        merge.advance()?;
    }
    Ok((merge, bytes))
}

/// The memory of an entry of `len` bytes in the buffer.
const fn memory_of(len: usize) -> u64 {
    // The index has up to half of its places to spare.
    (len + PLACE_BYTES / 2 * 3) as u64
}

/// Entries in the order of their keys.
pub(crate) struct SortedEntries {
    state: SortedState,
    spilled: Spilled,
    held: QueryMemory,
    /// What a merge holds while it is read.
    merge_bytes: usize,
}

enum SortedState {
    Memory {
        buffer: Buffer,
        /// The entry after the current one.
        next: usize,
    },
    Merged(Merge),
}

impl SortedEntries {
    /// Moves to the next entry. Returns false at the end.
    ///
    /// # Errors
    /// Io, Corruption. The entries have ended then.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        match &mut self.state {
            SortedState::Memory { buffer, next } if *next < buffer.len() => {
                *next += 1;
                Ok(true)
            }
            SortedState::Memory { buffer, next } => {
                (*buffer, *next) = (Buffer::new(0), 0);
                self.held.set(0);
                Ok(false)
            }
            SortedState::Merged(merge) => {
                if merge.is_parked() {
                    self.held.set(self.merge_bytes);
                }
                let has_next = merge.advance();
                if !matches!(has_next, Ok(true)) {
                    self.held.set(0);
                }
                has_next
            }
        }
    }

    /// Gives up memory and keeps the position, for a slow reader. What is in memory and cannot be
    /// written to a spill file stays there.
    pub(crate) fn park(&mut self) {
        match &mut self.state {
            SortedState::Memory { buffer, next } => {
                let is_large = buffer.bytes() > CROWDED_BYTES;
                if !is_large || !self.held.scratch().is_available() {
                    return;
                }
                if let Ok((merge, bytes)) = spilled(self.held.scratch(), buffer, *next) {
                    self.state = SortedState::Merged(merge);
                    self.spilled.bytes += bytes;
                    self.spilled.runs += 1;
                }
            }
            SortedState::Merged(merge) => merge.park(),
        }
        if let SortedState::Merged(_) = &self.state {
            self.held.set(0);
        }
    }

    /// The key of the current entry.
    pub(crate) fn key(&self) -> &[u8] {
        match &self.state {
            SortedState::Memory { next: 0, .. } => &[],
            SortedState::Memory { buffer, next } => buffer.key(next - 1),
            SortedState::Merged(merge) => merge.key(),
        }
    }

    /// The value of the current entry.
    pub(crate) fn value(&self) -> &[u8] {
        match &self.state {
            SortedState::Memory { next: 0, .. } => &[],
            SortedState::Memory { buffer, next } => buffer.value(next - 1),
            SortedState::Merged(merge) => merge.value(),
        }
    }

    /// What was written to spill files.
    pub(crate) const fn spilled(&self) -> Spilled {
        self.spilled
    }
}
