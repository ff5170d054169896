//! A binary fuse filter (Graf and Lemire 2022) with three places a key and a fingerprint of one
//! byte.
//!
//! A key has one place in each of three neighbouring segments; the exclusive or of the three bytes
//! there is its fingerprint. Building repeatedly removes keys that are alone at some place, and
//! then assigns bytes in the opposite order. That works with probability near 1; if not, another
//! seed is tried.

use flagstone_base::hash::remix;

/// The number of seeds to try.
const TRIES: u64 = 64;
/// The longest segment.
const SEGMENT_MAX: u32 = 1 << 18;

/// A filter in memory.
pub(crate) struct Fuse {
    seed: u64,
    /// The length of a segment, a power of two.
    segment: u32,
    /// The number of segments that a key's first place can be in.
    segments: u32,
    bytes: Box<[u8]>,
}

/// The state of a place while keys are removed: the number of its keys, the exclusive or of their
/// hashes, and which of their three places it is.
#[derive(Clone, Copy, Default)]
struct Place {
    hashes: u64,
    count: u32,
    which: u32,
}

const fn fingerprint(hash: u64) -> u8 {
    (hash ^ (hash >> 32)) as u8
}

impl Fuse {
    fn sized(keys: u64) -> Self {
        let n = keys.max(2) as f64;
        let segment = (n.ln() / 3.33_f64.ln() + 2.25).floor().exp2() as u32;
        let segment = segment.clamp(4, SEGMENT_MAX);
        let factor = (0.875 + 0.25 * 1e6_f64.ln() / n.ln()).max(1.125);
        let segments = ((n * factor / f64::from(segment)).ceil() as u32).saturating_sub(2).max(1);
        let bytes = vec![0; ((segments + 2) * segment) as usize].into_boxed_slice();
        Self { seed: 0, segment, segments, bytes }
    }

    #[inline]
    const fn places(&self, hash: u64) -> [usize; 3] {
        let first =
            ((hash as u128 * (self.segments as u64 * self.segment as u64) as u128) >> 64) as u32;
        let mask = self.segment - 1;
        let second = (first + self.segment) ^ ((hash >> 18) as u32 & mask);
        let third = (first + 2 * self.segment) ^ (hash as u32 & mask);
        [first as usize, second as usize, third as usize]
    }

    /// Builds a filter for distinct keys with these remixed hashes. Returns `None` if no seed
    /// works, which happens when a hash occurs twice.
    pub(crate) fn build(hashes: &[u64]) -> Option<Self> {
        let mut filter = Self::sized(hashes.len() as u64);
        let mut places = vec![Place::default(); filter.bytes.len()];
        let mut sorted = Vec::new();
        let mut order = Vec::with_capacity(hashes.len());
        for seed in 0..TRIES {
            filter.seed = seed;
            places.fill(Place::default());
            order.clear();
            filter.gather(hashes, &mut sorted);
            for &hash in &sorted {
                for (which, at) in filter.places(hash).into_iter().enumerate() {
                    let place = &mut places[at];
                    place.hashes ^= hash;
                    place.count += 1;
                    place.which ^= which as u32;
                }
            }
            filter.take_away(&mut places, &mut order);
            if order.len() == hashes.len() {
                filter.give_bytes(&order);
                return Some(filter);
            }
        }
        None
    }

    /// Sorts the hashes under the seed by segment, so that work on them stays in the processor's
    /// cache.
    fn gather(&self, hashes: &[u64], sorted: &mut Vec<u64>) {
        let bits = 32 - self.segments.leading_zeros();
        let bucket = |hash: u64| (hash >> (64 - bits)) as usize;
        let mut starts = vec![0_usize; (1 << bits) + 1];
        for &hash in hashes {
            starts[bucket(self.mix(hash)) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        sorted.clear();
        sorted.resize(hashes.len(), 0);
        for &hash in hashes {
            let hash = self.mix(hash);
            let start = &mut starts[bucket(hash)];
            sorted[*start] = hash;
            *start += 1;
        }
    }

    #[inline]
    const fn mix(&self, hash: u64) -> u64 {
        // The hashes are remixed already: only another try needs different ones.
        if self.seed == 0 { hash } else { remix(hash ^ self.seed) }
    }

    /// Removes keys that are alone at a place, one after another. `order` gets their hashes and
    /// which place it was.
    fn take_away(&self, places: &mut [Place], order: &mut Vec<(u64, u8)>) {
        let mut alone: Vec<u32> = Vec::with_capacity(places.len());
        for start in 0..places.len() {
            if places[start].count != 1 {
                continue;
            }
            alone.push(start as u32);
            while let Some(at) = alone.pop() {
                let place = places[at as usize];
                if place.count != 1 {
                    continue;
                }
                order.push((place.hashes, place.which as u8));
                for (which, other) in self.places(place.hashes).into_iter().enumerate() {
                    let other_place = &mut places[other];
                    other_place.hashes ^= place.hashes;
                    other_place.count -= 1;
                    other_place.which ^= which as u32;
                    if other_place.count == 1 {
                        alone.push(other as u32);
                    }
                }
            }
        }
    }

    /// Assigns the byte of each key's own place so that its fingerprint results.
    fn give_bytes(&mut self, order: &[(u64, u8)]) {
        for &(hash, which) in order.iter().rev() {
            let places = self.places(hash);
            let own = places[usize::from(which)];
            self.bytes[own] = 0;
            self.bytes[own] = places.iter().fold(fingerprint(hash), |x, &at| x ^ self.bytes[at]);
        }
    }

    /// Returns whether a key with this remixed hash may be in the set.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let hash = self.mix(hash);
        let [a, b, c] = self.places(hash);
        fingerprint(hash) == self.bytes[a] ^ self.bytes[b] ^ self.bytes[c]
    }

    /// Bytes that the filter takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}
