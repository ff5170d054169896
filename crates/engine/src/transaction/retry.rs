//! How long a transaction pauses before it is tried again.
//!
//! A conflict means that another commit has succeeded, so at first the next try follows at once.
//! After several conflicts in a row there are more writers of the same keys than can take turns
//! that way: each try costs the others time. Then each pauses for a random time, so that they do
//! not meet again, and the longest possible pause doubles with each conflict up to a limit.

use crate::parts::Parts;
use crate::rate::rest;
use flagstone_base::Result;
use flagstone_env::sync::yield_now;
use std::time::Duration;

/// After this many conflicts the next try still follows at once.
const AT_ONCE: u32 = 3;
/// The longest first pause.
const FIRST: Duration = Duration::from_micros(50);
/// The longest pause.
const LONGEST: Duration = Duration::from_millis(10);

/// Pauses after `conflicts` in a row.
///
/// # Errors
/// Closed, Poisoned.
pub(crate) fn pause_after(parts: &Parts, conflicts: u32) -> Result<()> {
    let random = || parts.core.setup().environment.random.next_u64();
    let pause = longest_after(conflicts).map(|longest| part_of(longest, random()));
    match pause {
        None => yield_now(),
        // Without threads nobody else can go on meanwhile, except queued work.
        Some(_) if parts.core.setup().executor.assist() => {}
        Some(pause) => rest(pause, || parts.core.health.check_open_for_writing())?,
    }
    Ok(())
}

/// The longest pause after `conflicts`. `None` for none.
fn longest_after(conflicts: u32) -> Option<Duration> {
    let doublings = conflicts.checked_sub(AT_ONCE + 1)?.min(16);
    Some((FIRST * (1 << doublings)).min(LONGEST))
}

/// A part of `longest` that `random` chooses.
fn part_of(longest: Duration, random: u64) -> Duration {
    let nanos = (u128::from(random) * longest.as_nanos()) >> 64;
    Duration::from_nanos(nanos as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_from_conflict_to_conflict_up_to_a_limit() {
        assert_eq!([1, 2, 3].map(longest_after), [None; 3]);
        let longest = |conflicts| longest_after(conflicts).unwrap();
        assert_eq!([4, 5, 6].map(longest), [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!([12, 100, u32::MAX].map(longest), [LONGEST; 3]);
    }

    #[test]
    fn a_pause_is_a_random_part_of_the_longest() {
        assert_eq!(part_of(LONGEST, 0), Duration::ZERO);
        assert_eq!(part_of(LONGEST, 1 << 63), LONGEST / 2);
        assert!(part_of(LONGEST, u64::MAX) < LONGEST);
    }
}
