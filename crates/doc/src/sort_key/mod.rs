//! Sort keys: bytes that compare as the values do, so that any value can be a key of a database.
//!
//! `docs/format/sort-key.md` draws them. A sort key marks its own end, so keys can be concatenated
//! to a compound key; each part is ascending or descending (every byte inverted). This requires
//! that no type byte is 00 or FF, plain or inverted.

mod decode;
mod encode;
mod number;
mod order;
mod skip;
mod turn;

pub use decode::{decode, decode_first, is_readable};
pub use encode::{Direction, directed, encode, encode_view, extract};
pub(crate) use encode::{of, of_pairs};
pub use order::{decode_ordered, encode_ordered, encode_ordered_view};
pub use skip::first_len;
pub use turn::{as_bool, as_datetime, as_int, as_text, is_container, turned};

/// The key of a value that is missing, in an index: one byte, before the keys of all values. It is
/// no sort key: nothing decodes to it.
pub const MISSING: u8 = 0x04;
/// The byte after the last part of an array or a map.
pub const END: u8 = kind::END;
/// The sort key of null: one byte.
pub const NULL: u8 = kind::NULL;

/// Returns the first and the last byte with which the keys of each type begin, but those of null.
pub const fn type_ranges() -> [(u8, u8); 9] {
    [
        (kind::FALSE, kind::TRUE),
        (kind::NOT_A_NUMBER, kind::ABOVE_ALL),
        (kind::TEXT, kind::TEXT),
        (kind::BYTES, kind::BYTES),
        (kind::OBJECT_ID, kind::OBJECT_ID),
        (kind::DATE_TIME, kind::DATE_TIME),
        (kind::UUID, kind::UUID),
        (kind::ARRAY, kind::ARRAY),
        (kind::MAP, kind::MAP),
    ]
}

/// The first byte of each kind of sort key.
pub(crate) mod kind {
    pub(crate) const END: u8 = 0x01;
    pub(crate) const NULL: u8 = 0x08;
    pub(crate) const FALSE: u8 = 0x0C;
    pub(crate) const TRUE: u8 = 0x0D;
    pub(crate) const NOT_A_NUMBER: u8 = 0x20;
    pub(crate) const BELOW_ALL: u8 = 0x21;
    pub(crate) const HUGE_NEGATIVE: u8 = 0x36;
    /// Minus the number of bytes of the floor's magnitude: 0x37..=0x3E.
    pub(crate) const NEGATIVE: u8 = 0x3F;
    pub(crate) const TINY_NEGATIVE: u8 = 0x3F;
    pub(crate) const ZERO: u8 = 0x40;
    pub(crate) const TINY_POSITIVE: u8 = 0x41;
    /// Plus the number of bytes of the floor: 0x42..=0x4A.
    pub(crate) const POSITIVE: u8 = 0x42;
    pub(crate) const HUGE_POSITIVE: u8 = 0x4B;
    pub(crate) const ABOVE_ALL: u8 = 0x4C;
    pub(crate) const TEXT: u8 = 0x60;
    pub(crate) const BYTES: u8 = 0x64;
    pub(crate) const OBJECT_ID: u8 = 0x66;
    pub(crate) const DATE_TIME: u8 = 0x68;
    pub(crate) const UUID: u8 = 0x6C;
    pub(crate) const ARRAY: u8 = 0x70;
    pub(crate) const MAP: u8 = 0x74;
}
