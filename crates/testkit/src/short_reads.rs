//! A reader whose reads end anywhere.

use std::io::{Read, Result};

/// Reads bytes in steps of this many at most.
pub struct ShortReads<'a>(pub &'a [u8], pub usize);

impl Read for ShortReads<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}
