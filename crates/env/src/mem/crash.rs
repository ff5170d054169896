//! Decides what survives a crash.

use crate::random::{Random, SeededRandom};

/// The random decisions of one crash.
pub(super) struct CrashDecisions {
    random: SeededRandom,
    sector_percent: u64,
    name_percent: u64,
}

impl CrashDecisions {
    /// A crash in which anything may survive; how much depends on the seed.
    pub(super) fn random(seed: u64) -> Self {
        const PERCENT: [u64; 5] = [0, 10, 50, 90, 100];
        let random = SeededRandom::new(seed);
        let pick = || PERCENT[(random.next_u64() % PERCENT.len() as u64) as usize];
        let (sector_percent, name_percent) = (pick(), pick());
        // A disk that loses every sector need not lose every length.
        Self { sector_percent: sector_percent.max(1), name_percent, random }
    }

    /// A crash in which nothing unsynced survives.
    pub(super) const fn lose_all() -> Self {
        Self { random: SeededRandom::new(0), sector_percent: 0, name_percent: 0 }
    }

    pub(super) const fn loses_all(&self) -> bool {
        self.sector_percent == 0
    }

    pub(super) fn below(&self, n: u64) -> u64 {
        self.random.next_u64() % n.max(1)
    }

    pub(super) fn sector_survives(&self) -> bool {
        self.below(100) < self.sector_percent
    }

    pub(super) fn name_survives(&self) -> bool {
        self.below(100) < self.name_percent
    }
}
