//! Reads the stored bytes of a table once, from front to back, and verifies their checksums.

use crate::format::{HEADER_BYTES, check_block, decode_header};
use crate::index::Index;
use crate::lookup::{CacheUse, Nearby};
use crate::table::{Filtering, Table};
use flagstone_base::checksum::{Crc32c, fits};
use flagstone_base::{Error, Result};
use std::fmt;

/// Bytes of one read: few enough to stay in the processor's cache while they are checksummed.
const READ_BYTES: u64 = 256 << 10;

impl Table {
    /// Reads the whole file past the block cache and checks that it is what was written: the
    /// header, the checksum and offset of every block, the parts of filter and index, the sample,
    /// and the checksum of the whole file if the manifest's is known. Sections in memory were
    /// checked at open. Nothing is decompressed except the sample, and no entry is decoded.
    ///
    /// Cost: about 0.1 us for each stored KiB, from the page cache (`benches/table.rs`).
    ///
    /// # Errors
    /// Corruption, which names the first fault found; any error of reading the file.
    pub fn verify_stored(&self) -> Result<()> {
        self.check_header()?;
        let checksum = self.read_stored(|index, number, stored| {
            match check_block(stored, self.ident, index.offset(number)) {
                Ok(_) => Ok(()),
                Err(wrong) => Err(self.wrong_in_block(number, wrong)),
            }
        })?;
        self.check_filter_parts()?;
        let _checked = self.sample(0)?;
        self.check_checksum(checksum)
    }

    /// Checks the filter parts of a table whose filter is not in memory.
    pub(crate) fn check_filter_parts(&self) -> Result<()> {
        let Filtering::InParts(parts) = &self.filter else { return Ok(()) };
        let mut stored = Vec::new();
        for number in 0..parts.count() {
            let handle = parts.handle(number);
            stored.resize(handle.len as usize, 0);
            self.file.read_exact_at(&mut stored, handle.offset)?;
            check_block(&stored, self.ident, handle.offset)
                .map_err(|wrong| wrong.in_file(self.path().display(), handle.offset))?;
        }
        Ok(())
    }

    /// Checks the header, which no other read of a table needs.
    ///
    /// # Errors
    /// Corruption; any error of reading the file.
    pub fn verify_header(&self) -> Result<()> {
        self.check_header()
    }

    pub(crate) fn check_header(&self) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, 0)?;
        decode_header(&header)
            .map_err(|wrong| wrong.in_file(self.path().display(), 0))?
            .check(self.path().display(), self.ident)
    }

    /// Reads the file from front to back. Calls `visit` for each data block with the index that
    /// lists it, its number and its stored bytes. Returns the CRC-32C of the whole file.
    pub(crate) fn read_stored(
        &self,
        mut visit: impl FnMut(&Index, usize, &[u8]) -> Result<()>,
    ) -> Result<u32> {
        let mut sum = Crc32c::default();
        let mut buffer = vec![0; HEADER_BYTES];
        self.file.read_exact_at(&mut buffer, 0)?;
        sum.update(&buffer);
        if self.index.start() != HEADER_BYTES as u64 {
            return Err(self.wrong(0, format_args!("a gap between header and first block")));
        }
        let (mut nearby, mut number) = (Nearby::default(), 0);
        while number < self.index.count() {
            let index = self.index_of(&mut nearby, number, CacheUse::Pass)?;
            let (first, behind) = (index.offset(number), index.blocks().end);
            let mut end = number + 1;
            while end < behind && index.offset(end + 1) - first <= READ_BYTES {
                end += 1;
            }
            // Opening the table checked that the index ends where the filter or the tail begins,
            // within the file.
            buffer.resize((index.offset(end) - first) as usize, 0);
            self.file.read_exact_at(&mut buffer, first)?;
            sum.update(&buffer);
            for number in number..end {
                let handle = index.handle(number);
                let start = (handle.offset - first) as usize;
                visit(index, number, &buffer[start..start + handle.len as usize])?;
            }
            number = end;
        }
        // The filter, the parts of the index, and the tail.
        let mut offset = self.index.end();
        while offset < self.bytes() {
            let len = (self.bytes() - offset).min(READ_BYTES);
            buffer.resize(len as usize, 0);
            self.file.read_exact_at(&mut buffer, offset)?;
            sum.update(&buffer);
            offset += len;
        }
        Ok(sum.value())
    }

    /// Compares `checksum` of the file with the manifest's, if that is known.
    pub(crate) fn check_checksum(&self, checksum: u32) -> Result<()> {
        match self.meta.as_ref().filter(|meta| !fits(checksum, meta.checksum)) {
            Some(meta) => Err(self.wrong(
                0,
                format_args!("checksum {checksum:08x} of the file: expected {:08x}", meta.checksum),
            )),
            None => Ok(()),
        }
    }

    #[cold]
    pub(crate) fn wrong(&self, offset: u64, what: fmt::Arguments<'_>) -> Error {
        Error::corruption(self.path().display(), offset, what)
    }
}
