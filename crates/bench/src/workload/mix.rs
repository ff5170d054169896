//! Mixes of puts, deletes and gets over random keys, from an empty store.
//!
//! A thread draws the kind of each operation by the shares of the mix. A put takes the thread's
//! next key. A get or a delete takes, with the probability `known_keys`, a key that this thread has
//! put before (and maybe deleted since), else any key, which is rarely there.
//!
//! The no-op store is the yardstick of a trial. This file finds how much CPU it must burn per call
//! to equal the engine, and how far the engine's tails are above those that the scheduler alone
//! causes.

use super::caller::Caller;
use super::{Case, Options, Values, random};
use crate::engine::{Engine, NoopEngine, Outcome};
use crate::options::Pace;
use crate::record::{OpKind, Summary, Trial};
use crate::run::{Crew, Meter, Recorder, Worked, crew, work};
use crate::sample::ProcessSample;
use flagstone_comments::Random;
use std::time::Duration;

/// Shares of operations, in hundredths; the rest are gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// `put-heavy`, ...
    pub name: &'static str,
    pub puts: u64,
    pub deletes: u64,
}

impl Mix {
    /// 90 puts, 5 deletes, 5 gets.
    pub const PUT_HEAVY: Self = Self { name: "put-heavy", puts: 90, deletes: 5 };
    /// 10 puts, 5 deletes, 85 gets.
    pub const GET_HEAVY: Self = Self { name: "get-heavy", puts: 10, deletes: 5 };
    /// 45 puts, 45 deletes, 10 gets.
    pub const DELETE_HEAVY: Self = Self { name: "delete-heavy", puts: 45, deletes: 45 };
    /// 33 puts, 33 deletes, 34 gets.
    pub const BALANCED: Self = Self { name: "balanced", puts: 33, deletes: 33 };
    /// Puts alone.
    pub const PUTS: Self = Self { name: "puts", puts: 100, deletes: 0 };
    /// The four of the origin.
    pub const ALL: [Self; 4] =
        [Self::PUT_HEAVY, Self::GET_HEAVY, Self::DELETE_HEAVY, Self::BALANCED];

    /// The mix with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mix| mix.name == name)
    }

    #[inline]
    fn draw(self, random: &mut Random) -> OpKind {
        let drawn = random.below(100);
        if drawn < self.puts {
            OpKind::Put
        } else if drawn < self.puts + self.deletes {
            OpKind::Delete
        } else {
            OpKind::Get
        }
    }
}

/// The workers of a mix, one a thread.
fn workers<'e>(
    mix: Mix,
    options: &Options,
    engine: &'e dyn Engine,
    values: &'e Values,
) -> Crew<'e> {
    let Options { known_keys, telling_deletes, ref data, .. } = *options;
    crew(options.pace.threads, |thread| {
        let mut caller = Caller::new(engine, data, values);
        let (mut random, mut puts) = (random(data.seed, thread), 0);
        move |meter: &mut Meter<'_>| {
            let kind = mix.draw(&mut random);
            if kind == OpKind::Put {
                caller.put(caller.keys.draw(thread, puts), 0, meter)?;
                puts += 1;
                return Ok(true);
            }
            let number = if puts > 0 && random.unit() < known_keys {
                let i = random.below(puts);
                caller.keys.draw(thread, i)
            } else {
                random.below(caller.keys.space)
            };
            match kind {
                OpKind::Delete if telling_deletes => caller.remove(number, meter)?,
                OpKind::Delete => caller.delete(number, meter)?,
                _ => {
                    caller.get(number, meter)?;
                }
            }
            Ok(true)
        }
    })
}

/// Runs a mix over an empty store. `after` is called when the clock has stopped, before the store
/// is closed: for figures, or to wait for background work.
pub fn run_mix(
    mix: Mix,
    case: &Case<'_>,
    after: impl FnOnce(&mut Recorder<'_>, &dyn Engine, Worked) -> Outcome<()>,
) -> Outcome<Summary> {
    let opened = case.stage.open_fresh(&case.options.store)?;
    let values = case.options.data.make_values();
    let mut recorder = case.record(&opened, "an empty store")?;
    let workers = workers(mix, case.options, &*opened.engine, &values);
    let worked = recorder.run(&*opened.engine, &case.options.pace, workers)?;
    after(&mut recorder, &*opened.engine, worked)?;
    case.stage.finish(opened, recorder)
}

/// Measures puts of threads that wait for the device. Figures, if the engine reports its syncs:
/// `commits_per_sync`, `syncs_per_s`.
pub(super) fn durable_writers(case: &Case<'_>) -> Outcome<Summary> {
    run_mix(Mix::PUTS, case, |recorder, _, worked| {
        if let Some(syncs) = recorder.wal_syncs().filter(|syncs| *syncs > 0) {
            recorder.figure("commits_per_sync", worked.ops as f64 / syncs as f64);
            recorder.figure("syncs_per_s", syncs as f64 / worked.seconds);
        }
        Ok(())
    })
}

/// Runs put-heavy under one of several durabilities. All but the first have the figure
/// `against_first`: how much higher the rate is than the first one's, 0.1 for a tenth; negative if
/// it is lower.
pub(super) fn durability(case: &Case<'_>) -> Outcome<Summary> {
    run_mix(Mix::PUT_HEAVY, case, |recorder, _, worked| {
        if let Some(first) = case.stage.first_ops_per_s {
            recorder.figure("against_first", worked.ops_per_s() / first - 1.0);
        }
        Ok(())
    })
}

/// The time for which the harness is measured alone.
const PROBE: Duration = Duration::from_millis(1500);

/// Returns the nanoseconds per call with which the no-op store takes as much CPU an operation as
/// `trial` did, background work included: the CPU of the trial, less that of the harness for these
/// options, which is measured for a second or two.
pub fn burn_like(trial: &Trial, mix: Mix, options: &Options) -> Outcome<f64> {
    let summary = &trial.summary;
    if summary.ops == 0 || summary.cpu_s <= 0.0 {
        let path = trial.path.display();
        return Err(format!("{path} tells no operations or no CPU time to be equalled").into());
    }
    let engine = NoopEngine::new(0.0);
    let values = options.data.make_values();
    let pace = Pace { seconds: PROBE, operations: None, closing_sync: false, ..options.pace };
    let before = ProcessSample::now().cpu_s;
    let worked = work(&pace, workers(mix, options, &engine, &values), &mut |_, _| Ok(()))?;
    let harness = (ProcessSample::now().cpu_s - before) / worked.ops.max(1) as f64;
    let wanted = summary.cpu_s / summary.ops as f64;
    Ok(((wanted - harness) * 1e9).max(0.0))
}

/// Runs a mix over the no-op store of the case, as the yardstick of `trial`, which must be of the
/// same mix on as many threads. Figures, by kind of operation as in `put_p999_over_noop_ratio`: the
/// 99.9th percentile of the trial divided by that of the no-op store; and `trial_cpu_per_op_us`, to
/// be compared with this run's `cpu_per_op_us`.
pub fn run_yardstick(case: &Case<'_>, mix: Mix, trial: &Trial) -> Outcome<Summary> {
    let (header, wanted) = (&trial.header, case.options.pace.threads);
    let threads = trial.number("threads");
    if header.workload != mix.name || threads != Some(wanted as u64) {
        return Err(format!(
            "{} is of {} on {} threads: expected {} on {wanted}",
            trial.path.display(),
            header.workload,
            threads.map_or("unknown".to_owned(), |threads| threads.to_string()),
            mix.name,
        )
        .into());
    }
    run_mix(mix, case, |recorder, _, _| {
        let cpu_us = trial.summary.cpu_s * 1e6 / trial.summary.ops.max(1) as f64;
        recorder.figure("trial_cpu_per_op_us", cpu_us);
        let here: Vec<_> = recorder.totals().latencies().collect();
        for (kind, found) in here {
            if let Some(there) = trial.summary.latency.get(&kind) {
                let name = format!("{}_p999_over_noop_ratio", kind.name());
                recorder.figure(&name, there.p999 / found.p999.max(1e-3));
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::Mutex;

    /// A map that counts, and can be told to damage a value.
    #[derive(Default)]
    struct MapEngine {
        map: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
        damages: bool,
    }

    impl Engine for MapEngine {
        fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
            self.map.lock().unwrap().insert(key.to_vec(), value.to_vec());
            Ok(())
        }

        fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
            let map = self.map.lock().unwrap();
            let Some(value) = map.get(key) else { return Ok(false) };
            let mut value = value.clone();
            value[50] ^= u8::from(self.damages);
            found(&value);
            Ok(true)
        }

        fn delete(&self, key: &[u8]) -> Outcome<()> {
            self.map.lock().unwrap().remove(key);
            Ok(())
        }

        fn scan(
            &self,
            _from: &[u8],
            _limit: usize,
            _each: &mut dyn FnMut(&[u8], &[u8]),
        ) -> Outcome<usize> {
            Ok(0)
        }

        fn version(&self) -> String {
            "map".into()
        }
    }

    fn options(operations: u64) -> Options {
        let mut options = Options::default();
        options.data.value_bytes = 100;
        options.pace.threads = 2;
        options.pace.operations = Some(operations);
        options.pace.interval = Duration::from_secs(3600);
        options
    }

    /// Calls by kind, and gets that found their key.
    fn counts(
        engine: &dyn Engine,
        mix: Mix,
        options: &Options,
    ) -> Outcome<(HashMap<OpKind, u64>, u64)> {
        let values = options.data.make_values();
        let mut seen = (HashMap::new(), 0);
        work(&options.pace, workers(mix, options, engine, &values), &mut |_, ledger| {
            for (kind, latency) in ledger.latencies() {
                *seen.0.entry(kind).or_default() += latency.count;
            }
            seen.1 += ledger.gets_found;
            Ok(())
        })?;
        Ok(seen)
    }

    #[test]
    fn operations_come_in_the_shares_of_the_mix() {
        for mix in Mix::ALL {
            let engine = NoopEngine::new(0.0);
            let (counts, _) = counts(&engine, mix, &options(100_000)).unwrap();
            let expected = [
                (OpKind::Put, mix.puts),
                (OpKind::Delete, mix.deletes),
                (OpKind::Get, 100 - mix.puts - mix.deletes),
            ];
            for (kind, share) in expected {
                // Deviation: at most 160.
                let found = counts[&kind];
                assert!(found.abs_diff(share * 1000) < 900, "{} {kind:?}: {found}", mix.name);
            }
        }
    }

    #[test]
    fn known_keys_are_found_and_others_are_not() {
        // Deletes of a put-heavy mix have removed few of the keys put.
        for (known_keys, least, most) in [(0.0, 0.0, 0.01), (0.5, 0.42, 0.5), (1.0, 0.9, 1.0)] {
            let options = Options { known_keys, ..options(100_000) };
            let (counts, found) = counts(&MapEngine::default(), Mix::PUT_HEAVY, &options).unwrap();
            let share = found as f64 / counts[&OpKind::Get] as f64;
            assert!((least..=most).contains(&share), "{known_keys}: {share}");
        }
    }

    #[test]
    fn a_wrong_value_ends_the_run() {
        let engine = MapEngine { damages: true, ..MapEngine::default() };
        let failed = counts(&engine, Mix::BALANCED, &options(10_000)).unwrap_err().to_string();
        assert!(failed.contains("wrong value: a get of key"), "{failed}");
    }

    #[test]
    fn a_seed_gives_the_same_operations_again() {
        let run = || {
            let engine = MapEngine::default();
            let mut options = options(5000);
            options.pace.threads = 1;
            counts(&engine, Mix::DELETE_HEAVY, &options).unwrap();
            let map = engine.map.into_inner().unwrap();
            let mut map: Vec<_> = map.into_iter().collect();
            map.sort();
            map
        };
        let first = run();
        assert!(first.len() > 100);
        assert!(first == run());
    }
}
