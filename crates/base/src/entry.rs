//! An entry: a key, the SeqNo of a write, what the write did to the key (its kind), and a value.
//!
//! Entries are always ordered by key ascending, then by SeqNo *descending*, so the newest of a key
//! comes first.
//!
//! ```text
//! trailer, u64 on disk (little-endian):   SeqNo : 56  |  flags : 4  |  kind : 4
//!                                          bits 8..64     bits 4..8    bits 0..4
//! ```

use crate::codec::Malformed;
use crate::number::SeqNo;
use std::cmp::Ordering;
use std::fmt;

/// What an entry does to its key. The numbers are stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key is absent (a tombstone); the value is empty.
    Delete = 2,
    /// The keys from this key up to the value (exclusive) are absent: the value is the end of the
    /// range.
    RangeDelete = 3,
    /// The value is a merge operand, to be folded into the older entries of the key.
    Merge = 4,
}

impl Kind {
    /// The kind whose number is `byte`; `None` if there is none.
    #[inline]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            3 => Some(Self::RangeDelete),
            4 => Some(Self::Merge),
            _ => None,
        }
    }
}

/// Flag of a trailer, reserved: an optional field follows the trailer, the expiry of the entry in
/// u64 seconds.
pub const FLAG_EXPIRY: u8 = 1 << 4;
/// Flag of a trailer, reserved: the value is compressed by itself, with a dictionary whose id
/// follows the trailer.
pub const FLAG_DICTIONARY: u8 = 1 << 5;
/// Flag of a trailer, reserved: the value is in a blob file, and the entry holds a pointer to it.
pub const FLAG_BLOB: u8 = 1 << 6;

/// SeqNo and kind of an entry in one 64-bit word.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trailer(u64);

impl Trailer {
    /// The trailer of an entry of `kind` at `seqno`, without flags.
    #[inline]
    pub const fn new(seqno: SeqNo, kind: Kind) -> Self {
        Self(seqno.get() << 8 | kind as u64)
    }

    /// The trailer as the word that is stored on disk.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        self.0
    }

    /// Decodes a word from disk. A flag is refused: no flag is written yet, so only a newer
    /// flagstone can have set it.
    #[inline]
    pub const fn from_u64(word: u64) -> Result<Self, Malformed> {
        match Kind::from_u8(word as u8) {
            Some(_) => Ok(Self(word)),
            None => Err(Malformed { at: 0, expected: "an entry kind 1 to 4 without flags" }),
        }
    }

    /// The SeqNo of the entry.
    #[inline]
    pub const fn seqno(self) -> SeqNo {
        SeqNo::new(self.0 >> 8)
    }

    /// The kind of the entry.
    #[inline]
    pub const fn kind(self) -> Kind {
        match Kind::from_u8(self.0 as u8 & 0x0F) {
            Some(kind) => kind,
            // Unreachable: every constructor checks the kind.
            None => Kind::Delete,
        }
    }
}

impl fmt::Debug for Trailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:?}", self.seqno(), self.kind())
    }
}

/// An entry whose key and value are borrowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The key, or the start of a deleted range.
    pub key: &'a [u8],
    /// The SeqNo and the kind.
    pub trailer: Trailer,
    /// The value, the merge operand, or the end of a deleted range.
    pub value: &'a [u8],
}

impl<'a> EntryRef<'a> {
    /// An entry of `kind` at `seqno`.
    #[inline]
    pub const fn new(key: &'a [u8], seqno: SeqNo, kind: Kind, value: &'a [u8]) -> Self {
        Self { key, trailer: Trailer::new(seqno, kind), value }
    }

    /// The SeqNo of the entry.
    #[inline]
    pub const fn seqno(&self) -> SeqNo {
        self.trailer.seqno()
    }

    /// What the entry does to its key.
    #[inline]
    pub const fn kind(&self) -> Kind {
        self.trailer.kind()
    }

    /// Compares by key, then by SeqNo with the newest first.
    #[inline]
    pub fn order(&self, other: &EntryRef<'_>) -> Ordering {
        self.key.cmp(other.key).then_with(|| other.seqno().cmp(&self.seqno()))
    }
}

impl fmt::Debug for EntryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (self.key.escape_ascii(), self.value.escape_ascii());
        write!(f, "{key}{:?}={value}", self.trailer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entry_of_a_key_comes_first() {
        let old = EntryRef::new(b"a", SeqNo::new(3), Kind::Put, b"1");
        let new = EntryRef::new(b"a", SeqNo::new(4), Kind::Delete, b"");
        let next = EntryRef::new(b"a\0", SeqNo::new(9), Kind::Put, b"2");
        assert_eq!(new.order(&old), Ordering::Less);
        assert_eq!(old.order(&next), Ordering::Less);
    }

    #[test]
    fn a_trailer_survives_a_round_trip_and_an_unknown_kind_or_flag_is_refused() {
        let trailer = Trailer::new(SeqNo::new(77), Kind::Merge);
        assert_eq!(trailer.to_u64(), 77 << 8 | 4);
        assert_eq!(Trailer::from_u64(trailer.to_u64()), Ok(trailer));
        assert!(Trailer::from_u64(77 << 8).is_err());
        assert!(Trailer::from_u64(77 << 8 | 5).is_err());
        assert!(Trailer::from_u64(77 << 8 | u64::from(FLAG_EXPIRY) | 1).is_err());
        let _reserved = [FLAG_DICTIONARY, FLAG_BLOB];
    }
}
