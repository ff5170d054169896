//! The file of a table that is being written: gathers appends, computes the checksum, and starts
//! writeback early.

use flagstone_base::Result;
use flagstone_base::checksum::Crc32c;
use flagstone_env::WriteFile;

/// Appends are gathered up to this size, for fewer system calls.
const GATHER_BYTES: usize = 256 << 10;
/// Writeback starts after this many bytes, so that the sync at the end has little left to write.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// A file, the bytes that are gathered for it, and the CRC-32C of all of it.
pub(crate) struct Output {
    file: Box<dyn WriteFile>,
    gathered: Vec<u8>,
    sum: Crc32c,
    position: u64,
    written_back: u64,
}

impl Output {
    /// Creates an output to a new file.
    pub(crate) fn new(file: Box<dyn WriteFile>) -> Self {
        Self {
            file,
            gathered: Vec::with_capacity(GATHER_BYTES),
            sum: Crc32c::default(),
            position: 0,
            written_back: 0,
        }
    }

    /// The offset of the next byte.
    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    /// Appends `bytes`, which may stay in memory until [`Output::finish`].
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.position += bytes.len() as u64;
        if self.gathered.len() + bytes.len() > GATHER_BYTES {
            self.push()?;
        }
        if bytes.len() >= GATHER_BYTES {
            self.sum.update(bytes);
            self.file.append(bytes)?;
            return self.write_back(self.position);
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    fn push(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.sum.update(&self.gathered);
        self.file.append_vec(&mut self.gathered)?;
        self.write_back(self.file.position())
    }

    fn write_back(&mut self, appended: u64) -> Result<()> {
        if appended - self.written_back >= WRITEBACK_BYTES {
            self.written_back = appended;
            self.file.start_writeback()?;
        }
        Ok(())
    }

    /// Appends the gathered bytes and syncs the file. Returns its length and CRC-32C.
    pub(crate) fn finish(mut self) -> Result<(u64, u32)> {
        self.push()?;
        self.file.sync()?;
        Ok((self.position, self.sum.value()))
    }
}
