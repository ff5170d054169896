//! Builds a data block: entries as they are added, columns at the end.

use super::{RESTART_SHIFT, SHARED_MIN, TRAILER_BYTES, fingerprint};
use flagstone_base::EntryRef;
use flagstone_base::bytes::common_prefix;
use flagstone_base::codec::{put_u32, put_u64, put_varint};
use flagstone_base::large_buffer::reserve_large;
use flagstone_env::os::LARGE_BUFFER;

/// The bytes that a block and its entries take besides keys and values, if there are few entries.
const LARGE_ROOM: usize = 4 << 10;

/// A block while it is filled. One builder is used for all blocks of a table.
#[derive(Clone, Default)]
pub(crate) struct BlockBuilder {
    raw: Vec<u8>,
    seqnos: Vec<u64>,
    offsets: Vec<u32>,
    fingerprints: Vec<u8>,
    restart_key: Vec<u8>,
}

impl BlockBuilder {
    /// Returns whether the block has no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The length of the block if it were finished now, within a few percent.
    #[inline]
    pub(crate) fn bytes_estimated(&self) -> usize {
        // Three bytes for offset and fingerprint. SeqNos take 0 to 7, mostly up to 3.
        self.raw.len() + 6 * self.offsets.len() + TRAILER_BYTES
    }

    /// Appends an entry. The caller adds entries in order.
    pub(crate) fn add(&mut self, entry: EntryRef<'_>, remixed_hash: u64) {
        let is_restart = self.offsets.len() & ((1 << RESTART_SHIFT) - 1) == 0;
        let shared = if is_restart {
            self.restart_key.clear();
            self.restart_key.extend_from_slice(entry.key);
            0
        } else {
            match common_prefix(&self.restart_key, entry.key) {
                0..SHARED_MIN => 0,
                shared => shared,
            }
        };
        let suffix = &entry.key[shared..];
        self.offsets.push(self.raw.len() as u32);
        self.seqnos.push(entry.seqno().get());
        self.fingerprints.push(fingerprint(remixed_hash));
        if entry.value.len() >= LARGE_BUFFER {
            // The trailer must not make the buffer grow, which could double and copy it.
            reserve_large(&mut self.raw, entry.value.len() + suffix.len() + LARGE_ROOM);
        }
        self.raw.push(entry.trailer.tag());
        if let Some(expiry) = entry.trailer.expiry() {
            put_u64(&mut self.raw, expiry.millis());
        }
        put_varint(&mut self.raw, shared as u64);
        put_varint(&mut self.raw, suffix.len() as u64);
        put_varint(&mut self.raw, entry.value.len() as u64);
        self.raw.extend_from_slice(suffix);
        self.raw.extend_from_slice(entry.value);
    }

    /// Appends the columns and the trailer. Returns the raw block, which is valid until
    /// [`BlockBuilder::clear`].
    pub(crate) fn finish(&mut self) -> &[u8] {
        let base = self.seqnos.iter().copied().min().unwrap_or(0);
        let largest = self.seqnos.iter().copied().max().unwrap_or(0);
        let seqno_width = (64 - (largest - base).leading_zeros() as usize).div_ceil(8);
        let offset_width = if self.raw.len() <= usize::from(u16::MAX) { 2 } else { 4 };
        self.raw.reserve(self.offsets.len() * (seqno_width + offset_width + 1) + TRAILER_BYTES);
        for (offset, seqno) in self.offsets.iter().zip(&self.seqnos) {
            self.raw.extend_from_slice(&offset.to_le_bytes()[..offset_width]);
            self.raw.extend_from_slice(&(seqno - base).to_le_bytes()[..seqno_width]);
        }
        self.raw.extend_from_slice(&self.fingerprints);
        put_u64(&mut self.raw, base);
        put_u32(&mut self.raw, self.offsets.len() as u32);
        self.raw.extend_from_slice(&[seqno_width as u8, offset_width as u8, RESTART_SHIFT, 0]);
        &self.raw
    }

    /// Finishes the block and empties it. Returns the raw block.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.finish();
        let raw = std::mem::take(&mut self.raw);
        self.clear();
        raw
    }

    /// Empties the block for the next one.
    pub(crate) fn clear(&mut self) {
        // Free the buffer of a block with a huge value instead of keeping it until the table is
        // finished.
        if self.raw.capacity() > 4 << 20 {
            let raw = std::mem::take(&mut self.raw).capacity();
            flagstone_env::os::freed(raw);
        }
        self.raw.clear();
        self.seqnos.clear();
        self.offsets.clear();
        self.fingerprints.clear();
    }
}
