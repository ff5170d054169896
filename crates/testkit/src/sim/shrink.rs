//! Finds fewer steps that still fail, by delta debugging.

use super::run::{Failure, run};
use super::step::Planned;
use std::time::{Duration, Instant};

/// Returns the steps that remain when no smaller set fails in the same way or the time is over, and
/// their failure.
pub fn shrink(
    seed: u64,
    plan: &[Planned],
    failure: Failure,
    time: Duration,
) -> (Vec<Planned>, Failure) {
    let mut shrinking = Shrinking {
        seed,
        kind: kind_of(&failure),
        best: plan[..=failure.at.min(plan.len().saturating_sub(1))].to_vec(),
        failure,
        until: Instant::now() + time,
    };
    let mut size = shrinking.best.len().div_ceil(2);
    while size > 0 && Instant::now() < shrinking.until {
        let dropped = shrinking.drop_pieces(size);
        size = match (dropped, size) {
            (true, _) => size.min(shrinking.best.len()),
            (false, 1) => 0,
            (false, _) => size.div_ceil(2),
        };
    }
    shrinking.drop_changes();
    (shrinking.best, shrinking.failure)
}

struct Shrinking {
    seed: u64,
    kind: String,
    best: Vec<Planned>,
    failure: Failure,
    until: Instant,
}

/// Returns the text of a failure without its numbers, to tell it from other failures.
fn kind_of(failure: &Failure) -> String {
    failure.what.chars().filter(|c| !c.is_ascii_digit()).take(30).collect()
}

impl Shrinking {
    /// Tries to leave out each piece of `size` steps. Returns whether any could be left out.
    fn drop_pieces(&mut self, size: usize) -> bool {
        let (mut at, mut dropped) = (0, false);
        while at < self.best.len() && Instant::now() < self.until {
            let end = (at + size).min(self.best.len());
            let fewer = [&self.best[..at], &self.best[end..]].concat();
            if self.takes(fewer) {
                dropped = true;
            } else {
                at = end;
            }
        }
        dropped
    }

    /// Tries to leave out single changes of batches.
    fn drop_changes(&mut self) {
        for at in 0..self.best.len() {
            let mut nth = 0;
            while Instant::now() < self.until {
                let mut fewer = self.best.clone();
                if !fewer.get_mut(at).is_some_and(|planned| planned.step.drop_change(nth)) {
                    break;
                }
                if !self.takes(fewer) {
                    nth += 1;
                }
            }
        }
    }

    fn takes(&mut self, plan: Vec<Planned>) -> bool {
        match run(self.seed, &plan) {
            Err(failure) if kind_of(&failure) == self.kind => {
                self.best = plan;
                self.best.truncate(failure.at + 1);
                self.failure = failure;
                true
            }
            _ => false,
        }
    }
}
