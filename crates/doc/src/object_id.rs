//! ObjectIds: the identifiers that MongoDB drivers make for documents without an `_id`.

use crate::datetime::DateTime;
use std::fmt::{self, Write};
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// An identifier of 12 bytes, as MongoDB drivers make them: 4 bytes of seconds since 1970, 5 random
/// bytes of a process and a counter of 3 bytes, all big-endian.
///
/// `Display` and [`str::parse`] use 24 hexadecimal digits. ObjectIds are ordered by their bytes, so
/// those of different seconds are ordered by time.
///
/// ```
/// use flagstone_doc::{DateTime, ObjectId};
/// let id: ObjectId = "5d422b800123456789abcdef".parse().unwrap();
/// assert_eq!(id.timestamp(), DateTime::parse_rfc3339("2019-08-01T00:00:00Z").unwrap());
/// assert_eq!(id.to_string(), "5d422b800123456789abcdef");
/// ```
///
/// A program makes new ones by the clock:
///
/// ```
/// use flagstone_doc::{DateTime, ObjectId};
/// let now = DateTime::parse_rfc3339("2019-08-01T00:00:00Z").unwrap();
/// let (first, second) = (ObjectId::new(now), ObjectId::new(now));
/// assert!(first != second && first.timestamp() == now);
/// assert_eq!(ObjectId::from_bytes(*first.as_bytes()), first);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 12]);

impl ObjectId {
    /// Creates a new identifier for the time `now`. Two calls in one process give different
    /// identifiers unless more than 16,777,216 are made in one second; those of two processes
    /// differ in 40 random bits. Seconds before 1970 or after 2106 are replaced by the nearest that
    /// 32 bits hold.
    pub fn new(now: DateTime) -> Self {
        static COUNTER: OnceLock<AtomicU32> = OnceLock::new();
        static KEYS: OnceLock<RandomState> = OnceLock::new();
        // Forked children share the keys, but not their number.
        let random = |what: u8| {
            KEYS.get_or_init(RandomState::new).hash_one((what, std::process::id())).to_be_bytes()
        };
        let first = || AtomicU32::new(u32::from_be_bytes([0, random(1)[0], random(1)[1], 0]));
        let counter = COUNTER.get_or_init(first).fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let seconds = now.as_micros().div_euclid(1_000_000).clamp(0, u32::MAX.into()) as u32;
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..9].copy_from_slice(&random(0)[..5]);
        bytes[9..].copy_from_slice(&counter[1..]);
        Self(bytes)
    }

    /// Creates an identifier from its bytes.
    pub const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 12] {
        &self.0
    }

    /// Returns the time in the first four bytes, in whole seconds.
    pub fn timestamp(&self) -> DateTime {
        let [a, b, c, d, ..] = self.0;
        DateTime::from_micros(i64::from(u32::from_be_bytes([a, b, c, d])) * 1_000_000)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in self.0 {
            for digit in [byte >> 4, byte & 15] {
                f.write_char(char::from(DIGITS[usize::from(digit)]))?;
            }
        }
        Ok(())
    }
}

/// A text that is not 24 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoObjectId;

impl fmt::Display for NoObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an ObjectId: expected 24 hexadecimal digits")
    }
}

impl std::error::Error for NoObjectId {}

impl FromStr for ObjectId {
    type Err = NoObjectId;

    /// Parses 24 hexadecimal digits, of lower or upper case.
    fn from_str(text: &str) -> Result<Self, NoObjectId> {
        let digits: &[u8; 24] = text.as_bytes().try_into().map_err(|_length| NoObjectId)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(NoObjectId);
        let mut bytes = [0; 12];
        for (byte, [high, low]) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = (digit(*high)? * 16 + digit(*low)?) as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_id_is_parsed_back() {
        let text = "00010203040506070809abff";
        let id: ObjectId = text.parse().unwrap();
        assert_eq!(id.as_bytes(), &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xAB, 0xFF]);
        assert_eq!(id.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        let multibyte = "é".repeat(12);
        for bad in ["", &text[1..], &text[2..], "+00010203040506070809abf", &multibyte, " "] {
            assert_eq!(bad.parse::<ObjectId>(), Err(NoObjectId), "{bad}");
        }
    }

    #[test]
    fn new_ones_begin_with_the_time_and_differ() {
        let now = DateTime::from_micros(1_564_617_600_999_999);
        let ids: Vec<ObjectId> = (0..1000).map(|_| ObjectId::new(now)).collect();
        assert!(ids.iter().all(|id| id.timestamp().as_micros() == 1_564_617_600_000_000));
        assert!(ids.iter().all(|id| id.as_bytes()[4..9] == ids[0].as_bytes()[4..9]));
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        for (micros, seconds) in [(-1, 0), (i64::MIN, 0), (i64::MAX, u32::MAX)] {
            let id = ObjectId::new(DateTime::from_micros(micros));
            assert_eq!(id.timestamp().as_micros(), i64::from(seconds) * 1_000_000);
        }
    }
}
