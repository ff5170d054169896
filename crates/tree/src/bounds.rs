//! The keys of one tree of a keyspace that is cut into ranges of keys.
//!
//! ```text
//! table          [c ----------------------- t]
//! trees     [ .. tree 4 .. )m[ .. tree 5 .. )         both hold the table, each up to its bound
//! ```
//! A split gives a table to both trees if it reaches across the new bound. Each tree reads only the
//! keys within its own bounds, and writes such a table again without the others: it trims it.

use flagstone_base::KeyRange;
use flagstone_sst::TableMeta;
use std::ops::Bound;

/// The keys from `lower` on and below `upper`, or without an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyBounds {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl KeyBounds {
    /// The keys from `lower` on and below `upper`, if that is given.
    pub const fn new(lower: Vec<u8>, upper: Option<Vec<u8>>) -> Self {
        Self { lower, upper }
    }

    /// The first key.
    pub fn lower(&self) -> &[u8] {
        &self.lower
    }

    /// The first key that is above all keys within the bounds.
    pub fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    /// Returns whether `key` lies within the bounds.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.lower.as_slice() <= key && !self.is_behind(key)
    }

    /// Returns whether `key` lies above the bounds.
    #[inline]
    pub(crate) fn is_behind(&self, key: &[u8]) -> bool {
        self.upper.as_ref().is_some_and(|upper| upper.as_slice() <= key)
    }

    /// Returns whether the last key below `end`, or the last key of all, lies within the bounds.
    pub(crate) fn holds_last_below(&self, end: Option<&[u8]>) -> bool {
        match (end, self.upper()) {
            (None, upper) => upper.is_none(),
            (Some(end), upper) => {
                self.lower.as_slice() < end && upper.is_none_or(|upper| end <= upper)
            }
        }
    }

    /// Returns whether the bounds of the table lie within these.
    pub fn contains_table(&self, meta: &TableMeta) -> bool {
        let ends = self.upper.as_ref().is_none_or(|upper| ends_before(meta.upper(), upper));
        self.lower <= meta.smallest && ends
    }

    /// Returns whether the table may have a key within the bounds.
    pub fn meets(&self, meta: &TableMeta) -> bool {
        !ends_before(meta.upper(), &self.lower) && !self.is_behind(&meta.smallest)
    }

    /// Returns the keys of `range` that lie within the bounds.
    pub(crate) fn clip(&self, range: &KeyRange) -> KeyRange {
        let mut clipped = range.clone();
        if !self.lower.is_empty() && range.starts_before(&self.lower) {
            clipped.start = Bound::Included(self.lower.clone());
        }
        if let Some(upper) = &self.upper
            && range.ends_behind(upper)
        {
            clipped.end = Bound::Excluded(upper.clone());
        }
        clipped
    }
}

/// The hashes from `first` through `last`: those of the keys of one hash partition.
///
/// A split gives all tables and memtables to both halves. Each half skips what has another hash,
/// and writes such a table again without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashBounds {
    first: u64,
    last: u64,
}

impl HashBounds {
    /// The hashes from `first` through `last`, which is not below it.
    pub const fn new(first: u64, last: u64) -> Self {
        Self { first, last }
    }

    /// The first and the last hash.
    pub const fn ends(self) -> (u64, u64) {
        (self.first, self.last)
    }

    /// Returns whether `hash` is one of these.
    #[inline]
    pub const fn contains(self, hash: u64) -> bool {
        self.first <= hash && hash <= self.last
    }

    /// Returns whether all keys that the table may have are of these hashes.
    pub fn contains_table(self, meta: &TableMeta) -> bool {
        meta.hashes.is_some_and(|(first, last)| self.first <= first && last <= self.last)
    }
}

/// Returns whether all keys within the bound `upper` are below `key`.
#[inline]
pub(crate) fn ends_before(upper: Bound<&[u8]>, key: &[u8]) -> bool {
    match upper {
        Bound::Included(upper) => upper < key,
        Bound::Excluded(upper) => upper <= key,
        Bound::Unbounded => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> KeyBounds {
        KeyBounds::new(b"d".to_vec(), Some(b"m".to_vec()))
    }

    #[test]
    fn a_range_is_clipped_at_both_bounds() {
        let clip = |start: Bound<&[u8]>, end: Bound<&[u8]>| {
            let range = bounds().clip(&KeyRange::of(start, end));
            let text = |bound: Bound<Vec<u8>>| bound.map(|key| String::from_utf8(key).unwrap());
            (text(range.start), text(range.end))
        };
        let whole = (Bound::Included("d".into()), Bound::Excluded("m".into()));
        assert_eq!(clip(Bound::Unbounded, Bound::Unbounded), whole);
        assert_eq!(clip(Bound::Included(b"d"), Bound::Included(b"m")), whole);
        let start = (Bound::Excluded("d".into()), Bound::Included("k".into()));
        assert_eq!(clip(Bound::Excluded(b"d"), Bound::Included(b"k")), start);
        let inside = (Bound::Included("e".into()), Bound::Excluded("f".into()));
        assert_eq!(clip(Bound::Included(b"e"), Bound::Excluded(b"f")), inside);
        assert!(bounds().clip(&KeyRange::of(Bound::Included(b"x"), Bound::Unbounded)).is_empty());
        assert!(bounds().clip(&KeyRange::of(Bound::Unbounded, Bound::Excluded(b"d"))).is_empty());
        assert_eq!(KeyBounds::default().clip(&KeyRange::ALL), KeyRange::ALL);
    }

    #[test]
    fn a_table_meets_the_bounds_that_it_reaches_into() {
        let meta = |smallest: &str, largest: &str, largest_exclusive| TableMeta {
            smallest: smallest.into(),
            largest: largest.into(),
            largest_exclusive,
            ..TableMeta::default()
        };
        let check = |meta: TableMeta| (bounds().meets(&meta), bounds().contains_table(&meta));
        assert_eq!(check(meta("a", "c", false)), (false, false));
        assert_eq!(check(meta("a", "d", true)), (false, false));
        assert_eq!(check(meta("a", "d", false)), (true, false));
        assert_eq!(check(meta("d", "m", true)), (true, true));
        assert_eq!(check(meta("d", "m", false)), (true, false));
        assert_eq!(check(meta("m", "n", false)), (false, false));
        assert!(KeyBounds::default().contains_table(&meta("a", "z", false)));
    }
}
