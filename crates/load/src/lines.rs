//! Line numbers of a plain file that several threads read: counted only on demand.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

/// The number of lines before some offsets. A new offset is counted from the nearest one.
#[derive(Debug, Default)]
pub(crate) struct LineCounts {
    /// Offset -> newlines before it.
    known: BTreeMap<u64, u64>,
}

/// Reads a file at `offset` without moving its own position, as far as one call of the system does.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_at(file, buffer, offset);
    #[cfg(windows)]
    return std::os::windows::fs::FileExt::seek_read(file, buffer, offset);
}

const BLOCK_BYTES: usize = 1 << 20;

impl LineCounts {
    /// Returns the number of the line, from 1, to which the byte at `offset` belongs.
    pub(crate) fn line_of(&mut self, file: &File, offset: u64) -> io::Result<u64> {
        let nearest = self.known.range(..=offset).next_back();
        let (mut at, mut lines) = nearest.map_or((0, 0), |(at, lines)| (*at, *lines));
        let mut block = vec![0; BLOCK_BYTES.min((offset - at) as usize)];
        while at < offset {
            let len = block.len().min((offset - at) as usize);
            let read = read_at(file, &mut block[..len], at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            lines += memchr::memchr_iter(b'\n', &block[..read]).count() as u64;
            at += read as u64;
        }
        self.known.insert(offset, lines);
        Ok(lines + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_are_the_same_in_whatever_order_they_are_asked_for() {
        let mut file = tempfile::tempfile().unwrap();
        let text = b"a\nbb\n\nccc\nd".repeat(100);
        file.write_all(&text).unwrap();
        let mut counts = LineCounts::default();
        for offset in [500, 3, 0, 1099, 700, 4, 2, 501, 1] {
            let before = text[..offset].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(
                counts.line_of(&file, offset as u64).unwrap(),
                before as u64 + 1,
                "{offset}"
            );
        }
        assert!(counts.line_of(&file, 5000).is_err());
    }
}
