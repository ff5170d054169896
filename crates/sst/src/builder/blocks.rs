//! The data blocks: ended, held back until a dictionary is chosen, and written.

use super::entries::TableBuilder;
use crate::block::check_entries;
use crate::format::seal_block;
use crate::learned::{HeldBlock, Learned, choose};
use flagstone_base::compress::Packing;
use flagstone_base::{Compression, EntryCheck, Result, SeqNo};
use std::mem::take;
use std::sync::Arc;

impl TableBuilder {
    pub(super) fn finish_block(&mut self) -> Result<()> {
        let last = self.last.take();
        let done = self.end_block(last.as_ref().map_or(&[], |(key, _)| key));
        self.last = last;
        done
    }

    /// Ends the current block, whose last key is `last`: writes it, or adds it to the sample.
    fn end_block(&mut self, last: &[u8]) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (mut checks, first) = (take(&mut self.checks), take(&mut self.block_first));
        if let Some((sample, bytes)) = &mut self.sample {
            let raw = self.block.take();
            *bytes += raw.len();
            sample.push(HeldBlock { raw, checks, first, last: last.to_vec() });
            let is_full = *bytes >= self.options.dictionary_sample_bytes;
            return if is_full { self.choose_dictionary() } else { Ok(()) };
        }
        let mut block = take(&mut self.block);
        let done = self.write_block(block.finish(), &checks, (&first.0, first.1), last);
        block.clear();
        checks.clear();
        (self.block, self.checks, self.block_first) = (block, checks, first);
        done
    }

    /// Writes a finished block, whose last key is `last`.
    fn write_block(
        &mut self,
        raw: &[u8],
        checks: &[EntryCheck],
        first: (&[u8], SeqNo),
        last: &[u8],
    ) -> Result<()> {
        let raw_len = raw.len() as u64;
        let offset = self.output.position();
        let compression =
            self.compressibility.choose(self.options.compression(), raw, &mut self.stored);
        let packing = match (&self.dictionary, compression) {
            (Some(dictionary), Compression::Zstd(_)) => Packing::With(dictionary.packer()),
            _ => compression.into(),
        };
        let shrank = seal_block(raw, packing, self.ident, offset, &mut self.stored);
        self.compressibility.note(shrank);
        // The check comes after compression, so that it also finds a bit that flipped before or
        // during it.
        if self.options.entry_checks {
            check_entries(raw, checks, self.options.hash_seed)?;
        }
        self.output.append(&self.stored)?;
        self.properties.data_blocks += 1;
        self.properties.data_bytes_raw += raw_len;
        self.properties.block_bytes_max = self.properties.block_bytes_max.max(raw_len);
        let len = self.stored.len() as u64;
        if self.stored.capacity() > 4 << 20 {
            let stored = take(&mut self.stored).capacity();
            flagstone_env::os::freed(stored);
        }
        self.index.add(len, first, self.block_before.as_deref());
        let before = self.block_before.get_or_insert_default();
        before.clear();
        before.extend_from_slice(last);
        Ok(())
    }

    /// Chooses a dictionary by the sample, or none, and writes the blocks of the sample.
    fn choose_dictionary(&mut self) -> Result<()> {
        let Some((sample, _)) = self.sample.take() else { return Ok(()) };
        if let Some(level) = self.options.dictionary_level() {
            self.learned = choose(&sample, &self.learned, level);
        }
        let Learned::Dictionary(dictionary) = &self.learned else { return self.join(&sample) };
        self.dictionary = Some(Arc::clone(dictionary));
        sample.into_iter().try_for_each(|block| {
            let first = (block.first.0.as_slice(), block.first.1);
            self.write_block(&block.raw, &block.checks, first, &block.last)
        })
    }

    /// Writes the entries of short blocks in blocks of the full length, because the table gets no
    /// dictionary. The last of these is the current block then.
    pub(super) fn join(&mut self, sample: &[HeldBlock]) -> Result<()> {
        self.block_bytes = self.options.tables.block_bytes;
        let mut last = Vec::new();
        for held in sample {
            held.visit(|entry, fingerprint, check| {
                let size = entry.key.len() + entry.value.len() + 16;
                if self.block.bytes_estimated() + size > self.block_bytes {
                    self.end_block(&last)?;
                }
                if self.block.is_empty() {
                    self.block_first = (entry.key.to_vec(), entry.seqno());
                }
                self.block.add(entry, u64::from(fingerprint));
                self.checks.extend(check);
                last.clear();
                last.extend_from_slice(entry.key);
                Ok(())
            })?;
        }
        Ok(())
    }
}
