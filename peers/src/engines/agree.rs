//! Tests that every engine, in every variant, behaves as a `BTreeMap` does.

use super::{Choice, KINDS};
use flagstone::Durability;
use flagstone_bench::engine::Engine;
use flagstone_bench::options::{Isolation, StoreOptions};
use flagstone_bench::workload::{Random, random};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// A stream of pseudo-random numbers.
struct Dice(Random);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:016}", self.below(400) * 7_919).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 100, 1024, 9000][self.below(5) as usize];
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let seed = std::env::var("FLAGSTONE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
        println!("FLAGSTONE_SEED={seed}");
        seed
    })
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = name.replace([':', '+'], "-");
        let dir = std::env::temp_dir().join(format!("peers-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Self(dir)
    }

    fn options(&self, durability: Durability) -> StoreOptions {
        StoreOptions {
            dir: self.0.clone(),
            memory_bytes: 16 << 20,
            partitions: 2,
            durability,
            ..StoreOptions::default()
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn check(engine: &dyn Engine, model: &BTreeMap<Vec<u8>, Vec<u8>>, dice: &mut Dice, what: &str) {
    let key = dice.key();
    let mut found = None;
    let there = engine.get(&key, &mut |value| found = Some(value.to_vec())).unwrap();
    assert_eq!(there, found.is_some(), "{what}");
    assert_eq!(found.as_ref(), model.get(&key), "{what}: get");
    let (from, limit) = (dice.key(), dice.below(60) as usize);
    let mut entries = Vec::new();
    let mut each = |key: &[u8], value: &[u8]| entries.push((key.to_vec(), value.to_vec()));
    let count = engine.scan(&from, limit, &mut each).unwrap();
    let expected: Vec<_> =
        model.range(from..).take(limit).map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(count, expected.len(), "{what}: scan");
    assert!(entries == expected, "{what}: scan");
}

fn agrees(choice: &Choice, durability: Durability, ops: u64) {
    let what = format!("{choice} {durability:?}");
    let place = Place::new(&format!("{choice}-{durability:?}").replace([' ', '(', ')'], ""));
    let options = place.options(durability);
    let mut dice = Dice(random(seed(), 0));
    let mut model = BTreeMap::new();
    let mut engine = choice.open(&options, false).unwrap();
    assert!(!engine.version().contains("unknown"), "{what}: {}", engine.version());
    assert!(choice.to_string() == "flagstone" || !engine.tuning().is_empty(), "{what}");
    for op in 0..ops {
        match dice.below(100) {
            0 => engine.flush().unwrap(),
            1 if op % 3 == 0 => engine.compact().unwrap(),
            2 if op % 3 == 0 => {
                engine.close().unwrap();
                engine = choice.open(&options, false).unwrap();
            }
            3..40 => {
                let (key, value) = (dice.key(), dice.value());
                engine.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            40..60 => {
                let key = dice.key();
                engine.delete(&key).unwrap();
                model.remove(&key);
            }
            _ => check(&*engine, &model, &mut dice, &what),
        }
    }
    engine.gauges();
    engine.close().unwrap();
    let engine = choice.open(&options, false).unwrap();
    for _ in 0..50 {
        check(&*engine, &model, &mut dice, &what);
    }
    engine.close().unwrap();
}

fn variants(kind: usize) -> Vec<Choice> {
    let name = KINDS[kind].name;
    let plain = name.parse().unwrap();
    let parsed = KINDS[kind].variants.iter().map(|(v, _)| format!("{name}:{v}").parse().unwrap());
    std::iter::once(plain).chain(parsed).collect()
}

#[test]
fn every_engine_in_every_variant_is_the_map_that_was_written() {
    for kind in 0..KINDS.len() {
        for choice in variants(kind) {
            agrees(&choice, Durability::Buffered, 1000);
        }
    }
}

#[test]
fn every_engine_is_the_same_map_under_every_durability() {
    let interval = Durability::Interval(Duration::from_millis(20));
    for durability in [Durability::None, interval, Durability::Group, Durability::Each] {
        for kind in 0..KINDS.len() {
            agrees(&variants(kind)[0], durability, 300);
        }
    }
}

#[test]
fn writers_of_many_threads_lose_nothing() {
    for kind in 0..KINDS.len() {
        let choice = &variants(kind)[0];
        let place = Place::new(&format!("{choice}-threads"));
        let options = place.options(Durability::Buffered);
        let engine = choice.open(&options, false).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let engine = &engine;
                scope.spawn(move || {
                    for i in 0..300u32 {
                        let key = format!("{thread}-{i:08}").into_bytes();
                        engine.put(&key, &i.to_le_bytes()).unwrap();
                        let mut same = false;
                        engine.get(&key, &mut |value| same = value == i.to_le_bytes()).unwrap();
                        assert!(same, "{choice}: a thread reads what it wrote");
                    }
                });
            }
        });
        let count = engine.scan(b"", usize::MAX, &mut |_, _| {}).unwrap();
        assert_eq!(count, 8 * 300, "{choice}");
        engine.close().unwrap();
    }
}

/// Adds 1 to the number at `key`, in a transaction.
fn add_one(engine: &dyn Engine, isolation: Isolation, key: &[u8]) -> u64 {
    let mut number = 0;
    let tries = engine.transact(isolation, &mut |transaction| {
        number = 0;
        transaction.get(key, &mut |value| {
            number = u64::from_le_bytes(value.try_into().unwrap());
        })?;
        number += 1;
        transaction.put(key, &number.to_le_bytes())?;
        let mut own = 0;
        transaction.get(key, &mut |value| {
            own = u64::from_le_bytes(value.try_into().unwrap());
        })?;
        assert_eq!(own, number, "a transaction reads what it wrote");
        Ok(())
    });
    assert!(tries.unwrap() > 0);
    number
}

#[test]
fn transactions_of_many_threads_lose_no_update() {
    for kind in KINDS.iter().filter(|kind| ["flagstone", "rocksdb", "redb"].contains(&kind.name)) {
        let choice: Choice = kind.name.parse().unwrap();
        for isolation in [Isolation::Snapshot, Isolation::Serializable] {
            let place = Place::new(&format!("{choice}-transactions-{isolation:?}"));
            let options =
                StoreOptions { transactions: true, ..place.options(Durability::Buffered) };
            let engine = choice.open(&options, false).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    let engine = &*engine;
                    scope.spawn(move || {
                        for n in 0..100 {
                            add_one(engine, isolation, [&b"a"[..], b"b"][n % 2]);
                        }
                    });
                }
            });
            assert_eq!(add_one(&*engine, isolation, b"a"), 201, "{choice} {isolation:?}");
            assert_eq!(add_one(&*engine, isolation, b"b"), 201, "{choice} {isolation:?}");
            engine.put(b"plain", b"1").unwrap();
            assert_eq!(engine.scan(b"", 10, &mut |_, _| {}).unwrap(), 3);
            engine.close().unwrap();
        }
    }
}

#[test]
fn an_engine_or_variant_that_does_not_exist_is_refused() {
    assert!("mongodb".parse::<Choice>().is_err());
    assert!("fjall:blobs".parse::<Choice>().is_ok());
    assert!("fjall:universal".parse::<Choice>().is_err());
    assert_eq!("lmdb:writemap".parse::<Choice>().unwrap().to_string(), "lmdb:writemap");
}
