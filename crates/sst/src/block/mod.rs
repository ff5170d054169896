//! A data block: sorted entries followed by columns, so that a reader reaches any entry in one
//! step.
//!
//! ```text
//! entries        tag u8 | [expiry u64] | shared varint | suffix length varint
//!                | value length varint | suffix | value            ... one after another
//! places         n x (offset o bytes | SeqNo - base w bytes)      o = 2 or 4, w = 0..=7
//! fingerprints   n x 1 byte: low byte of the remixed hash of the key
//! trailer, 16    base SeqNo u64 | n u32 | w u8 | o u8 | restart shift u8 | zero u8
//! ```
//!
//! Every 16th key is a restart and is stored whole. The others record how many bytes they share
//! with the restart before them, not with their neighbour. So a reader decodes entry i without its
//! neighbours: a get searches the fingerprints with memchr, a seek is a binary search, and prev
//! costs as much as next.

mod builder;
mod view;

mod check;
mod search;

pub(crate) use builder::BlockBuilder;
pub(crate) use check::{check_entries, unreadable};
pub use view::StoredValue;
pub(crate) use view::{Block, Parsed};

/// The length of the trailer.
const TRAILER_BYTES: usize = 16;
/// Every 2^4th entry is a restart.
const RESTART_SHIFT: u8 = 4;
/// A key that shares fewer bytes with its restart is stored whole: so a get of it needs no second
/// cache line, at the price of at most two bytes an entry.
const SHARED_MIN: usize = 3;
/// The widest SeqNo column: a SeqNo has 56 bits.
const SEQNO_WIDTH_MAX: u8 = 7;

/// Returns the fingerprint of a key inside its block.
#[inline]
pub(crate) const fn fingerprint(remixed_hash: u64) -> u8 {
    remixed_hash as u8
}
