//! A part of the documents of a collection, for tools that work on one collection side by side.

use flagstone_base::hash::key_hash;
use std::fmt;

/// One of several parts of the documents. Each document is in one of them, by the hash of its key,
/// wherever the collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    number: u16,
    of: u16,
}

impl Shard {
    /// Returns the part of this number, from 1, of so many; `None` if there is none.
    pub const fn new(number: u16, of: u16) -> Option<Self> {
        if number == 0 || number > of { None } else { Some(Self { number: number - 1, of }) }
    }

    /// Returns whether the document of this sort key, or another thing with these bytes, is in it.
    #[inline]
    pub fn has(self, bytes: &[u8]) -> bool {
        self.has_hash(key_hash(bytes, 0))
    }

    /// The same by the hash of the key.
    #[inline]
    pub const fn has_hash(self, hash: u64) -> bool {
        hash % self.of as u64 == self.number as u64
    }

    /// Returns whether documents of it may be in bucket `bucket` of a cluster, of `buckets`, a
    /// power of two: a bucket has the documents whose hash of the key ends with its number.
    pub fn may_be_in(self, bucket: u32, buckets: u32) -> bool {
        let common = 1 << self.of.trailing_zeros().min(buckets.trailing_zeros());
        bucket % common == u32::from(self.number) % common
    }

    /// Returns what tells it from others, in order.
    pub fn to_bytes(self) -> [u8; 4] {
        let [[a, b], [c, d]] = [self.of.to_be_bytes(), self.number.to_be_bytes()];
        [a, b, c, d]
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number + 1, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_in_one_shard_and_in_a_bucket_that_is_read_for_it() {
        for of in [1, 2, 3, 4, 6, 7, 16, 48, 1000] {
            let shards: Vec<Shard> = (1..=of).filter_map(|n| Shard::new(n, of)).collect();
            assert_eq!(shards.len(), usize::from(of));
            for key in 0..3_000_u64 {
                let hash = key_hash(&key.to_be_bytes(), 0);
                let mut having = shards.iter().filter(|shard| shard.has_hash(hash));
                let (shard, other) = (having.next().unwrap(), having.next());
                assert_eq!((other, shard.has(&key.to_be_bytes())), (None, true));
                for buckets in [1, 16, 64] {
                    assert!(shard.may_be_in((hash % u64::from(buckets)) as u32, buckets));
                }
            }
        }
        // Each bucket is read once if there are not more shards than buckets.
        for of in [2, 4, 8, 16] {
            for bucket in 0..16 {
                let readers = (1..=of).filter_map(|number| Shard::new(number, of));
                assert_eq!(readers.filter(|shard| shard.may_be_in(bucket, 16)).count(), 1);
            }
        }
    }

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!([Shard::new(0, 3), Shard::new(4, 3), Shard::new(0, 0)], [None; 3]);
        assert_eq!(Shard::new(3, 3).unwrap().to_string(), "3/3");
    }
}
