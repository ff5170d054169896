//! The key of a comment: its `id`, a number in base 36 that ascends with the comment's number.

use std::fmt;
use std::ops::Deref;

use crate::{escape, params};

/// The `id` of a comment: 7 bytes of ASCII up to 15 billion comments. `Copy`, no allocation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    bytes: [u8; 13],
    len: u8,
}

impl Key {
    /// The key of comment `i`.
    pub(crate) fn new(i: u64) -> Self {
        let (digits, at) = escape::base36(number(i));
        let len = digits.len() - at;
        let mut bytes = [0; 13];
        bytes[..len].copy_from_slice(&digits[at..]);
        Self { bytes, len: len as u8 }
    }

    /// The bytes of the key.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        // Digits are ASCII: the default is never taken.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// The number of which the key of comment `i` is the form in base 36.
pub(crate) fn number(i: u64) -> u64 {
    params::ID_BASE.saturating_add(i.saturating_mul(params::ID_STEP))
}

/// The number of the comment that has these bytes as its key.
pub(crate) fn comment_of(key: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(key).ok()?;
    let above = u64::from_str_radix(text, 36).ok()?.checked_sub(params::ID_BASE)?;
    let i = above / params::ID_STEP;
    (Key::new(i).as_bytes() == key).then_some(i)
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_up_and_leads_back_to_its_comment() {
        assert_eq!(Key::new(0).to_string(), "ewbzg5c");
        assert_eq!(Key::new(1).as_bytes(), b"ewbzg5f");
        let numbers = [0, 1, 11, 12, 35, 36, 1_000_000, 146_854_392, 199_999_999, 15_000_000_000];
        for pair in numbers.windows(2) {
            assert!(Key::new(pair[0]) < Key::new(pair[1]));
        }
        for i in numbers {
            assert_eq!(comment_of(Key::new(i).as_bytes()), Some(i));
        }
        for no_key in [&b""[..], b"ewbzg5d", b"ewbzg5C", b"+ewbzg5c", b"0ewbzg5c", b"\xFF", b"a"] {
            assert_eq!(comment_of(no_key), None);
        }
    }
}
