//! Files read and written past the page cache: how they are opened, and memory they accept.

use crate::engine::Outcome;
use std::fs::{File, OpenOptions};
use std::path::Path;

/// What offsets, lengths and addresses of reads and writes past the page cache are multiples of.
pub(super) const ALIGNMENT: usize = 4096;

/// Makes the file `path`, or opens it again, for reads and writes past the page cache.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path) -> Outcome<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(OFlags::DIRECT.bits() as i32);
    options.open(path).map_err(|error| {
        let path = path.display();
        let text = match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::INVAL.raw_os_error() => format!(
                "the file system of {path} refuses reads and writes past its page cache \
                 (O_DIRECT), as those in memory do: choose a directory on a disk"
            ),
            _ => format!("cannot open {path}: {error}"),
        };
        text.into()
    })
}

/// Other systems offer no O_DIRECT.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(_path: &Path) -> Outcome<File> {
    Err("this system offers no reads and writes past the page cache (O_DIRECT)".into())
}

/// Bytes at an aligned address.
#[derive(Debug)]
pub(super) struct Aligned {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Aligned {
    /// Zeros.
    pub(super) fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGNMENT];
        let at = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, at, len }
    }

    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + self.len]
    }

    pub(super) fn as_ref(&self) -> &[u8] {
        &self.bytes[self.at..self.at + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_memory_is_aligned_and_has_its_length() {
        for len in [1, 4096, 16384, 1 << 20] {
            let mut memory = Aligned::new(len);
            assert_eq!(memory.as_mut().len(), len);
            assert_eq!(memory.as_ref().as_ptr().align_offset(ALIGNMENT), 0);
        }
    }
}
