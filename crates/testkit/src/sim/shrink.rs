//! Fewer steps that still fail: delta debugging.

use super::run::{Failure, run};
use super::step::Planned;
use std::time::{Duration, Instant};

/// The steps that are left when no smaller set fails alike, or the time is over; and how it fails.
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

/// What a failure is without its numbers: another one is not what was looked for.
fn kind_of(failure: &Failure) -> String {
    failure.what.chars().filter(|c| !c.is_ascii_digit()).take(30).collect()
}

impl Shrinking {
    /// Tries to do without each piece of `size` steps; whether it could without any.
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

    /// Tries to do without single changes of batches.
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
