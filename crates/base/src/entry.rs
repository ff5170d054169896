//! An entry: a key, the SeqNo of a write, what the write did to the key (its kind), a value, and
//! optional fields.
//!
//! Entries are always ordered by key ascending, then by SeqNo *descending*, so the newest of a key
//! comes first.
//!
//! ```text
//! trailer, a word in memory:      SeqNo : 56  |  tag : 8
//! tag, a byte in every format:    flags : 4   |  kind : 4
//! ```
//!
//! Each flag marks an optional field of the entry. The fields follow in the order of their bits: in
//! the log and in blocks directly after the tag, in a memtable after the version's header.

use crate::codec::{Decoder, Malformed};
use crate::number::{Moment, SeqNo};
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

/// Flag of an optional field: the moment at which a Put expires, u64 milliseconds since 1970.
pub const FLAG_EXPIRY: u8 = 1 << 4;
/// Flag of an optional field, reserved: the value is compressed by itself, with a dictionary of
/// this id.
pub const FLAG_DICTIONARY: u8 = 1 << 5;
/// Flag of an optional field, reserved: the value is in a blob file, and the entry holds a pointer
/// to it.
pub const FLAG_BLOB: u8 = 1 << 6;
/// The bits of a tag that hold the kind.
const KIND_MASK: u8 = 0x0F;

/// Kind and flags of an entry, as stored in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// What the entry does to its key.
    pub kind: Kind,
    /// Whether the entry has an expiry.
    pub has_expiry: bool,
}

impl Tag {
    /// Returns the flags of `byte` that this flagstone does not know; 0 if there are none. A newer
    /// flagstone wrote such an entry, so its fields cannot be skipped.
    #[inline]
    pub const fn unknown_flags(byte: u8) -> u8 {
        byte & !KIND_MASK & !FLAG_EXPIRY
    }

    /// The tag that `byte` holds. `None` for an unknown kind or flag, and for an expiry of an entry
    /// that is no Put.
    #[inline]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        let Some(kind) = Kind::from_u8(byte & !FLAG_EXPIRY) else { return None };
        let has_expiry = byte & FLAG_EXPIRY != 0;
        if has_expiry && !matches!(kind, Kind::Put) {
            return None;
        }
        Some(Self { kind, has_expiry })
    }

    /// Reads the optional fields that the tag tells of.
    ///
    /// # Errors
    /// Malformed if the bytes end before.
    #[inline]
    pub fn read_expiry(self, decoder: &mut Decoder<'_>) -> Result<Option<Moment>, Malformed> {
        if !self.has_expiry {
            return Ok(None);
        }
        decoder.u64("the expiry of an entry").map(|millis| Some(Moment::from_millis(millis)))
    }
}

/// SeqNo, kind and optional fields of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trailer {
    word: u64,
    /// ZERO without the flag.
    expiry: Moment,
}

impl Trailer {
    /// The trailer of an entry of `kind` at `seqno`, without flags.
    #[inline]
    pub const fn new(seqno: SeqNo, kind: Kind) -> Self {
        Self { word: seqno.get() << 8 | kind as u64, expiry: Moment::ZERO }
    }

    /// The trailer of a Put at `seqno` that expires at `expiry`.
    #[inline]
    pub const fn expiring(seqno: SeqNo, expiry: Moment) -> Self {
        let word = seqno.get() << 8 | (Kind::Put as u8 | FLAG_EXPIRY) as u64;
        Self { word, expiry }
    }

    /// The trailer of a Put at `seqno`, with an expiry if there is one.
    #[inline]
    pub const fn of_put(seqno: SeqNo, expiry: Option<Moment>) -> Self {
        match expiry {
            None => Self::new(seqno, Kind::Put),
            Some(expiry) => Self::expiring(seqno, expiry),
        }
    }

    /// SeqNo, flags and kind in one word, to be kept in memory. [`Trailer::from_word`] restores it.
    #[inline]
    pub const fn word(self) -> u64 {
        self.word
    }

    /// Restores a trailer from a word that [`Trailer::word`] returned. `expiry` is called if the
    /// word has the flag of an expiry.
    #[inline]
    pub fn from_word(word: u64, expiry: impl FnOnce() -> Moment) -> Self {
        let expiry = if word as u8 & FLAG_EXPIRY == 0 { Moment::ZERO } else { expiry() };
        Self { word, expiry }
    }

    /// The SeqNo in a word that [`Trailer::word`] returned.
    #[inline]
    pub const fn seqno_of(word: u64) -> SeqNo {
        SeqNo::new(word >> 8)
    }

    /// Kind and flags as the byte that is stored.
    #[inline]
    pub const fn tag(self) -> u8 {
        self.word as u8
    }

    /// The SeqNo of the entry.
    #[inline]
    pub const fn seqno(self) -> SeqNo {
        SeqNo::new(self.word >> 8)
    }

    /// The kind of the entry.
    #[inline]
    pub const fn kind(self) -> Kind {
        match Kind::from_u8(self.word as u8 & KIND_MASK) {
            Some(kind) => kind,
            // Unreachable: every constructor takes a kind.
            None => Kind::Delete,
        }
    }

    /// Returns whether the entry has an expiry.
    #[inline]
    pub const fn has_expiry(self) -> bool {
        self.word as u8 & FLAG_EXPIRY != 0
    }

    /// The moment from which on the key is absent, if the entry has one.
    #[inline]
    pub const fn expiry(self) -> Option<Moment> {
        if self.has_expiry() { Some(self.expiry) } else { None }
    }

    /// Returns whether the entry has expired at `moment`.
    #[inline]
    pub fn is_expired_at(self, moment: Moment) -> bool {
        self.has_expiry() && self.expiry <= moment
    }
}

impl fmt::Debug for Trailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:?}", self.seqno(), self.kind())?;
        self.expiry().map_or(Ok(()), |expiry| write!(f, "{expiry}"))
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
    fn a_trailer_survives_a_round_trip_through_its_word() {
        let plain = Trailer::new(SeqNo::new(77), Kind::Merge);
        assert_eq!((plain.word(), plain.tag(), plain.expiry()), (77 << 8 | 4, 4, None));
        let none = || unreachable!("a word without the flag has no expiry");
        assert_eq!(Trailer::from_word(plain.word(), none), plain);
        let moment = Moment::from_millis(5000);
        let expiring = Trailer::expiring(SeqNo::new(77), moment);
        assert_eq!((expiring.word(), expiring.tag()), (77 << 8 | 0x11, 0x11));
        assert_eq!(Trailer::from_word(expiring.word(), || moment), expiring);
        assert_eq!((expiring.seqno(), expiring.kind()), (SeqNo::new(77), Kind::Put));
        assert_eq!(format!("{expiring:?} {plain:?}"), "#77:Put@5000 #77:Merge");
    }

    #[test]
    fn an_entry_has_expired_from_its_moment_on() {
        let expiring = Trailer::expiring(SeqNo::new(1), Moment::from_millis(5000));
        assert!(!expiring.is_expired_at(Moment::from_millis(4999)));
        assert!(expiring.is_expired_at(Moment::from_millis(5000)));
        assert!(!Trailer::new(SeqNo::new(1), Kind::Put).is_expired_at(Moment::MAX));
    }

    #[test]
    fn an_unknown_kind_or_flag_is_refused_and_so_is_an_expiry_of_anything_but_a_put() {
        for byte in 0..=u8::MAX {
            let expected = match byte {
                1..=4 | 0x11 => Some((byte & 0x0F, byte == 0x11)),
                _ => None,
            };
            let tag = Tag::from_u8(byte).map(|tag| (tag.kind as u8, tag.has_expiry));
            assert_eq!(tag, expected, "{byte:#x}");
        }
        for flag in [FLAG_DICTIONARY, FLAG_BLOB, 1 << 7] {
            assert_eq!(Tag::unknown_flags(flag | FLAG_EXPIRY | 1), flag);
        }
        assert_eq!(Tag::unknown_flags(FLAG_EXPIRY | 15), 0);
    }
}
