//! The check of an entry: 32 bits that travel with the entry from the write call into its block.
//!
//! ```text
//! check = CRC-32C(value) ^ part(hash of the key) ^ part(kind) ^ part(SeqNo) [^ part(expiry)]
//! ```
//! Code that copies an entry also copies its check and does not compute it again. Code that puts
//! the entry under a checksum of its own computes the check and compares. So a change in memory
//! between the two is detected. One flipped bit of the value, the kind, the SeqNo or the expiry
//! always changes the check. Two different keys have the same part in one case of 2^32. A check is
//! never written to a file.

use crate::checksum::crc32c;
use crate::entry::{EntryRef, FLAG_EXPIRY, Kind, Trailer};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::key_hash;
use crate::number::{Moment, SeqNo};
use std::fmt;

/// The check of an entry, with or without its SeqNo.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryCheck(u32);

/// The multiplier of kinds and SeqNos. It is odd, so multiplication loses no bit. Its product with
/// any power of two below 2^56 has bits in the upper half, the half that a check keeps of a SeqNo.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// The multiplier of expiries: another one, so that an expiry and a SeqNo that change places are
/// found.
const SPREAD_EXPIRY: u64 = 0xC2B2_AE3D_27D4_EB4F;

impl EntryCheck {
    /// The check of an entry that has no SeqNo yet. `key_hash` is the [`key_hash`] of its key.
    #[inline]
    pub fn of(key_hash: u64, kind: Kind, value: &[u8]) -> Self {
        let key = (key_hash ^ key_hash >> 32) as u32;
        Self(crc32c(value) ^ key ^ (kind as u32).wrapping_mul(SPREAD as u32))
    }

    /// The check of an entry with its SeqNo. `seed` is the hash seed of its keyspace.
    #[inline]
    pub fn of_entry(entry: &EntryRef<'_>, seed: u64) -> Self {
        Self::of_trailer(key_hash(entry.key, seed), entry.trailer, entry.value)
    }

    /// The check of an entry with its SeqNo and its optional fields. `key_hash` is the [`key_hash`]
    /// of its key.
    #[inline]
    pub fn of_trailer(key_hash: u64, trailer: Trailer, value: &[u8]) -> Self {
        let check = Self::of(key_hash, trailer.kind(), value).at(trailer.seqno());
        match trailer.expiry() {
            None => check,
            Some(expiry) => check.expiring(expiry),
        }
    }

    /// Adds `expiry` to a check that has none, or removes it from a check that has it.
    #[inline]
    #[must_use]
    pub const fn expiring(self, expiry: Moment) -> Self {
        let flag = (FLAG_EXPIRY as u32).wrapping_mul(SPREAD as u32);
        Self(self.0 ^ flag ^ (expiry.millis().wrapping_mul(SPREAD_EXPIRY) >> 32) as u32)
    }

    /// Adds `seqno` to a check that has none, or removes it from a check that has it.
    #[inline]
    #[must_use]
    pub const fn at(self, seqno: SeqNo) -> Self {
        Self(self.0 ^ (seqno.get().wrapping_mul(SPREAD) >> 32) as u32)
    }

    /// Checks that `entry` still has this check.
    ///
    /// # Errors
    /// Corruption; the text has the front of the key as it reads now.
    #[inline]
    pub fn verify(self, entry: &EntryRef<'_>, seed: u64) -> Result<()> {
        let found = Self::of_entry(entry, seed);
        if found == self { Ok(()) } else { Err(self.refuse(entry, found)) }
    }

    #[cold]
    fn refuse(self, entry: &EntryRef<'_>, found: Self) -> Error {
        changed(format_args!(
            "the entry that reads as {}{:?} now: its check is {found}, expected {self}",
            Short(entry.key),
            entry.trailer
        ))
    }

    /// The check as a number, to be stored in memory next to the entry.
    #[inline]
    pub const fn to_u32(self) -> u32 {
        self.0
    }

    /// The check whose [`EntryCheck::to_u32`] is `number`.
    #[inline]
    pub const fn from_u32(number: u32) -> Self {
        Self(number)
    }
}

/// The error for `what`, which changed in memory after it was written there: a Corruption.
#[cold]
pub fn changed(what: impl fmt::Display) -> Error {
    let text = format!("memory has changed since it was written, and is not stored: {what}");
    Error::new(ErrorKind::Corruption, text)
}

/// Displays a key in messages: its first 40 bytes, escaped.
pub struct Short<'a>(pub &'a [u8]);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        match self.0.get(..SHOWN) {
            Some(front) if self.0.len() > SHOWN => write!(f, "{}..", front.escape_ascii()),
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

impl fmt::Display for EntryCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for EntryCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &[u8], seqno: u64, kind: Kind, value: &[u8]) -> EntryCheck {
        EntryCheck::of_entry(&EntryRef::new(key, SeqNo::new(seqno), kind, value), 7)
    }

    #[test]
    fn every_flipped_bit_of_an_entry_changes_its_check() {
        let (key, value) = (b"user:1234", (0..300_u16).map(|i| i as u8).collect::<Vec<u8>>());
        let right = check(key, 77, Kind::Put, &value);
        for bit in 0..key.len() * 8 {
            let mut flipped = *key;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(check(&flipped, 77, Kind::Put, &value), right, "bit {bit} of the key");
        }
        for bit in 0..value.len() * 8 {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(check(key, 77, Kind::Put, &flipped), right, "bit {bit} of the value");
        }
        for bit in 0..56 {
            assert_ne!(check(key, 77 ^ 1 << bit, Kind::Put, &value), right, "bit {bit}, SeqNo");
        }
        for kind in [Kind::Delete, Kind::RangeDelete, Kind::Merge] {
            assert_ne!(check(key, 77, kind, &value), right, "{kind:?}");
        }
        assert_ne!(check(key, 77, Kind::Put, &value[1..]), right);
    }

    #[test]
    fn every_flipped_bit_of_an_expiry_changes_the_check_and_so_does_a_lost_expiry() {
        let check = |millis| {
            let trailer = Trailer::expiring(SeqNo::new(77), Moment::from_millis(millis));
            EntryCheck::of_trailer(7, trailer, b"value")
        };
        let plain = EntryCheck::of(7, Kind::Put, b"value").at(SeqNo::new(77));
        for millis in [0, 77, 1_700_000_000_000, u64::MAX] {
            for bit in 0..64 {
                assert_ne!(check(millis ^ 1 << bit), check(millis), "bit {bit} of {millis}");
            }
            assert_ne!(check(millis), plain);
            assert_eq!(check(millis).expiring(Moment::from_millis(millis)), plain);
        }
    }

    #[test]
    fn a_changed_entry_is_named_by_the_front_of_its_key() {
        let key = [b'k'; 1000];
        let entry = EntryRef::new(&key, SeqNo::new(7), Kind::Put, b"value");
        let check = EntryCheck::of_entry(&entry, 3);
        assert!(check.verify(&entry, 3).is_ok());
        let error = check.verify(&EntryRef { value: b"valuf", ..entry }, 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let text = error.to_string();
        assert!(text.contains("kkk..#7:Put") && text.len() < 200, "{text}");
    }

    /// Flipping a bit adds or subtracts `spread << bit`. That changes the upper half whatever the
    /// other bits are.
    #[test]
    fn no_bit_of_a_seqno_or_an_expiry_is_lost() {
        for (spread, bits) in [(SPREAD, 56), (SPREAD_EXPIRY, 64)] {
            for bit in 0..bits {
                let added = spread << bit;
                for change in [added, added.wrapping_neg()] {
                    assert!((1..u64::from(u32::MAX)).contains(&(change >> 32)), "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_seqno_is_added_and_removed() {
        let plain = EntryCheck::of(1, Kind::Put, b"v");
        let numbered = plain.at(SeqNo::new(9));
        assert_ne!(plain, numbered);
        assert_eq!(numbered.at(SeqNo::new(9)), plain);
        assert_eq!(EntryCheck::from_u32(numbered.to_u32()), numbered);
    }
}
