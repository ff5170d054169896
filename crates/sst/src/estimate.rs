//! Estimates without I/O: how many bytes of a table a range takes, and where to split a table. They
//! are exact to a block if the whole index is in memory, otherwise to a part of the index.

use crate::table::Table;
use flagstone_base::{KeyRange, SeqNo};
use std::ops::Bound;

impl Table {
    /// Estimates the file offset of the entries of `key`, to within a block, or the blocks of one
    /// index part. No I/O.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        match self.index.pieces().find(key, SeqNo::MAX) {
            Some(number) => self.index.piece_offset(number),
            None => self.index.start(),
        }
    }

    /// Estimates the bytes of the file that the keys of `range` take, to within two blocks, or the
    /// blocks of two index parts. No I/O.
    pub fn approximate_bytes(&self, range: &KeyRange) -> u64 {
        let start = match &range.start {
            Bound::Unbounded => self.index.start(),
            Bound::Included(key) | Bound::Excluded(key) => self.approximate_offset(key),
        };
        let end = match &range.end {
            Bound::Unbounded => self.index.end(),
            Bound::Included(key) | Bound::Excluded(key) => {
                match self.index.pieces().find(key, SeqNo::ZERO) {
                    Some(number) => self.index.piece_offset(number + 1),
                    None => self.index.start(),
                }
            }
        };
        end.saturating_sub(start)
    }

    /// Returns up to `parts - 1` ascending keys that split the table into ranges of about equal
    /// bytes. No I/O. Each key begins a range; all versions of a key fall into the same range.
    pub fn split_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        let pieces = self.index.pieces();
        let total = self.index.end() - self.index.start();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut part = 1;
        for number in 1..pieces.count() {
            if part >= parts as u64 {
                break;
            }
            let reached = self.index.piece_offset(number) - self.index.start();
            let wanted = u128::from(total) * u128::from(part) / parts as u128;
            if u128::from(reached) < wanted || pieces.continued(number).is_some() {
                continue;
            }
            keys.push(pieces.separator(number));
            while part < parts as u64
                && u128::from(total) * u128::from(part) / (parts as u128) <= u128::from(reached)
            {
                part += 1;
            }
        }
        keys
    }
}
