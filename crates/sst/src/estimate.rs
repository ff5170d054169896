//! Estimates from memory alone: how many bytes of a table lie in a range, where to cut it. To a block where the index is
//! in memory, else to a part of it.

use crate::table::Table;
use flagstone_base::{KeyRange, SeqNo};
use std::ops::Bound;

impl Table {
    /// About the offset in the file where the entries of `key` are, to the length of a block or of the blocks of a part of
    /// the index; no I/O.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        match self.index.pieces().find(key, SeqNo::MAX) {
            Some(number) => self.index.piece_offset(number),
            None => self.index.start(),
        }
    }

    /// About how many bytes of the file the keys of `range` take, to a block or two, or parts of the index; no I/O.
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

    /// Up to `parts - 1` keys, rising, that cut the table into ranges of about equal bytes; no I/O.
    /// A key begins the range behind it; no version of a key is cut from the others.
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
