//! A store that keeps nothing and burns a given amount of CPU per call: the yardstick of latencies
//! when there are more threads than cores, since much of the tail is then the scheduler's.
//!
//! The amount is a number of rounds of arithmetic, which is found once by timing. Waiting for a
//! clock to advance would also count the time in which the thread did not run.

use super::{Engine, Outcome};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Rounds of a probe: about 0.2 ms, so that the scheduler seldom interrupts one.
const PROBE_ROUNDS: u64 = 100_000;
/// The number of probes. The fastest was not interrupted.
const PROBES: usize = 40;

/// Rounds that one core does in a nanosecond. Takes about 10 ms.
fn rounds_per_ns() -> f64 {
    let probe = |_| {
        let began = Instant::now();
        burn(PROBE_ROUNDS);
        began.elapsed()
    };
    let fastest = (0..PROBES).map(probe).min().unwrap_or(Duration::from_micros(200));
    PROBE_ROUNDS as f64 / (fastest.as_nanos().max(1) as f64)
}

fn burn(rounds: u64) {
    let mut x = black_box(1_u64);
    for _ in 0..rounds {
        x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    black_box(x);
}

/// The store that keeps nothing.
#[derive(Clone, Debug)]
pub struct NoopEngine {
    rounds: u64,
    burn_ns: f64,
}

impl NoopEngine {
    /// Burns `burn_ns` nanoseconds of one core per call.
    pub fn new(burn_ns: f64) -> Self {
        let rounds = if burn_ns > 0.0 { (burn_ns * rounds_per_ns()) as u64 } else { 0 };
        Self { rounds, burn_ns }
    }
}

impl Engine for NoopEngine {
    fn put(&self, _key: &[u8], _value: &[u8]) -> Outcome<()> {
        burn(self.rounds);
        Ok(())
    }

    fn get(&self, _key: &[u8], _found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        burn(self.rounds);
        Ok(false)
    }

    fn delete(&self, _key: &[u8]) -> Outcome<()> {
        burn(self.rounds);
        Ok(())
    }

    fn scan(
        &self,
        _from: &[u8],
        _limit: usize,
        _each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        burn(self.rounds);
        Ok(0)
    }

    fn version(&self) -> String {
        "noop 1".into()
    }

    fn tuning(&self) -> String {
        format!("keeps nothing, burns {:.0} ns of one core per call", self.burn_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_burns_rounds_in_proportion_to_its_time() {
        assert!(NoopEngine::new(10_000.0).rounds > 100);
        assert_eq!(NoopEngine::new(-1.0).rounds, 0);
    }

    #[test]
    fn it_finds_nothing() {
        let engine = NoopEngine::new(0.0);
        engine.put(b"a", b"1").unwrap();
        assert!(!engine.get(b"a", &mut |_| {}).unwrap());
        assert!(!engine.remove(b"a").unwrap());
    }
}
