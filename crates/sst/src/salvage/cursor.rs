//! Reads the entries of the good blocks, in order.

use super::survey::Salvage;
use crate::block::Block;
use crate::format::{BLOCK_RAW_MAX, open_data_block};
use flagstone_base::{EntryRef, Result, Slice, Trailer};
use std::ops::Range;
use std::sync::Arc;

/// A cursor over the entries of a [`Salvage`], front to back. It holds one block in memory.
pub struct SalvageCursor {
    salvage: Arc<Salvage>,
    next_block: usize,
    block: Option<Block>,
    next_entry: usize,
    key: Vec<u8>,
    trailer: Option<Trailer>,
    value: Range<usize>,
}

impl SalvageCursor {
    /// Creates a cursor before the first entry.
    pub fn new(salvage: &Arc<Salvage>) -> Self {
        Self {
            salvage: Arc::clone(salvage),
            next_block: 0,
            block: None,
            next_entry: 0,
            key: Vec::new(),
            trailer: None,
            value: 0..0,
        }
    }

    /// Moves to the next entry. Returns false after the last entry.
    ///
    /// # Errors
    /// Io or Corruption, if a block that the survey found good can no longer be read.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            let Some(block) = &self.block else {
                if !self.open_next()? {
                    self.trailer = None;
                    return Ok(false);
                }
                continue;
            };
            if self.next_entry == block.count() {
                self.block = None;
                continue;
            }
            let offset = self.salvage.blocks[self.next_block - 1].offset;
            let path = self.salvage.file.path();
            let parsed = block
                .parse(self.next_entry)
                .and_then(|parsed| {
                    block.read_key(self.next_entry, &parsed, &mut self.key)?;
                    Ok(parsed)
                })
                .map_err(|wrong| wrong.in_file(path.display(), offset))?;
            (self.trailer, self.value) = (Some(parsed.trailer), parsed.value());
            self.next_entry += 1;
            return Ok(true);
        }
    }

    /// The current entry, or `None` before the first and after the last entry.
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        let value = &self.block.as_ref()?.bytes()[self.value.clone()];
        Some(EntryRef { key: &self.key, trailer: self.trailer?, value })
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(&handle) = self.salvage.blocks.get(self.next_block) else { return Ok(false) };
        let Salvage { file, ident, global, dictionary, .. } = &*self.salvage;
        let mut stored = vec![0; handle.len as usize];
        file.read_exact_at(&mut stored, handle.offset)?;
        let (offset, path, dictionary) = (handle.offset, file.path(), dictionary.as_ref());
        let take = |len| vec![0; len];
        let raw = open_data_block(&stored, *ident, offset, BLOCK_RAW_MAX, path, dictionary, take)?;
        let block = Block::new(Slice::from(raw), *global)
            .map_err(|wrong| wrong.in_file(file.path().display(), handle.offset))?;
        (self.block, self.next_entry) = (Some(block), 0);
        self.next_block += 1;
        Ok(true)
    }
}
