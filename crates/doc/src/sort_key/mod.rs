//! Sort keys: bytes that compare as the values do, so that any value can be a key of a database.
//!
//! `docs/format/sort-key.md` draws them. A sort key marks its own end, so keys can be concatenated
//! to a compound key; each part is ascending or descending (every byte inverted). This requires
//! that no type byte is 00 or FF, plain or inverted.

mod decode;
mod encode;
mod number;

pub use decode::{decode, decode_first, is_readable};
pub use encode::{Direction, directed, encode, encode_view, extract};
pub(crate) use encode::{of, of_pairs};

/// The key of a value that is missing, in an index: one byte, before the keys of all values. It is
/// no sort key: nothing decodes to it.
pub const MISSING: u8 = 0x04;

/// The first byte of each kind of sort key.
mod kind {
    pub(super) const END: u8 = 0x01;
    pub(super) const NULL: u8 = 0x08;
    pub(super) const FALSE: u8 = 0x0C;
    pub(super) const TRUE: u8 = 0x0D;
    pub(super) const NOT_A_NUMBER: u8 = 0x20;
    pub(super) const BELOW_ALL: u8 = 0x21;
    pub(super) const HUGE_NEGATIVE: u8 = 0x36;
    /// Minus the number of bytes of the floor's magnitude: 0x37..=0x3E.
    pub(super) const NEGATIVE: u8 = 0x3F;
    pub(super) const TINY_NEGATIVE: u8 = 0x3F;
    pub(super) const ZERO: u8 = 0x40;
    pub(super) const TINY_POSITIVE: u8 = 0x41;
    /// Plus the number of bytes of the floor: 0x42..=0x4A.
    pub(super) const POSITIVE: u8 = 0x42;
    pub(super) const HUGE_POSITIVE: u8 = 0x4B;
    pub(super) const ABOVE_ALL: u8 = 0x4C;
    pub(super) const TEXT: u8 = 0x60;
    pub(super) const BYTES: u8 = 0x64;
    pub(super) const DATE_TIME: u8 = 0x68;
    pub(super) const UUID: u8 = 0x6C;
    pub(super) const ARRAY: u8 = 0x70;
    pub(super) const MAP: u8 = 0x74;
}
