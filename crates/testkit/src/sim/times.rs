//! Draws what depends on time: how long entries last, and how the clock moves between steps.

use super::model::{KEYS, Key, SLOTS};
use super::step::{Condition, Lasts, SimStep};
use crate::rng::Rng;
use flagstone_base::hash::remix;

const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;

/// The generator of everything that depends on time. It is one of its own, so that it does not
/// change the other steps of a history.
pub(super) struct Times {
    rng: Rng,
    /// The percentage of the puts into each slot that have an expiry.
    expiring: [u64; SLOTS],
}

impl Times {
    pub(super) fn new(seed: u64, expiring: [u64; SLOTS]) -> Self {
        Self { rng: Rng::new(remix(seed ^ 6)), expiring }
    }

    /// Draws the percentage of the puts into each slot that have an expiry.
    pub(super) fn draw_expiring(seed: u64) -> [u64; SLOTS] {
        let mut rng = Rng::new(remix(seed ^ 7));
        if rng.percent(40) {
            return [0; SLOTS];
        }
        std::array::from_fn(|_| *rng.pick(&[0, 10, 40, 100]))
    }

    pub(super) const fn number(&mut self) -> u64 {
        self.rng.number()
    }

    /// Draws how long an entry of the slot lasts.
    pub(super) fn lasts(&mut self, slot: usize) -> Lasts {
        if !self.rng.percent(self.expiring[slot]) {
            return Lasts::Forever;
        }
        let millis = match self.rng.below(20) {
            0 => return Lasts::For(-(self.rng.below(5 * SECOND) as i64)),
            1 => return Lasts::For(i64::MIN),
            2 => return Lasts::For(i64::MAX),
            3..=10 => self.rng.between(1, 3 * SECOND),
            11..=15 => self.rng.between(3 * SECOND, 60 * SECOND),
            _ => self.rng.between(60 * SECOND, 4 * HOUR),
        };
        Lasts::For(millis as i64)
    }

    /// Draws a change of the clock, or `None` if it is not changed.
    pub(super) fn clock_step(&mut self) -> Option<SimStep> {
        if self.expiring == [0; SLOTS] || !self.rng.percent(25) {
            return None;
        }
        Some(match self.rng.below(20) {
            0..=5 => SimStep::Clock(self.rng.between(1, 3 * SECOND)),
            6..=13 => SimStep::ClockTo(self.rng.index(100), self.rng.percent(40)),
            14..=16 => SimStep::Clock(self.rng.between(3 * SECOND, 4 * HOUR)),
            17..=18 => SimStep::ClockBack(self.rng.between(1, 5 * SECOND)),
            _ => SimStep::ClockJump(self.rng.between(2 * HOUR, 1000 * HOUR)),
        })
    }

    /// Draws a condition that a key is unchanged since a snapshot, sometimes.
    pub(super) fn unchanged(&mut self) -> Option<Condition> {
        let (which, slot) = (self.rng.index(100), self.rng.index(SLOTS));
        let key = self.rng.below(KEYS as u64) as Key;
        self.rng.percent(4).then_some(Condition::Unchanged(which, slot, key))
    }
}
