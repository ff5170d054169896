//! A binary fuse filter (Graf and Lemire 2022), three places a key, a byte of fingerprint.
//!
//! A key has one place in each of three neighbouring segments; the exclusive or of the three bytes
//! there is its fingerprint. Building takes keys away that are alone at some place, again and
//! again, and then gives bytes in the opposite order. That works with probability near 1; if not,
//! another seed is tried.

use flagstone_base::hash::remix;

/// Seeds tried before giving up.
const TRIES: u64 = 64;
/// The longest segment.
const SEGMENT_MAX: u32 = 1 << 18;

/// A filter in memory.
pub(crate) struct Fuse {
    seed: u64,
    /// A power of two.
    segment: u32,
    /// Segments a key's first place can be in.
    segments: u32,
    bytes: Box<[u8]>,
}

/// What stands at a place while keys are taken away: how many keys, the exclusive or of their
/// hashes, and of which of their three places it is.
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

    /// A filter of the distinct keys with these remixed hashes. `None` when no seed fits, which
    /// happens when a hash is there twice.
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

    /// The hashes under the seed, those of one segment beside one another: what is done with them
    /// then stays in the processor's cache.
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
        // The hashes are remixed: only another try needs other ones.
        if self.seed == 0 { hash } else { remix(hash ^ self.seed) }
    }

    /// Takes away key after key that is alone at a place; `order` gets hash and which place.
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

    /// Gives each key's own place the byte that makes its fingerprint come out.
    fn give_bytes(&mut self, order: &[(u64, u8)]) {
        for &(hash, which) in order.iter().rev() {
            let places = self.places(hash);
            let own = places[usize::from(which)];
            self.bytes[own] = 0;
            self.bytes[own] = places.iter().fold(fingerprint(hash), |x, &at| x ^ self.bytes[at]);
        }
    }

    /// Whether a key with this remixed hash may be there.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let hash = self.mix(hash);
        let [a, b, c] = self.places(hash);
        fingerprint(hash) == self.bytes[a] ^ self.bytes[b] ^ self.bytes[c]
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}
