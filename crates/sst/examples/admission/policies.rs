//! Policies to compare with the block cache: LRU, and two filters that decide what a cache admits.

use super::weight;
use flagstone_base::hash::remix;

const NONE: u32 = u32::MAX;

/// A cache that is informed of accesses.
pub(crate) trait Policy {
    /// Returns whether `block` is cached. If not, it was read, and the policy may admit it.
    fn access(&mut self, block: u32) -> bool;
    /// `block` will never be read again.
    fn forget(&mut self, block: u32);
}

#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
    held: bool,
}

/// Evicts the least recently used block. Block numbers have an upper bound, so an array replaces
/// the map: it is cheaper than a map that hashes and locks.
pub(crate) struct Lru {
    links: Vec<Link>,
    oldest: u32,
    newest: u32,
    used: u64,
    limit: u64,
}

impl Lru {
    pub(crate) fn new(blocks: u32, limit: u64) -> Self {
        let links = vec![Link { older: NONE, newer: NONE, held: false }; blocks as usize];
        Self { links, oldest: NONE, newest: NONE, used: 0, limit }
    }

    fn unlink(&mut self, block: u32) {
        let Link { older, newer, .. } = self.links[block as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.links[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, block: u32) {
        let older = std::mem::replace(&mut self.newest, block);
        self.links[block as usize] = Link { older, newer: NONE, held: true };
        match older {
            NONE => self.oldest = block,
            _ => self.links[older as usize].newer = block,
        }
    }

    /// Returns whether `block` is cached, and makes it the most recent.
    fn touch(&mut self, block: u32) -> bool {
        let held = self.links[block as usize].held;
        if held && self.newest != block {
            self.unlink(block);
            self.link_newest(block);
        }
        held
    }

    fn add(&mut self, block: u32) {
        self.link_newest(block);
        self.used += weight(block);
    }

    fn remove(&mut self, block: u32) {
        if std::mem::take(&mut self.links[block as usize].held) {
            self.unlink(block);
            self.used -= weight(block);
        }
    }

    fn remove_oldest(&mut self) -> u32 {
        let block = self.oldest;
        self.remove(block);
        block
    }
}

impl Policy for Lru {
    fn access(&mut self, block: u32) -> bool {
        if self.touch(block) {
            return true;
        }
        self.add(block);
        while self.used > self.limit {
            self.remove_oldest();
        }
        false
    }

    fn forget(&mut self, block: u32) {
        self.remove(block);
    }
}

/// Counts how often blocks were seen lately, up to 15 times: a count-min sketch of four rows, which
/// is halved after ten times as many counts as a cache has blocks.
struct Sketch {
    counts: Vec<u8>,
    mask: u64,
    counted: u64,
    halve_at: u64,
}

impl Sketch {
    fn new(cache_blocks: u32) -> Self {
        let row = (u64::from(cache_blocks) * 4).next_power_of_two();
        let halve_at = u64::from(cache_blocks) * 10;
        Self { counts: vec![0; 4 * row as usize], mask: row - 1, counted: 0, halve_at }
    }

    fn places(&self, block: u32) -> [usize; 4] {
        let hash = remix(u64::from(block) + 1);
        let step = (hash >> 32) | 1;
        std::array::from_fn(|row| {
            let at = hash.wrapping_add(step.wrapping_mul(row as u64)) & self.mask;
            row * (self.mask as usize + 1) + at as usize
        })
    }

    fn count(&mut self, block: u32) {
        for place in self.places(block) {
            self.counts[place] = (self.counts[place] + 1).min(15);
        }
        self.counted += 1;
        if self.counted == self.halve_at {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.counted /= 2;
        }
    }

    fn estimate(&self, block: u32) -> u8 {
        self.places(block).iter().map(|&place| self.counts[place]).min().unwrap_or(0)
    }
}

/// TinyLFU with a window of a hundredth (Einziger, Friedman and Manes 2017) and plain LRU for the
/// rest: a block that leaves the window is admitted if it was seen more often than the block it
/// would replace.
pub(crate) struct TinyLfu {
    sketch: Sketch,
    window: Lru,
    main: Lru,
}

impl TinyLfu {
    pub(crate) fn new(blocks: u32, cache_blocks: u32, limit: u64) -> Self {
        Self {
            sketch: Sketch::new(cache_blocks),
            window: Lru::new(blocks, limit / 100),
            main: Lru::new(blocks, limit - limit / 100),
        }
    }

    fn offer(&mut self, block: u32) {
        let weight = weight(block);
        while self.main.used + weight > self.main.limit {
            let oldest = self.main.oldest;
            if self.sketch.estimate(block) <= self.sketch.estimate(oldest) {
                return;
            }
            self.main.remove_oldest();
        }
        self.main.add(block);
    }
}

impl Policy for TinyLfu {
    fn access(&mut self, block: u32) -> bool {
        self.sketch.count(block);
        if self.main.touch(block) || self.window.touch(block) {
            return true;
        }
        self.window.add(block);
        while self.window.used > self.window.limit {
            let fallen = self.window.remove_oldest();
            self.offer(fallen);
        }
        false
    }

    fn forget(&mut self, block: u32) {
        self.window.remove(block);
        self.main.remove(block);
    }
}

/// Remembers the blocks of the last one to two caches full of misses.
pub(crate) struct Doorkeeper {
    seen: [Vec<u64>; 2],
    mask: u64,
    marked: u32,
    window: u32,
}

impl Doorkeeper {
    pub(crate) fn new(cache_blocks: u32) -> Self {
        let bits = (u64::from(cache_blocks) * 16).next_power_of_two();
        let seen = std::array::from_fn(|_| vec![0; bits as usize / 64]);
        Self { seen, mask: bits - 1, marked: 0, window: cache_blocks }
    }

    /// Returns whether `block` was missed before, and records this miss.
    pub(crate) fn admits(&mut self, block: u32) -> bool {
        let bit = remix(u64::from(block) + 1) & self.mask;
        let (word, bit) = (bit as usize / 64, 1 << (bit % 64));
        let admitted = self.seen.iter().any(|seen| seen[word] & bit != 0);
        self.seen[0][word] |= bit;
        self.marked += 1;
        if self.marked == self.window {
            self.marked = 0;
            self.seen.swap(0, 1);
            self.seen[0].fill(0);
        }
        admitted
    }
}
