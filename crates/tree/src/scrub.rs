//! Reads a table again, piece by piece, past all caches, to check that the device still has what
//! was written.

use crate::version::TableHandle;
use flagstone_base::checksum::{Crc32c, fits};
use flagstone_base::{Error, Result};
use flagstone_env::ReadFile;
use flagstone_env::disk::Access;
use std::sync::Arc;

/// Bytes of one step: as many as one read past the page cache.
const PIECE_BYTES: u64 = 256 << 10;

/// A scrub of one table in progress. It keeps the file, like any other reader.
pub struct Scrub {
    handle: Arc<TableHandle>,
    file: Arc<dyn ReadFile>,
    at: u64,
    sum: Crc32c,
    buffer: Vec<u8>,
}

impl Scrub {
    /// Begins the scrub of a table.
    ///
    /// # Errors
    /// Any error of opening the file. Damage is noted.
    pub fn start(handle: &Arc<TableHandle>) -> Result<Self> {
        let file = handle.open_apart().map_err(|error| handle.noted(error))?;
        if file.len() != handle.meta().bytes {
            let (len, expected) = (file.len(), handle.meta().bytes);
            let found = format_args!("a table of {len} bytes: expected {expected}");
            return Err(handle.noted(Error::corruption(file.path().display(), len, found)));
        }
        file.advise(Access::Random);
        let (sum, buffer) = (Crc32c::default(), Vec::new());
        Ok(Self { handle: Arc::clone(handle), file, at: 0, sum, buffer })
    }

    /// Reads the next piece. Returns its length, or 0 once the whole file was read and is as
    /// written.
    ///
    /// # Errors
    /// Corruption, which names the damaged block if one is found; any error of reading the file.
    /// Damage is noted.
    pub fn step(&mut self) -> Result<u64> {
        let len = PIECE_BYTES.min(self.file.len() - self.at);
        if len == 0 {
            return self.finish().map(|()| 0).map_err(|error| self.handle.noted(error));
        }
        self.buffer.resize(len as usize, 0);
        let read = self.file.read_block_at(&mut self.buffer, self.at);
        read.map_err(|error| self.handle.noted(error))?;
        self.sum.update(&self.buffer);
        self.at += len;
        Ok(len)
    }

    fn finish(&self) -> Result<()> {
        let (found, expected) = (self.sum.value(), self.handle.meta().checksum);
        if fits(found, expected) {
            return Ok(());
        }
        // Find the damaged block, for the error.
        self.handle.open()?.verify_stored()?;
        Err(Error::corruption(
            self.file.path().display(),
            0,
            format_args!("checksum {found:08x} of the file: expected {expected:08x}"),
        ))
    }
}
