//! Compares the last third of the time with the middle third.

use super::place::Setting;
use super::sample::Sample;
use std::fmt;

/// The fewest samples of a third that can be compared.
const SAMPLES_MIN: usize = 10;
const MIB: f64 = (1 << 20) as f64;

/// A quantity that must not grow, or not exceed a bound.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measure {
    name: &'static str,
    middle: f64,
    last: f64,
    allowed: f64,
}

impl Measure {
    pub(super) fn is_kept(&self) -> bool {
        self.last <= self.allowed
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, middle, last, allowed } = self;
        let kept = if self.is_kept() { "kept" } else { "EXCEEDED" };
        write!(f, "{name:<34} {middle:>10.2} {last:>10.2} {allowed:>10.2}  {kept}")
    }
}

/// The bounds of the database.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoakLimits {
    space_amplification: f64,
    memtable_share: f64,
    resident: f64,
}

impl SoakLimits {
    pub(super) fn of(setting: &Setting) -> Self {
        let options = setting.options();
        Self {
            space_amplification: options.space_amplification_max,
            memtable_share: options.memory_budget as f64 / 2.0,
            resident: options.memory_budget as f64 * 1.15 + 100.0 * MIB,
        }
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

fn most(of: &[f64]) -> f64 {
    of.iter().copied().fold(0.0, f64::max)
}

/// Compares the samples of the last third of the time with those of the middle third.
///
/// # Errors
/// There are too few samples.
pub(super) fn judge(samples: &[Sample], bounds: &SoakLimits) -> Result<Vec<Measure>, String> {
    let working: Vec<&Sample> = samples.iter().filter(|sample| sample.works).collect();
    let (Some(first), Some(last)) = (working.first(), working.last()) else {
        return Err("the child has never worked".into());
    };
    let third = (last.at - first.at) / 3.0;
    let of = |at: f64| {
        let (from, to) = (first.at + third * at, first.at + third * (at + 1.0));
        working.iter().filter(move |s| s.at >= from && s.at <= to).copied().collect::<Vec<_>>()
    };
    let (middle, last) = (of(1.0), of(2.0));
    let fewest = middle.len().min(last.len());
    if fewest < SAMPLES_MIN {
        return Err(format!("{fewest} samples of a third: expected at least {SAMPLES_MIN}"));
    }
    let compare = |name, value: &dyn Fn(&Sample) -> f64, sum: fn(&[f64]) -> f64, (times, more)| {
        let of = |samples: &[&Sample]| sum(&samples.iter().map(|s| value(s)).collect::<Vec<_>>());
        let (middle, last) = (of(&middle), of(&last));
        Measure { name, middle, last, allowed: middle * times + more }
    };
    let resident = |sample: &Sample| sample.resident as f64 / MIB;
    let threads = |sample: &Sample| sample.threads as f64;
    let descriptors = |sample: &Sample| sample.descriptors as f64;
    let tables = |sample: &Sample| sample.tables as f64 / MIB;
    let log = |sample: &Sample| sample.log as f64 / MIB;
    let live = |sample: &Sample| sample.live as f64 / MIB;
    let share = bounds.memtable_share / MIB;
    // The bytes of tables, less some shares of the memtables, for each byte that is alive or
    // pinned.
    let space = |shares: f64| {
        move |sample: &Sample| {
            let beyond = sample.tables as f64 - bounds.memtable_share * shares;
            beyond.max(0.0) / (sample.live + sample.pinned).max(1) as f64
        }
    };
    let amplification = bounds.space_amplification;
    Ok(vec![
        compare("resident memory, mean, MiB", &resident, mean, (1.1, 8.0)),
        compare("resident memory, most, MiB", &resident, most, (1.15, 16.0)),
        compare("resident memory, bound, MiB", &resident, most, (0.0, bounds.resident / MIB)),
        compare("threads, mean", &threads, mean, (1.0, 0.5)),
        compare("threads, most", &threads, most, (1.0, 3.0)),
        compare("descriptors, mean", &descriptors, mean, (1.1, 3.0)),
        compare("descriptors, most", &descriptors, most, (1.2, 12.0)),
        compare("bytes alive, mean, MiB", &live, mean, (1.03, 1.0)),
        compare("tables, mean, MiB", &tables, mean, (1.15, share / 2.0)),
        compare("tables - 1 share / alive, mean", &space(1.0), mean, (0.0, amplification)),
        compare("tables - 2 shares / alive, most", &space(2.0), most, (0.0, 1.25 * amplification)),
        compare("log, most, MiB", &log, most, (1.25, 8.0)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceeded(change: impl Fn(&mut Sample, f64)) -> Vec<&'static str> {
        let samples: Vec<Sample> = (0..90)
            .map(|at| {
                let mut sample = Sample {
                    at: f64::from(at),
                    works: at % 10 != 0,
                    resident: 100 << 20,
                    threads: 12,
                    descriptors: 60,
                    tables: 400 << 20,
                    log: 64 << 20,
                    live: 256 << 20,
                    ..Sample::default()
                };
                change(&mut sample, f64::from(at) / 90.0);
                sample
            })
            .collect();
        let measures = judge(&samples, &SoakLimits::of(&Setting::default())).unwrap();
        measures.iter().filter(|measure| !measure.is_kept()).map(|measure| measure.name).collect()
    }

    #[test]
    fn what_does_not_grow_is_kept() {
        assert_eq!(exceeded(|_, _| ()), Vec::<&str>::new());
        // The first third is warm-up.
        let warms = |sample: &mut Sample, at: f64| {
            sample.resident = if at < 0.3 { 20 << 20 } else { 100 << 20 };
        };
        assert_eq!(exceeded(warms), Vec::<&str>::new());
    }

    #[test]
    fn what_grows_is_told() {
        let grow = |at: f64, from: u64| from + (from as f64 * at) as u64;
        let memory = exceeded(|sample, at| sample.resident = grow(at, 80 << 20));
        assert_eq!(memory, ["resident memory, mean, MiB"]);
        let threads = exceeded(|sample, at| sample.threads = grow(at, 12));
        assert_eq!(threads, ["threads, mean", "threads, most"]);
        let descriptors = exceeded(|sample, at| sample.descriptors = grow(at, 100));
        assert_eq!(descriptors, ["descriptors, mean"]);
    }

    #[test]
    fn more_than_a_bound_is_told_though_it_does_not_grow() {
        let memory = exceeded(|sample, _| sample.resident = 300 << 20);
        assert_eq!(memory, ["resident memory, bound, MiB"]);
        let space = exceeded(|sample, _| sample.tables = 600 << 20);
        assert_eq!(space, ["tables - 1 share / alive, mean"]);
        let peak = exceeded(|sample, at| {
            if (0.8..0.83).contains(&at) {
                sample.tables = 720 << 20;
            }
        });
        assert_eq!(peak, ["tables - 2 shares / alive, most"]);
        let pinned = exceeded(|sample, _| {
            (sample.tables, sample.pinned) = (600 << 20, 100 << 20);
        });
        assert_eq!(pinned, Vec::<&str>::new());
    }

    #[test]
    fn a_run_too_short_is_no_verdict() {
        let samples = vec![Sample { works: true, ..Sample::default() }; 20];
        assert!(judge(&samples[..5], &SoakLimits::of(&Setting::default())).is_err());
        assert!(judge(&[], &SoakLimits::of(&Setting::default())).is_err());
    }
}
