//! Reads the stored bytes of a table from front to back, each once, and checks what they tell of
//! themselves.

use crate::format::{HEADER_BYTES, check_block, decode_header};
use crate::table::Table;
use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest};
use flagstone_base::checksum::fits;
use flagstone_base::{Error, Result};
use std::fmt;

/// How much is read at once: it stays in the processor's own cache while it is summed up.
const READ_BYTES: u64 = 256 << 10;

impl Table {
    /// Reads all of the file, past the block cache, and checks that it is what was written: header,
    /// place and checksum of every block, the checksum of the whole file if the manifest's is known; index, filter and the rest
    /// of the tail were checked when it was opened, but for the sample, which is read here. Nothing is decompressed and no entry decoded.
    ///
    /// Cost: about 0.1 us a KiB stored, from the page cache (`examples/table.rs`).
    ///
    /// # Errors
    /// Corruption that tells the first thing wrong; what reading the file answers.
    pub fn verify_stored(&self) -> Result<()> {
        self.check_header()?;
        let checksum = self.read_stored(|number, offset, stored| {
            match check_block(stored, self.ident, offset) {
                Ok(_) => Ok(()),
                Err(wrong) => Err(self.wrong_in_block(number, wrong)),
            }
        })?;
        let _checked = self.sample()?;
        self.check_checksum(checksum)
    }

    /// Checks the header, which no other reading of a table needs.
    ///
    /// # Errors
    /// Corruption, or what reading the file answers.
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

    /// Reads the file from front to back; `visit` gets the number, the offset and the stored bytes
    /// of every data block. Answers the CRC-32C of the whole file.
    pub(crate) fn read_stored(
        &self,
        mut visit: impl FnMut(usize, u64, &[u8]) -> Result<()>,
    ) -> Result<u32> {
        let mut digest = Digest::new(Crc32Iscsi);
        let mut buffer = vec![0; HEADER_BYTES];
        self.file.read_exact_at(&mut buffer, 0)?;
        digest.update(&buffer);
        if self.index.start() != HEADER_BYTES as u64 {
            return Err(self.wrong(0, format_args!("a gap between header and first block")));
        }
        let mut number = 0;
        while number < self.index.count() {
            let first = self.index.handle(number);
            let mut end = number + 1;
            while end < self.index.count() && {
                let next = self.index.handle(end);
                next.offset + next.len - first.offset <= READ_BYTES
            } {
                end += 1;
            }
            let last = self.index.handle(end - 1);
            // The index was checked to end where the filter or the tail begins, within the file.
            buffer.resize((last.offset + last.len - first.offset) as usize, 0);
            self.file.read_exact_at(&mut buffer, first.offset)?;
            digest.update(&buffer);
            for number in number..end {
                let handle = self.index.handle(number);
                let start = (handle.offset - first.offset) as usize;
                visit(number, handle.offset, &buffer[start..start + handle.len as usize])?;
            }
            number = end;
        }
        // Filter and tail.
        let mut offset = self.index.end();
        while offset < self.bytes() {
            let len = (self.bytes() - offset).min(READ_BYTES);
            buffer.resize(len as usize, 0);
            self.file.read_exact_at(&mut buffer, offset)?;
            digest.update(&buffer);
            offset += len;
        }
        Ok(digest.finalize() as u32)
    }

    /// Compares the CRC-32C of the file with that which the manifest keeps, if it is known.
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
