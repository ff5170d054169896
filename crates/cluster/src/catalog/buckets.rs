//! How the rows of a generation are divided into buckets.

use crate::layout::{BUCKETS_MAX, Layout};
use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::hash::key_hash;
use flagstone_base::{Decoder, KeyRange, Malformed, Slice};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The most bytes of a bound.
pub(crate) const BOUND_BYTES_MAX: usize = 256;
/// The most bytes of all bounds of a generation in the note: whoever reads the catalog reads them.
pub(crate) const BOUNDS_BYTES_MAX: usize = 128 << 10;

/// The buckets of a generation.
#[derive(Clone, Debug)]
pub(crate) enum Buckets {
    /// By the hash of the key. Their number is a power of two.
    Hash(u32),
    /// By the order of their keys: bucket `n` has the keys from bound `n - 1` on and below bound
    /// `n`. The bounds ascend. The first bucket has none below it, and the last none above.
    Ranges(Arc<[Slice]>),
}

impl PartialEq for Buckets {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Hash(one), Self::Hash(other)) => one == other,
            // What is known of one note has the same bounds mostly.
            (Self::Ranges(one), Self::Ranges(other)) => Arc::ptr_eq(one, other) || one == other,
            _ => false,
        }
    }
}

impl Eq for Buckets {}

impl Buckets {
    /// Returns how many there are.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Self::Hash(count) => *count,
            Self::Ranges(bounds) => bounds.len() as u32 + 1,
        }
    }

    /// Returns what a caller asks for to get as many of the same kind.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Self::Hash(count) => Layout::Hash(*count),
            Self::Ranges(_) => Layout::Ranges(self.count()),
        }
    }

    pub(crate) const fn are_ranges(&self) -> bool {
        matches!(self, Self::Ranges(_))
    }

    /// Returns the number of the bucket of a row.
    pub(crate) fn bucket_of(&self, key: &[u8]) -> u32 {
        match self {
            Self::Hash(count) => (key_hash(key, 0) % u64::from(*count)) as u32,
            Self::Ranges(bounds) => bounds.partition_point(|bound| bound[..] <= *key) as u32,
        }
    }

    /// Returns the numbers of the buckets that rows with keys of a range can be in.
    pub(crate) fn meeting(&self, range: &KeyRange) -> Range<u32> {
        let Self::Ranges(bounds) = self else { return 0..self.count() };
        let first = match &range.start {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => self.bucket_of(key),
        };
        let last = match &range.end {
            Bound::Unbounded => self.count() - 1,
            Bound::Included(key) => self.bucket_of(key),
            Bound::Excluded(key) => bounds.partition_point(|bound| bound[..] < key[..]) as u32,
        };
        first..(last + 1).max(first)
    }

    /// Returns the range of the keys that rows of a bucket can have.
    pub(crate) fn range_of(&self, bucket: u32) -> KeyRange {
        let Self::Ranges(bounds) = self else { return KeyRange::ALL };
        let at = bucket as usize;
        let start = at.checked_sub(1).and_then(|below| bounds.get(below));
        KeyRange {
            start: start.map_or(Bound::Unbounded, |bound| Bound::Included(bound.to_vec())),
            end: bounds.get(at).map_or(Bound::Unbounded, |bound| Bound::Excluded(bound.to_vec())),
        }
    }

    /// Returns ranges with about as many keys each, by a sample of the keys, which ascends. There
    /// are fewer than `count` if the sample has too few keys that differ in their first
    /// [`BOUND_BYTES_MAX`] bytes.
    pub(crate) fn by_sample(sample: &[Slice], count: u32) -> Self {
        let mut bounds: Vec<Slice> = Vec::new();
        for bucket in 1..count as usize {
            let at = sample.len() * bucket / count as usize;
            let Some([below, first]) = at.checked_sub(1).and_then(|from| sample.get(from..=at))
            else {
                continue;
            };
            // The shortest bound between both.
            let common = below.iter().zip(first.iter()).take_while(|(a, b)| a == b).count();
            let bound = &first[..(common + 1).min(first.len()).min(BOUND_BYTES_MAX)];
            if bound > bounds.last().map_or(&[][..], |last| &last[..]) && bound > &below[..] {
                bounds.push(Slice::copy_of(bound));
            }
        }
        Self::Ranges(bounds.into())
    }

    /// Returns the bounds as the note has them; `None` for buckets by hash.
    ///
    /// ```text
    /// bounds := (bytes that a bound has in common with the one before, a varint
    ///            | the rest: length varint, bytes)*
    /// ```
    pub(crate) fn encoded(&self) -> Option<Vec<u8>> {
        let Self::Ranges(bounds) = self else { return None };
        let (mut out, mut before): (_, &[u8]) = (Vec::new(), &[]);
        for bound in bounds.iter() {
            let common = before.iter().zip(bound.iter()).take_while(|(a, b)| a == b).count();
            put_varint(&mut out, common as u64);
            put_bytes(&mut out, &bound[common..]);
            before = &bound[..];
        }
        Some(out)
    }

    /// Decodes bounds.
    pub(super) fn decode(field: &[u8]) -> Result<Self, Malformed> {
        if field.len() > BOUNDS_BYTES_MAX {
            return Err(Malformed { at: 0, expected: "at most 131072 bytes of bounds" });
        }
        let mut decoder = Decoder::new(field);
        let mut bounds: Vec<Slice> = Vec::new();
        while !decoder.is_done() {
            let at = decoder.position();
            let common = decoder.varint_usize("the bytes that two bounds have in common")?;
            let rest = decoder.bytes("the rest of a bound")?;
            let before = bounds.last().map_or(&[][..], |bound| &bound[..]);
            let Some(common) = before.get(..common) else {
                return Err(Malformed { at, expected: "no more bytes than the bound before has" });
            };
            if common.len() + rest.len() > BOUND_BYTES_MAX {
                return Err(Malformed { at, expected: "a bound of at most 256 bytes" });
            }
            let bound = [common, rest].concat();
            if bound[..] <= *before {
                return Err(Malformed { at, expected: "a bound above the one before" });
            }
            bounds.push(bound.into());
            if bounds.len() >= BUCKETS_MAX as usize {
                return Err(Malformed { at, expected: "at most 4096 buckets" });
            }
        }
        Ok(Self::Ranges(bounds.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(bounds: &[&str]) -> Buckets {
        Buckets::Ranges(bounds.iter().map(|bound| Slice::copy_of(bound.as_bytes())).collect())
    }

    fn keys(keys: &[&str]) -> Vec<Slice> {
        keys.iter().map(|key| Slice::copy_of(key.as_bytes())).collect()
    }

    #[test]
    fn a_key_is_in_the_bucket_whose_range_has_it() {
        let buckets = ranges(&["b", "ba", "x"]);
        for (key, bucket) in [("", 0), ("a", 0), ("b", 1), ("b\0", 1), ("ba", 2), ("y", 3)] {
            assert_eq!(buckets.bucket_of(key.as_bytes()), bucket, "{key:?}");
            for other in 0..buckets.count() {
                let has = buckets.range_of(other).contains(key.as_bytes());
                assert_eq!(has, other == bucket, "{key:?} {other}");
            }
        }
        assert_eq!(ranges(&[]).bucket_of(b"x"), 0);
        assert_eq!((ranges(&[]).count(), ranges(&[]).range_of(0)), (1, KeyRange::ALL));
        let by_hash = Buckets::Hash(16);
        assert_eq!(u64::from(by_hash.bucket_of(b"k")), key_hash(b"k", 0) % 16);
        assert_eq!((by_hash.range_of(3), by_hash.meeting(&KeyRange::ALL)), (KeyRange::ALL, 0..16));
        assert_ne!(by_hash, ranges(&[]));
    }

    #[test]
    fn a_range_meets_the_buckets_that_have_some_of_its_keys() {
        let buckets = ranges(&["b", "d", "dd"]);
        let all = ["", "a", "b", "bb", "c", "d", "d\0", "dc", "dd", "e"];
        let bounds = |key: &str| {
            let key = key.as_bytes().to_vec();
            [Bound::Included(key.clone()), Bound::Excluded(key), Bound::Unbounded]
        };
        for (start, end) in all.iter().flat_map(|start| all.iter().map(move |end| (start, end))) {
            for (start, end) in bounds(start)
                .iter()
                .flat_map(|start| bounds(end).map(move |end| (start.clone(), end)))
            {
                let range = KeyRange { start, end };
                if range.is_empty() {
                    continue;
                }
                let met = buckets.meeting(&range);
                for key in all.iter().filter(|key| range.contains(key.as_bytes())) {
                    assert!(met.contains(&buckets.bucket_of(key.as_bytes())), "{range:?} {key}");
                }
                // And no others.
                for bucket in met {
                    let is_below = match (&buckets.range_of(bucket).start, &range.end) {
                        (Bound::Included(first), Bound::Included(end)) => first <= end,
                        (Bound::Included(first), Bound::Excluded(end)) => first < end,
                        _ => true,
                    };
                    assert!(is_below, "{range:?} {bucket}");
                }
            }
        }
        let none = KeyRange::of(Bound::Included(&b"e"[..]), Bound::Excluded(&b"a"[..]));
        assert!(buckets.meeting(&none).is_empty());
    }

    #[test]
    fn bounds_are_the_shortest_between_quantiles() {
        let sample = keys(&["aaa", "aab", "abc", "abd", "b", "bbbb", "bbbc", "c"]);
        assert_eq!(Buckets::by_sample(&sample, 4), ranges(&["ab", "b", "bbbc"]));
        assert_eq!(Buckets::by_sample(&sample, 1), ranges(&[]));
        assert_eq!(Buckets::by_sample(&sample, 8).count(), 8);
        // Too few keys, or none.
        assert_eq!(Buckets::by_sample(&sample, 9).count(), 8);
        assert_eq!(Buckets::by_sample(&[], 9).count(), 1);
        let same = vec![Slice::copy_of(b"k"); 9];
        assert_eq!(Buckets::by_sample(&same, 3).count(), 1);
        // Keys that differ only behind the longest bound.
        let long = |last: u8| Slice::from([&[b'k'; BOUND_BYTES_MAX][..], &[last]].concat());
        let longs = [Slice::copy_of(b"a"), long(1), long(2), long(3)];
        let buckets = Buckets::by_sample(&longs, 4);
        assert_eq!(buckets.count(), 2);
        assert_eq!(Buckets::decode(&buckets.encoded().unwrap()), Ok(buckets));
        for count in [2, 3, 7, 50] {
            let sample: Vec<Slice> =
                (0..1000_u32).map(|n| Slice::copy_of(&n.to_be_bytes())).collect();
            let buckets = Buckets::by_sample(&sample, count);
            let mut each = vec![0; count as usize];
            sample.iter().for_each(|key| each[buckets.bucket_of(key) as usize] += 1);
            let most = 1000_u32.div_ceil(count);
            assert!(each.iter().all(|one| (most - 1..=most).contains(one)), "{count}: {each:?}");
        }
    }

    #[test]
    fn bounds_have_these_bytes_and_come_back() {
        let buckets = ranges(&["ab", "abc", "b"]);
        let golden = b"\0\x02ab\x02\x01c\0\x01b";
        assert_eq!(buckets.encoded().unwrap(), golden);
        assert_eq!(Buckets::decode(golden), Ok(buckets));
        assert_eq!(Buckets::decode(b""), Ok(ranges(&[])));
        assert_eq!(Buckets::Hash(16).encoded(), None);
        let most: Vec<Slice> =
            (1..BUCKETS_MAX).map(|n| Slice::copy_of(&n.to_be_bytes()[1..])).collect();
        let most = Buckets::Ranges(most.into());
        assert_eq!(Buckets::decode(&most.encoded().unwrap()), Ok(most));
    }

    #[test]
    fn malformed_bounds_are_refused_by_their_place() {
        let refused = |bytes: &[u8]| {
            let Malformed { at, expected } = Buckets::decode(bytes).unwrap_err();
            (at, expected)
        };
        assert_eq!(refused(b"\0\x01b\0\x01a"), (3, "a bound above the one before"));
        assert_eq!(refused(b"\0\x01b\x01\0"), (3, "a bound above the one before"));
        assert_eq!(refused(b"\0\0"), (0, "a bound above the one before"));
        assert_eq!(refused(b"\0\x01b\x02\x01c").0, 3);
        assert_eq!(refused(b"\0\x01b\0\x02c").0, 5);
        let long = [&[0, 0x81, 2][..], &[b'a'; 257]].concat();
        assert_eq!(refused(&long), (0, "a bound of at most 256 bytes"));
        let many: Vec<u8> =
            (1..=BUCKETS_MAX).flat_map(|n| [&[0, 3][..], &n.to_be_bytes()[1..]].concat()).collect();
        assert_eq!(refused(&many), (4095 * 5, "at most 4096 buckets"));
        assert_eq!(refused(&vec![0; BOUNDS_BYTES_MAX + 1]).0, 0);
    }
}
