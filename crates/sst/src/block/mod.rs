//! A data block: sorted entries with columns behind them, so any entry is reached in one step.
//!
//! ```text
//! entries        kind u8 | shared varint | suffix length varint | value length varint
//!                | suffix | value            ... one behind the other
//! places         n x (offset o bytes | SeqNo - base w bytes)      o = 2 or 4, w = 0..=7
//! fingerprints   n x 1 byte: low byte of the remixed hash of the key
//! trailer, 16    base SeqNo u64 | n u32 | w u8 | o u8 | restart shift u8 | zero u8
//! ```
//!
//! Every 16th key is a restart and stands whole; the others say how many bytes they share with the
//! restart before them, not with their neighbour. So entry i is read without its neighbours: a get
//! looks for its fingerprint with memchr, a seek is a binary search, and prev costs what next does.

mod builder;
mod view;

mod check;

pub(crate) use builder::BlockBuilder;
pub(crate) use check::check_entries;
pub(crate) use view::{Block, Parsed};

/// Bytes of the trailer.
const TRAILER_BYTES: usize = 16;
/// A restart every 2^4 entries.
const RESTART_SHIFT: u8 = 4;
/// Keys that share fewer bytes with their restart stand whole: a get of one then needs no second
/// cache line, and two bytes an entry would be saved at most.
const SHARED_MIN: usize = 3;
/// The width of SeqNos is at most that of their 56 bits.
const SEQNO_WIDTH_MAX: u8 = 7;

/// The fingerprint of a key inside its block.
#[inline]
pub(crate) const fn fingerprint(remixed_hash: u64) -> u8 {
    remixed_hash as u8
}
