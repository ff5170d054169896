//! A skip list in one buffer, for one thread.

use super::{KEY_BYTES, Key, Sorted, copy};
use flagstone_base::hash::remix;
use flagstone_env::memory::{HUGE_PAGE_BYTES, Pages};
use std::ops::{Deref, DerefMut};

const LEVELS: usize = 12;
/// The offset of the head, to which no link leads: a link to it means the end.
const HEAD: u32 = 0;

const SEQNO: usize = KEY_BYTES;
/// The length of the value in the lowest 24 bits, and the height above them.
const SIZES: usize = SEQNO + 8;
const LINKS: usize = SIZES + 4;

/// Nodes follow one another: key, SeqNo, sizes, a link of four bytes a level, value. The newest
/// version of a key comes first.
pub(super) struct ArenaList {
    bytes: Buffer,
    random: u64,
}

/// Huge pages, as memtables have them, filled from the beginning.
pub(super) struct Buffer {
    pages: Pages,
    len: usize,
}

impl Buffer {
    /// Reserves memory for `entries` entries.
    pub(super) fn new(entries: usize, value_bytes: usize) -> Self {
        let bytes = (entries + 100) * (LINKS + 8 + value_bytes);
        Self { pages: Pages::new(bytes.next_multiple_of(HUGE_PAGE_BYTES)).unwrap(), len: 0 }
    }

    fn append(&mut self, bytes: &[u8]) {
        let at = self.len;
        self.len += bytes.len();
        assert!(self.len <= self.pages.bytes());
        self[at..].copy_from_slice(bytes);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` is at most the length of the pages, which are zeroed and not shared.
        unsafe { std::slice::from_raw_parts(self.pages.start().as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.pages.start().as_ptr(), self.len) }
    }
}

impl ArenaList {
    /// Creates an empty list in memory that may have held another.
    pub(super) fn new(mut bytes: Buffer) -> Self {
        bytes.len = 0;
        bytes.append(&[0; LINKS + 4 * LEVELS]);
        Self { bytes, random: 1 }
    }

    pub(super) fn into_buffer(self) -> Buffer {
        self.bytes
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn next(&self, node: u32, level: usize) -> u32 {
        self.number(node as usize + LINKS + 4 * level)
    }

    fn link(&mut self, node: u32, level: usize, to: u32) {
        let at = node as usize + LINKS + 4 * level;
        self.bytes[at..at + 4].copy_from_slice(&to.to_le_bytes());
    }

    fn key(&self, node: u32) -> &[u8] {
        &self.bytes[node as usize..node as usize + KEY_BYTES]
    }

    fn value(&self, node: u32) -> &[u8] {
        let sizes = self.number(node as usize + SIZES);
        let start = node as usize + LINKS + 4 * (sizes >> 24) as usize;
        &self.bytes[start..start + (sizes & 0xFF_FFFF) as usize]
    }

    fn seqno(&self, node: u32) -> u64 {
        let at = node as usize + SEQNO;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    /// Returns whether `node` is before that version of the key.
    fn is_before(&self, node: u32, key: &Key, seqno: u64) -> bool {
        match self.key(node).cmp(key) {
            std::cmp::Ordering::Equal => self.seqno(node) > seqno,
            order => order.is_lt(),
        }
    }

    /// Returns the last node before that version on each level.
    fn before(&self, key: &Key, seqno: u64) -> [u32; LEVELS] {
        let (mut node, mut before) = (HEAD, [HEAD; LEVELS]);
        for level in (0..LEVELS).rev() {
            loop {
                let next = self.next(node, level);
                if next == HEAD || !self.is_before(next, key, seqno) {
                    break;
                }
                node = next;
            }
            before[level] = node;
        }
        before
    }

    fn first_from(&self, key: &Key) -> u32 {
        self.next(self.before(key, u64::MAX)[0], 0)
    }
}

impl Sorted for ArenaList {
    fn insert(&mut self, key: &Key, seqno: u64, value: &[u8]) {
        let before = self.before(key, seqno);
        self.random = remix(self.random);
        // One in four nodes is a level higher.
        let height = (self.random.trailing_zeros() as usize / 2 + 1).min(LEVELS);
        let node = u32::try_from(self.bytes.len()).unwrap();
        self.bytes.append(key);
        self.bytes.append(&seqno.to_le_bytes());
        let sizes = (height as u32) << 24 | value.len() as u32;
        self.bytes.append(&sizes.to_le_bytes());
        for (level, before) in before.iter().enumerate().take(height) {
            let next = self.next(*before, level);
            self.bytes.append(&next.to_le_bytes());
            self.link(*before, level, node);
        }
        self.bytes.append(value);
    }

    fn get(&self, key: &Key, out: &mut Vec<u8>) -> bool {
        let node = self.first_from(key);
        let is_found = node != HEAD && self.key(node) == key;
        if is_found {
            out.clear();
            out.extend_from_slice(self.value(node));
        }
        is_found
    }

    fn scan(&self, from: &Key, limit: usize) -> usize {
        let (mut node, mut count, mut out) = (self.first_from(from), 0, Vec::new());
        while node != HEAD && count < limit {
            copy(&mut out, self.key(node), self.value(node));
            node = self.next(node, 0);
            count += 1;
        }
        count
    }
}
