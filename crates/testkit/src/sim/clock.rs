//! The clock of a history. It advances, stands still, and is set back or far ahead.
//!
//! ```text
//! wall     the clock of the machine: a step sets it anywhere
//! moment   max(wall, every earlier moment of this life, what the manifest records)
//! ```
//! The database must judge by exactly this moment. After a crash the manifest may record less than
//! the life before has seen. Then entries that had expired come back, but only those that lived
//! when that life began: the wall clock is never set to an earlier moment. So what a recovery has
//! found expired stays so, and the oracle need not know whether a crash has lost its write.

use super::model::Key;
use super::oracle::Oracle;
use super::place::SimWorld;
use super::step::{SimStep, Which, place_of};
use flagstone::Moment;

/// [`SimStep::ClockTo`] advances the clock by at most this many milliseconds.
const NEAR: u64 = 8 * 3600 * 1000;

/// The moments of the clocks of all lives, as far as they are known.
#[derive(Default)]
pub(super) struct Clocks {
    /// The moment at which this life began.
    pub(super) began: Moment,
    /// The moment that clean closes have recorded.
    recorded: Moment,
    /// The latest moment that any life may have recorded. Readers follow a clock that was set far
    /// ahead at once; tables and manifest do so an hour later.
    latest: Moment,
}

impl Clocks {
    /// Notes that a life begins at `moment`.
    pub(super) fn begin(&mut self, moment: Moment) {
        self.began = moment;
        self.note(moment);
    }

    /// Notes that a database may have recorded `moment`.
    pub(super) fn note(&mut self, moment: Moment) {
        self.latest = self.latest.max(moment);
    }

    /// Notes that a clean close has recorded `moment`.
    pub(super) fn record(&mut self, moment: Moment) {
        self.recorded = self.recorded.max(moment);
    }

    /// Judges the clock of a database that was opened in `place`. It is not behind what a clean
    /// close has recorded, and not ahead of what any life may have recorded.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn judge(&self, place: &SimWorld, now: Moment) -> Result<(), String> {
        let wall = place.wall();
        let (first, last) = (wall.max(self.recorded), wall.max(self.latest));
        if (first..=last).contains(&now) {
            Ok(())
        } else {
            Err(format!("a clock opened at {now}: expected {first} to {last}"))
        }
    }
}

/// Moves the clock of `place` if the step says so; else returns `None`. Returns the key that the
/// step reads then, if it reads one.
pub(super) fn move_clock(
    step: &SimStep,
    place: &SimWorld,
    oracle: &Oracle,
) -> Option<Option<(usize, Key)>> {
    match *step {
        SimStep::Clock(millis) => place.advance(millis),
        SimStep::ClockTo(which, is_before) => {
            return Some(advance_to(place, oracle, which, is_before));
        }
        SimStep::ClockBack(millis) => place.set_back(millis),
        SimStep::ClockJump(millis) => place.jump(millis),
        _ => return None,
    }
    Some(None)
}

/// Advances the clock to the expiry of an entry, or to the millisecond before. Returns the key of
/// the entry.
fn advance_to(
    place: &SimWorld,
    oracle: &Oracle,
    which: Which,
    is_before: bool,
) -> Option<(usize, Key)> {
    let now = oracle.moment.millis();
    let near = now + 1..=now + NEAR;
    let ahead = oracle.now.expiries().filter(|(.., at)| near.contains(&at.millis()));
    let ahead: Vec<_> = ahead.collect();
    let (slot, key, at) = ahead[place_of(ahead.len(), which)?];
    let target = at.millis() - u64::from(is_before);
    place.advance(target.saturating_sub(place.wall().millis()));
    Some((slot, key))
}
