//! What goes wrong in a store in memory.

use flagstone_env::{Random, SeededRandom};
use std::time::Duration;

/// How often each fault happens, of 1,000 calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Reads and changes that fail with Unavailable, and do nothing.
    pub unavailable: u64,
    /// Changes that are refused as if another one had come first.
    pub refused: u64,
    /// Changes that fail with Unknown and are never applied.
    pub lost: u64,
    /// Changes that are applied at once, but fail with Unknown.
    pub unanswered: u64,
    /// Changes that fail with Unknown and are tried later, perhaps after many others.
    pub late: u64,
    /// How many of those that are late come with each later change. The rest wait for
    /// [`Mem::deliver`](super::Mem::deliver).
    pub arrives: u64,
    /// Changes that fail with Unknown and wait for the next serial call of the partition, which
    /// completes them. Settled reads do not see them before.
    pub unfinished: u64,
    /// Calls that wait a little before or after they do anything, so that threads take turns.
    pub pauses: u64,
}

impl Faults {
    /// Much of everything.
    pub const MANY: Self = Self {
        unavailable: 10,
        refused: 30,
        lost: 30,
        unanswered: 40,
        late: 40,
        arrives: 120,
        unfinished: 30,
        pauses: 150,
    };
}

/// What happens with a change: see [`Faults`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    Unavailable,
    Refused,
    Lost,
    Unanswered,
    Late,
    Unfinished,
}

/// Draws faults by a seed.
pub(super) struct Dice(SeededRandom);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    /// Returns a number below `end`.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    pub(super) fn fate(&self, faults: &Faults) -> Fate {
        let mut drawn = self.below(1000);
        for (often, fate) in [
            (faults.unavailable, Fate::Unavailable),
            (faults.refused, Fate::Refused),
            (faults.lost, Fate::Lost),
            (faults.unanswered, Fate::Unanswered),
            (faults.late, Fate::Late),
            (faults.unfinished, Fate::Unfinished),
        ] {
            if drawn < often {
                return fate;
            }
            drawn -= often;
        }
        Fate::Answered
    }

    /// Returns whether a late change comes now.
    pub(super) fn arrives(&self, faults: &Faults) -> bool {
        self.below(1000) < faults.arrives
    }

    /// Returns whether a read fails.
    pub(super) fn fails(&self, faults: &Faults) -> bool {
        self.below(1000) < faults.unavailable
    }

    /// Waits now and then.
    pub(super) fn pause(&self, faults: &Faults) {
        if self.below(1000) >= faults.pauses {
            return;
        }
        match self.below(4) {
            0 => std::thread::sleep(Duration::from_micros(self.below(120))),
            _ => std::thread::yield_now(),
        }
    }
}
