//! Mixes of puts, deletes and gets over random keys, from an empty store.
//!
//! A thread draws the kind of each operation by the shares of the mix. A put takes the thread's
//! next key. A get or a delete takes, with the probability `known_keys`, a key that this thread has
//! put before (and maybe deleted since), else any key, which is rarely there.

use super::caller::Caller;
use super::options::{Setup, Workload};
use super::{Random, Stage, Values};
use crate::engine::{Engine, Outcome};
use crate::options::{defaults, describe, share};
use crate::record::{Described, OpKind, Summary};
use crate::run::{Crew, Meter, Recorder, Worked, Worker, crew};
use clap::Args;
use serde::Serialize;

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

/// What a trial of a mix is.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MixOptions {
    #[arg(skip = Mix::PUT_HEAVY)]
    #[serde(skip)]
    pub mix: Mix,
    /// The share of gets and deletes that use a key put before, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    pub known_keys: f64,
    /// Deletes tell whether the key was there, at the cost of a get
    #[arg(long)]
    pub telling_deletes: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
}

impl MixOptions {
    /// The defaults: those of the origin, for 20 seconds.
    pub fn new(mix: Mix) -> Self {
        Self { mix, ..defaults() }
    }

    /// The workers of this mix, one a thread.
    pub fn workers<'e>(&self, engine: &'e dyn Engine, values: &'e Values) -> Crew<'e> {
        crew(self.setup.pace.threads, |thread| MixWorker {
            caller: Caller::new(engine, &self.setup.data, values),
            random: Random::new(self.setup.data.seed, thread),
            mix: self.mix,
            known_keys: self.known_keys,
            telling_deletes: self.telling_deletes,
            thread,
            puts: 0,
        })
    }

    /// Runs the mix under another name. `after` is called when the clock has stopped, before the
    /// store is closed: for figures, or to wait for background work.
    pub fn run_as(
        &self,
        stage: &Stage<'_>,
        workload: &str,
        after: impl FnOnce(&mut Recorder<'_>, &dyn Engine, Worked) -> Outcome<()>,
    ) -> Outcome<Summary> {
        self.check()?;
        let opened = stage.open_fresh(&self.setup.store)?;
        let values = self.setup.data.make_values();
        let mut recorder = stage.record(workload, &opened, self.describe(), "an empty store")?;
        let workers = self.workers(&*opened.engine, &values);
        let worked = recorder.run(&*opened.engine, &self.setup.pace, workers)?;
        after(&mut recorder, &*opened.engine, worked)?;
        stage.finish(opened, recorder)
    }
}

impl Workload for MixOptions {
    const THREADS: &'static str = "4";

    fn name(&self) -> &'static str {
        self.mix.name
    }

    fn setup(&mut self) -> &mut Setup {
        &mut self.setup
    }

    fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.known_keys) {
            return Err(format!("a share of {} known keys: expected 0 to 1", self.known_keys));
        }
        self.setup.data.check()
    }

    fn describe(&self) -> Described {
        describe(self)
    }

    /// Runs the mix over an empty store.
    fn run(&self, stage: &Stage<'_>) -> Outcome<Summary> {
        self.run_as(stage, self.mix.name, |_, _, _| Ok(()))
    }
}

struct MixWorker<'e> {
    caller: Caller<'e>,
    random: Random,
    mix: Mix,
    known_keys: f64,
    telling_deletes: bool,
    thread: u64,
    puts: u64,
}

impl MixWorker<'_> {
    #[inline]
    fn draw_key(&mut self) -> u64 {
        if self.puts > 0 && self.random.unit() < self.known_keys {
            let i = self.random.below(self.puts);
            self.caller.keys().draw(self.thread, i)
        } else {
            self.random.below(self.caller.keys().space())
        }
    }
}

impl Worker for MixWorker<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        match self.mix.draw(&mut self.random) {
            OpKind::Put => {
                let number = self.caller.keys().draw(self.thread, self.puts);
                self.caller.put(number, 0, meter)?;
                self.puts += 1;
            }
            OpKind::Delete => {
                let number = self.draw_key();
                self.caller.delete(number, self.telling_deletes, meter)?;
            }
            _ => {
                let number = self.draw_key();
                self.caller.get(number, meter)?;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NoopEngine;
    use crate::options::{Length, Pace};
    use crate::run::work;
    use crate::workload::DataOptions;
    use std::collections::HashMap;
    use std::sync::Mutex;
    use std::time::Duration;

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

    fn options(mix: Mix, operations: u64) -> MixOptions {
        let pace = Pace {
            threads: 2,
            length: Length::Operations(operations),
            interval: Duration::from_secs(3600),
            ..Pace::default()
        };
        let data = DataOptions { value_bytes: 100, ..DataOptions::default() };
        MixOptions { setup: Setup { pace, data, ..Setup::default() }, ..MixOptions::new(mix) }
    }

    fn counts(engine: &dyn Engine, options: &MixOptions) -> Outcome<(HashMap<OpKind, u64>, u64)> {
        let values = options.setup.data.make_values();
        let mut seen = (HashMap::new(), 0);
        work(&options.setup.pace, options.workers(engine, &values), &mut |_, ledger| {
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
            let (counts, _) = counts(&engine, &options(mix, 100_000)).unwrap();
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
            let options = MixOptions { known_keys, ..options(Mix::PUT_HEAVY, 100_000) };
            let (counts, found) = counts(&MapEngine::default(), &options).unwrap();
            let share = found as f64 / counts[&OpKind::Get] as f64;
            assert!((least..=most).contains(&share), "{known_keys}: {share}");
        }
    }

    #[test]
    fn a_wrong_value_ends_the_run() {
        let engine = MapEngine { damages: true, ..MapEngine::default() };
        let failed = counts(&engine, &options(Mix::BALANCED, 10_000)).unwrap_err().to_string();
        assert!(failed.contains("wrong value: a get of key"), "{failed}");
    }

    #[test]
    fn a_seed_gives_the_same_operations_again() {
        let run = || {
            let engine = MapEngine::default();
            let mut options = options(Mix::DELETE_HEAVY, 5000);
            options.setup.pace.threads = 1;
            counts(&engine, &options).unwrap();
            let map = engine.map.into_inner().unwrap();
            let mut map: Vec<_> = map.into_iter().collect();
            map.sort();
            map
        };
        let first = run();
        assert!(first.len() > 100);
        assert!(first == run());
    }

    #[test]
    fn shares_beyond_one_are_refused() {
        let options = MixOptions { known_keys: 1.5, ..MixOptions::new(Mix::BALANCED) };
        assert!(options.check().unwrap_err().contains("expected 0 to 1"));
    }
}
