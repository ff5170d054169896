//! Keys and ranges of keys. Keys are always compared as unsigned bytes.

use crate::bytes::order;
use crate::error::{Error, Result};
use std::ops::Bound;

/// The longest encoded key: 65,535 bytes, so that the length fits 16 bits.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;
/// The longest value: 512 MiB.
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// Checks the length of a key: InvalidInput if it is empty or longer than [`KEY_BYTES_MAX`].
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a key has {} bytes: expected 1 to {KEY_BYTES_MAX}",
            key.len()
        )));
    }
    Ok(())
}

/// Checks the length of a value: InvalidInput if it is longer than [`VALUE_BYTES_MAX`].
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a value has {} bytes: expected at most {VALUE_BYTES_MAX}",
            value.len()
        )));
    }
    Ok(())
}

/// The first eight bytes of a key as a number with the same order. A shorter key is padded with
/// zeros. So keys that differ only after eight bytes, or only in trailing zeros, have equal fronts.
#[inline]
pub fn key_front(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// A range of keys with owned bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The lower bound.
    pub start: Bound<Vec<u8>>,
    /// The upper bound.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The range of all keys.
    pub const ALL: Self = Self { start: Bound::Unbounded, end: Bound::Unbounded };

    /// The range of the keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let end = match prefix_end(prefix) {
            Some(end) => Bound::Excluded(end),
            None => Bound::Unbounded,
        };
        Self { start: Bound::Included(prefix.to_vec()), end }
    }

    /// A range with copies of these bounds.
    pub fn of(start: Bound<&[u8]>, end: Bound<&[u8]>) -> Self {
        Self { start: start.map(<[u8]>::to_vec), end: end.map(<[u8]>::to_vec) }
    }

    /// Returns whether `key` is not below the lower bound.
    #[inline]
    pub fn starts_before(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Included(start) => order(key, start).is_ge(),
            Bound::Excluded(start) => order(key, start).is_gt(),
            Bound::Unbounded => true,
        }
    }

    /// Returns whether a key below `key` can be in the range, as far as its lower bound tells.
    pub fn starts_below(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Included(start) => start.as_slice() < key,
            Bound::Excluded(start) => successor(start).as_slice() < key,
            Bound::Unbounded => !key.is_empty(),
        }
    }

    /// Returns whether `key` is not above the upper bound.
    #[inline]
    pub fn ends_behind(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => order(key, end).is_le(),
            Bound::Excluded(end) => order(key, end).is_lt(),
            Bound::Unbounded => true,
        }
    }

    /// Returns the [`key_front`] of the upper bound, or `None` without one. A key with a smaller
    /// front is below the bound.
    pub fn end_front(&self) -> Option<u64> {
        match &self.end {
            Bound::Included(end) | Bound::Excluded(end) => Some(key_front(end)),
            Bound::Unbounded => None,
        }
    }

    /// Returns whether `key` is in the range.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.starts_before(key) && self.ends_behind(key)
    }

    /// Returns whether no key can be in the range. Keys are byte strings, so the open range `("a",
    /// "a\0")` is empty, and this function knows it.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(s), Bound::Included(e)) => s > e,
            (Bound::Included(s), Bound::Excluded(e)) => s >= e,
            (Bound::Excluded(s), Bound::Included(e)) => s >= e,
            (Bound::Excluded(s), Bound::Excluded(e)) => {
                s >= e || (e.len() == s.len() + 1 && e.starts_with(s) && e.ends_with(&[0]))
            }
        }
    }
}

/// The smallest key greater than every key that begins with `prefix`; `None` when there is none,
/// because the prefix is empty or all its bytes are FF.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The smallest key greater than `key` of at most [`KEY_BYTES_MAX`] bytes; `None` when there is
/// none.
pub fn next_key(key: &[u8]) -> Option<Vec<u8>> {
    match key.get(..KEY_BYTES_MAX) {
        None => Some(successor(key)),
        // No storable key extends these bytes.
        Some(longest) => prefix_end(longest),
    }
}

/// The smallest byte string greater than `key`: `key` and a zero byte.
pub fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fronts_order_as_keys_do() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"a", b"ab", b"abcdefgh", b"abcdefghi", b"b"];
        for pair in keys.windows(2) {
            assert!(key_front(pair[0]) <= key_front(pair[1]), "{pair:?}");
        }
        assert!(key_front(b"ab") < key_front(b"abc"));
    }

    #[test]
    fn a_key_with_a_lower_front_than_the_upper_bound_is_below_it() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"abcdefgh", b"abcdefgh\0", b"\xFF"];
        for end in keys {
            for end in [Bound::Included(end.to_vec()), Bound::Excluded(end.to_vec())] {
                let range = KeyRange { start: Bound::Unbounded, end };
                let front = range.end_front().unwrap();
                for key in keys.iter().filter(|key| key_front(key) < front) {
                    assert!(range.ends_behind(key), "{key:?} {range:?}");
                }
            }
        }
        assert_eq!(KeyRange::ALL.end_front(), None);
    }

    #[test]
    fn the_end_of_a_prefix_is_above_all_its_keys() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xFF\xFF"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xFF"), None);
        assert_eq!(prefix_end(b""), None);
        assert!(KeyRange::prefix(b"\xFF").contains(b"\xFF\xFF"));
    }

    #[test]
    fn the_key_after_a_key_of_maximal_length_is_no_longer() {
        assert_eq!(next_key(b"a"), Some(b"a\0".to_vec()));
        let longest = |last: u8| [vec![b'k'; KEY_BYTES_MAX - 1], vec![last]].concat();
        assert_eq!(next_key(&longest(b'k')), Some(longest(b'l')));
        assert_eq!(next_key(&[longest(b'k'), vec![7]].concat()), Some(longest(b'l')));
        assert_eq!(
            next_key(&longest(0xFF)),
            Some([vec![b'k'; KEY_BYTES_MAX - 2], vec![b'l']].concat())
        );
        assert_eq!(next_key(&vec![0xFF; KEY_BYTES_MAX]), None);
    }

    #[test]
    fn an_empty_range_is_recognised() {
        let range = |a: Bound<&[u8]>, b: Bound<&[u8]>| KeyRange::of(a, b);
        assert!(range(Bound::Included(b"b"), Bound::Excluded(b"b")).is_empty());
        assert!(!range(Bound::Included(b"b"), Bound::Included(b"b")).is_empty());
        assert!(range(Bound::Excluded(b"b"), Bound::Excluded(b"b\0")).is_empty());
        assert!(!KeyRange::ALL.is_empty());
        assert!(range(Bound::Included(b"a"), Bound::Unbounded).starts_below(b"a\0"));
        assert!(!range(Bound::Included(b"a"), Bound::Unbounded).starts_below(b"a"));
        assert!(!range(Bound::Excluded(b"a"), Bound::Unbounded).starts_below(b"a\0"));
        assert!(range(Bound::Excluded(b"a"), Bound::Unbounded).starts_below(b"b"));
        assert!(KeyRange::ALL.starts_below(b"a") && !KeyRange::ALL.starts_below(b""));
    }

    #[test]
    fn keys_out_of_bounds_are_refused() {
        assert!(check_key(b"").is_err());
        assert!(check_key(&[1; KEY_BYTES_MAX]).is_ok());
        assert!(check_key(&[1; KEY_BYTES_MAX + 1]).is_err());
    }
}
