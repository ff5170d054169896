//! Scans of transactions: own writes over the snapshot, in both directions, against a plain map.

use crate::support::{folding, open, small};
use flagstone::{ErrorKind, Keyspace, KeyspaceOptions, Prefix, Routing, Slice, Space, Transaction};
use flagstone_testkit::{Rng, Table, World, dump, rounds, seed};
use std::ops::{Bound, RangeBounds};

const KEYS: u64 = 40;

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("k{:02}", rng.below(KEYS)).into_bytes()
}

fn bounds(rng: &mut Rng) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut bound = || match rng.below(4) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    };
    (bound(), bound())
}

fn is_in(key: &[u8], range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
    range.contains(&key.to_vec())
}

fn append(model: &mut Table, key: Vec<u8>, operand: &[u8]) {
    model.entry(key).or_default().extend_from_slice(operand);
}

/// Writes something, in the transaction and in the model.
fn change(tx: &mut Transaction, kv: &Keyspace, model: &mut Table, rng: &mut Rng) {
    let (at, value) = (key(rng), rng.number().to_le_bytes());
    match rng.below(10) {
        0..=3 => {
            tx.put(kv, &at, value).unwrap();
            model.insert(at, value.to_vec());
        }
        4..=5 => {
            tx.delete(kv, &at).unwrap();
            model.remove(&at);
        }
        6..=8 => {
            tx.merge(kv, &at, &value[..3]).unwrap();
            append(model, at, &value[..3]);
        }
        _ => {
            let range = bounds(rng);
            tx.delete_range(kv, range.clone()).unwrap();
            model.retain(|key, _| !is_in(key, &range));
        }
    }
}

fn check(tx: &Transaction, kv: &Keyspace, model: &Table, rng: &mut Rng) {
    let range = bounds(rng);
    let is_reverse = rng.percent(50);
    let scan = tx.scan(kv, range.clone());
    let scan = if is_reverse { scan.rev() } else { scan };
    let found: Vec<(Slice, Slice)> = scan.map(|entry| entry.unwrap()).collect();
    let mut expected: Vec<_> = model.iter().filter(|(key, _)| is_in(key, &range)).collect();
    if is_reverse {
        expected.reverse();
    }
    assert_eq!(found.len(), expected.len(), "{range:?}");
    for ((key, value), (expected_key, expected_value)) in found.iter().zip(expected) {
        assert_eq!((&key[..], &value[..]), (&expected_key[..], &expected_value[..]));
    }
    let key = key(rng);
    assert_eq!(tx.get(kv, &key).unwrap().as_deref(), model.get(&key).map(Vec::as_slice));
}

#[test]
fn a_transaction_is_a_map_of_its_snapshot_and_its_writes() {
    let seed = seed("a_transaction_is_a_map_of_its_snapshot_and_its_writes", 1);
    for round in 0..rounds(12, 2000) {
        let mut rng = Rng::new(seed + round);
        let world = World::new(seed + round);
        let session = open(&world, &small());
        let middle = b"k20".to_vec();
        let options = match round % 3 {
            0 => folding(3, "append/1"),
            1 => KeyspaceOptions::new().routing(Routing::Range(vec![middle])).fold("append/1"),
            _ => folding(1, "append/1"),
        };
        let kv = session.db.space("kv").options(options).keyspace().unwrap();
        for _ in 0..30 {
            kv.merge(key(&mut rng), "base").unwrap();
        }
        for _ in 0..4 {
            let mut model = dump(&kv).unwrap();
            let mut tx = session.db.begin().unwrap();
            let is_disturbed = rng.percent(30);
            if is_disturbed {
                for _ in 0..10 {
                    kv.put(key(&mut rng), "later").unwrap();
                }
            }
            let is_flushed = rng.percent(50);
            if is_flushed {
                session.db.flush().unwrap();
            }
            for _ in 0..rng.below(60) {
                change(&mut tx, &kv, &mut model, &mut rng);
                check(&tx, &kv, &model, &mut rng);
            }
            match tx.commit() {
                Ok(()) if !is_disturbed => assert_eq!(dump(&kv).unwrap(), model),
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    // A flush may have dropped something: then an absent key is a conflict, too.
                    assert!(is_disturbed || is_flushed, "{error}");
                }
            }
        }
    }
}

#[test]
fn a_prefix_and_single_steps_show_the_same_entries() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(2, "append/1")).keyspace().unwrap();
    for key in ["a1", "b1", "b2", "b4", "c1"] {
        kv.put(key, "s").unwrap();
    }
    let mut tx = session.db.begin().unwrap();
    tx.put(&kv, "b3", "own").unwrap();
    tx.delete(&kv, "b2").unwrap();
    tx.merge(&kv, "b4", "+").unwrap();
    let mut scan = tx.scan(&kv, Prefix("b"));
    let mut seen = Vec::new();
    while scan.advance().unwrap() {
        assert_eq!(scan.value(), scan.value_bytes());
        seen.push((scan.key().to_vec(), scan.value().to_vec()));
    }
    assert!(!scan.advance().unwrap() && scan.key().is_empty() && scan.value().is_empty());
    let expected = [("b1", "s"), ("b3", "own"), ("b4", "s+")];
    assert_eq!(seen, expected.map(|(key, value)| (key.into(), value.into())));
}
