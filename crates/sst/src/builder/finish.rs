//! What follows the data blocks: the sections, the properties and the footer.

use super::entries::TableBuilder;
use crate::filter::Filter;
use crate::format::{BLOCK_RAW_MAX, FOOTER_BYTES, Footer, HEADER_BYTES};
use crate::format::{DICTIONARY, EXPIRIES, INDEX_IN_PARTS};
use crate::format::{TableLabel, seal_block, section_raw_max};
use crate::index_builder::{BuiltIndex, IndexBuilder};
use crate::meta::TableMeta;
use crate::properties::{FilterParts, Handle, Sections};
use crate::ranges::encode_attachments;
use flagstone_base::{Compression, Error, Result};
use std::mem::take;

impl TableBuilder {
    /// Writes one section after the data blocks.
    fn section(&mut self, raw: &[u8], compression: Compression) -> Result<Handle> {
        if raw.len() > BLOCK_RAW_MAX {
            return Err(Error::invalid(format!(
                "a section of a table has {} bytes: expected at most {BLOCK_RAW_MAX}",
                raw.len()
            )));
        }
        let offset = self.output.position();
        seal_block(raw, compression, self.ident, offset, &mut self.stored);
        if section_raw_max(self.stored.len() as u64) < raw.len() as u64 {
            seal_block(raw, Compression::None, self.ident, offset, &mut self.stored);
        }
        self.output.append(&self.stored)?;
        let largest = &mut self.properties.block_bytes_max;
        *largest = (*largest).max(raw.len() as u64);
        Ok(Handle { offset, len: self.stored.len() as u64 })
    }

    /// Writes the filter parts, directly after the data blocks.
    fn filter(&mut self) -> Result<Option<FilterParts>> {
        if self.filter_hashes.is_empty() {
            return Ok(None);
        }
        let filter = Filter::build(&self.filter_hashes, self.options.tables.filter_bits);
        self.filter_hashes = Vec::new();
        let (offset, blocks) = (self.output.position(), filter.blocks().len() as u32);
        for part in filter.parts() {
            self.section(&part, Compression::None)?;
        }
        Ok(Some(FilterParts { offset, blocks }))
    }

    /// Writes the parts of an index in parts, directly before the tail. Returns their place, and
    /// the section for the tail.
    fn index(&mut self) -> Result<(Option<Handle>, Vec<u8>)> {
        let next = IndexBuilder::new(HEADER_BYTES as u64, self.options.index_part_blocks);
        match std::mem::replace(&mut self.index, next).finish() {
            BuiltIndex::Whole(section) => Ok((None, section)),
            BuiltIndex::InParts { parts, top } => {
                let offset = self.output.position();
                for part in parts {
                    self.section(&part, Compression::None)?;
                }
                let len = self.output.position() - offset;
                Ok((Some(Handle { offset, len }), top.encode(offset)))
            }
        }
    }

    fn sections(&mut self, index: &[u8]) -> Result<Sections> {
        let compression = self.options.compression();
        let mut sections = Sections::default();
        if !self.ranges.is_empty() {
            // Never compressed: in memory range deletes take many times their stored bytes.
            let mut ranges = take(&mut self.ranges);
            sections.range_deletes = Some(self.section(ranges.section(), Compression::None)?);
        }
        if !self.attachments.is_empty() {
            let raw = encode_attachments(&self.attachments);
            sections.attachments = Some(self.section(&raw, compression)?);
        }
        if let Some(raw) = self.sampler.encode() {
            sections.sample = Some(self.section(&raw, compression)?);
        }
        if let Some(dictionary) = self.dictionary.take() {
            // Never compressed: it holds what the blocks have in common, once.
            self.properties.dictionary_share = dictionary.share();
            let bytes = dictionary.packer().bytes();
            sections.dictionary = Some(self.section(bytes, Compression::None)?);
        }
        // Never compressed: the index is read at every open.
        sections.index = Some(self.section(index, Compression::None)?);
        Ok(sections)
    }

    /// Sets the bounds to cover entries and range deletes.
    fn bound(&mut self, first: Vec<u8>) {
        let content = &mut self.properties.content;
        let entries_first = (content.entries > 0).then_some(first.as_slice());
        let firsts = [self.ranges.smallest(), entries_first].into_iter().flatten();
        content.smallest = firsts.min().unwrap_or_default().to_vec();
        let end = self.ranges.largest().unwrap_or_default();
        let last = self.last.as_ref().map_or(&[][..], |(key, _)| key);
        content.largest_exclusive = end > last;
        content.largest = end.max(last).to_vec();
    }

    /// Writes the sections and the footer, and syncs the file (not its directory). Returns the
    /// record of the table for the manifest.
    ///
    /// # Errors
    /// InvalidInput for a table with neither entries nor range deletes; any error of writing or
    /// syncing the file.
    pub fn finish(mut self) -> Result<TableMeta> {
        if self.is_empty() {
            return Err(Error::invalid("a table without entries"));
        }
        self.finish_block()?;
        if let Some((sample, _)) = self.sample.take() {
            self.join(&sample)?;
        }
        self.finish_block()?;
        let first = self.properties.content.smallest.clone();
        self.bound(first);
        let filter_parts = self.filter()?;
        let (index_parts, index) = self.index()?;
        let tail_offset = self.output.position();
        self.properties.sections = Sections { filter_parts, index_parts, ..self.sections(&index)? };
        self.properties.sample_shift = Some(self.sampler.shift());
        self.properties.content.expiries = self.expiries.summary();
        let mut raw = Vec::new();
        self.properties.encode(&mut raw);
        let properties = self.section(&raw, Compression::None)?;
        let mut read_incompatible = if index_parts.is_some() { INDEX_IN_PARTS } else { 0 };
        if self.properties.content.expiries.count > 0 {
            read_incompatible |= EXPIRIES;
        }
        if self.properties.sections.dictionary.is_some() {
            read_incompatible |= DICTIONARY;
        }
        let label = TableLabel::new(self.ident, read_incompatible);
        let footer = Footer { properties, tail_offset, label }.encode();
        debug_assert_eq!(footer.len(), FOOTER_BYTES);
        self.output.append(&footer)?;
        let (bytes, checksum) = self.output.finish()?;
        let tail_bytes = bytes - tail_offset;
        Ok(TableMeta {
            bytes,
            tail_bytes,
            checksum,
            salt: self.ident.salt,
            ..self.properties.content
        })
    }
}
