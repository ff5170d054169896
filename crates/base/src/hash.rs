//! One hash per key. The router uses its high bits; everything inside a partition uses a remix of
//! the hash.
//!
//! Inside a partition the high bits of the hash are the same for all keys. A filter that chose its
//! block by them would use only one in `partitions` of its blocks.

/// The hash of a key: xxh3, seeded by the keyspace. Files on disk depend on it, so it must never
/// change.
#[inline]
pub fn key_hash(key: &[u8], seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, seed)
}

/// The hash that memtables, filters and fingerprints use. All its bits vary between the keys of a
/// partition.
#[inline]
pub const fn remix(hash: u64) -> u64 {
    // The finaliser of MurmurHash3: a bijection, so nothing is lost.
    let mut h = hash;
    h ^= h >> 33;
    h = h.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    h ^= h >> 33;
    h = h.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    h ^ (h >> 33)
}

/// A key with its hash, by which the router chooses a partition.
#[derive(Clone, Copy, Debug)]
pub struct HashedKey<'k> {
    /// The key.
    pub key: &'k [u8],
    /// [`key_hash`] of the key, with the seed of its keyspace.
    pub hash: u64,
}

impl<'k> HashedKey<'k> {
    /// Returns the key as memtables and tables look it up.
    #[inline]
    pub const fn remixed(self) -> RemixedKey<'k> {
        RemixedKey { key: self.key, hash: remix(self.hash) }
    }
}

/// A key with the [`remix`] of its hash.
#[derive(Clone, Copy, Debug)]
pub struct RemixedKey<'k> {
    /// The key.
    pub key: &'k [u8],
    /// [`remix`] of [`HashedKey::hash`].
    pub hash: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_its_hash_is_passed_as_the_two_alone() {
        assert_eq!(size_of::<HashedKey<'_>>(), size_of::<(&[u8], u64)>());
        let hashed = HashedKey { key: b"evn2i5p", hash: key_hash(b"evn2i5p", 7) };
        assert_eq!(hashed.remixed().hash, remix(hashed.hash));
    }

    #[test]
    fn the_hash_of_a_key_never_changes() {
        assert_eq!(key_hash(b"", 0), 0x2D06_8005_38D3_94C2);
        assert_eq!(key_hash(b"evn2i5p", 7), key_hash(b"evn2i5p", 7));
        assert_ne!(key_hash(b"evn2i5p", 7), key_hash(b"evn2i5p", 8));
    }

    #[test]
    fn a_remix_spreads_hashes_that_share_their_high_bits() {
        let mut used = std::collections::HashSet::new();
        for i in 0..10_000_u64 {
            used.insert(remix((0xAB << 56) | i) >> 56);
        }
        assert_eq!(used.len(), 256);
    }
}
