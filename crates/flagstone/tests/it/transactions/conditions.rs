//! Conditions of transactions: a key is as expected in what the transaction sees, and stays so
//! until its commit.

use crate::support::{hashed, open, small};
use flagstone::{
    ErrorKind, Expect, Expires, Index, Isolation, Result, Space, Transaction, TransactionOptions,
    VersionToken, doc,
};
use flagstone_testkit::{Rng, Session, World};
use std::time::Duration;

const ISOLATIONS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

fn begin(session: &Session, isolation: Isolation) -> Transaction {
    TransactionOptions::new().isolation(isolation).begin(&session.db).unwrap()
}

fn kind<T>(done: Result<T>) -> Option<ErrorKind> {
    done.err().map(|error| error.kind())
}

#[test]
fn a_key_that_is_not_as_expected_is_a_conflict_at_once() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let users = session.db.collection("users").unwrap();
    users.create_index("by_n", Index::on("n").unique()).unwrap();
    let before = session.db.snapshot().version();
    kv.put("a", "1").unwrap();
    users.put("a", doc!({ "n": 1 })).unwrap();
    let bytes = kv.get_versioned("a").unwrap().unwrap().0;
    let document = users.get_versioned("a").unwrap().unwrap().0;
    let since = session.db.snapshot().version();
    for isolation in ISOLATIONS {
        let mut tx = begin(&session, isolation);
        let conflicts = [
            tx.expect(&kv, "a", Expect::Absent),
            tx.expect(&kv, "a", Expect::Version(document)),
            tx.expect(&kv, "b", Expect::Version(bytes)),
            tx.expect(&kv, "a", Expect::UnchangedSince(before)),
            tx.expect(&users, "a", Expect::Absent),
            tx.expect(&users, "a", Expect::Version(bytes)),
            tx.expect(&users, "a", Expect::UnchangedSince(before)),
        ];
        for refused in conflicts {
            assert_eq!(kind(refused), Some(ErrorKind::Conflict));
        }
        let text = tx.expect(&kv, "a", Expect::Absent).unwrap_err().to_string();
        assert!(text.contains("key a of keyspace \"kv\" is at"), "{text}");
        assert!(text.contains("expected to be absent"), "{text}");
        assert_eq!(kind(tx.expect(&kv, "", Expect::Absent)), Some(ErrorKind::InvalidInput));
        // After a refusal the transaction is as before.
        tx.expect(&kv, "b", Expect::Absent).unwrap();
        tx.expect(&kv, "a", Expect::Version(bytes)).unwrap();
        tx.expect(&users, "a", Expect::Version(document)).unwrap();
        tx.expect(&users, "a", Expect::UnchangedSince(since)).unwrap();
        tx.put(&users, "b", doc!({ "n": 2 })).unwrap();
        tx.commit().unwrap();
        users.delete("b").unwrap();
    }
    let elsewhere = open(&World::new(2), &small()).db.keyspace("kv").unwrap();
    let refused = begin(&session, Isolation::Snapshot).expect(&elsewhere, "a", Expect::Absent);
    assert_eq!(kind(refused), Some(ErrorKind::InvalidInput));
}

#[test]
fn an_expected_key_is_guarded_until_the_commit() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let log = session.db.keyspace("log").unwrap();
    kv.put("there", "1").unwrap();
    for isolation in ISOLATIONS {
        for round in 0..6 {
            let (key, expected) = match round % 3 {
                0 => ("missing", Expect::Absent),
                1 => ("there", Expect::Version(kv.get_versioned("there").unwrap().unwrap().0)),
                _ => ("missing", Expect::UnchangedSince(session.db.snapshot().version())),
            };
            let is_disturbed = round < 3;
            let mut tx = begin(&session, isolation);
            tx.expect(&kv, key, expected).unwrap();
            tx.put(&log, "decided", key).unwrap();
            if is_disturbed {
                // A write that leaves the key as it was is a write.
                let value = kv.get(key).unwrap();
                kv.put(key, "2").unwrap();
                match value {
                    Some(value) => kv.put(key, value).unwrap(),
                    None => kv.delete(key).unwrap(),
                }
            }
            let conflict = is_disturbed.then_some(ErrorKind::Conflict);
            assert_eq!(kind(tx.commit()), conflict, "{isolation:?}, {expected:?}");
        }
    }
    // A snapshot transaction that only reads the key is not refused.
    let mut tx = begin(&session, Isolation::Snapshot);
    assert!(tx.get(&kv, "there").unwrap().is_some());
    tx.put(&log, "decided", "there").unwrap();
    kv.put("there", "3").unwrap();
    tx.commit().unwrap();
}

#[test]
fn what_the_transaction_has_written_is_neither_a_version_nor_unchanged() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let version = kv.get_versioned("a").unwrap().unwrap().0;
    for isolation in ISOLATIONS {
        let since = session.db.snapshot().version();
        let states = [Expect::Absent, Expect::Version(version), Expect::UnchangedSince(since)];
        let mut tx = begin(&session, isolation);
        tx.put(&kv, "a", "1").unwrap();
        for expected in states {
            let refused = tx.expect(&kv, "a", expected).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Conflict);
            assert!(refused.to_string().contains("by the transaction"), "{refused}");
        }
        tx.delete(&kv, "a").unwrap();
        tx.expect(&kv, "a", Expect::Absent).unwrap();
        assert_eq!(kind(tx.expect(&kv, "a", states[1])), Some(ErrorKind::Conflict));
        drop(tx);
        // Its own write after the condition is no other commit.
        let mut tx = begin(&session, isolation);
        tx.expect(&kv, "b", Expect::Absent).unwrap();
        tx.put(&kv, "b", "1").unwrap();
        tx.commit().unwrap();
        kv.delete("b").unwrap();
    }
}

#[test]
fn a_refused_condition_ends_the_closure_and_a_later_conflict_runs_it_again() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let log = session.db.keyspace("log").unwrap();
    // A version that is newer than the snapshot is one that the transaction does not see.
    let mut tx = session.db.begin().unwrap();
    kv.put("a", "1").unwrap();
    let version = kv.get_versioned("a").unwrap().unwrap().0;
    assert_eq!(kind(tx.expect(&kv, "a", Expect::Version(version))), Some(ErrorKind::Conflict));
    let mut runs = 0;
    let refused = session.db.transaction(|tx| {
        runs += 1;
        tx.expect(&kv, "a", Expect::Absent)
    });
    assert_eq!((kind(refused), runs), (Some(ErrorKind::Conflict), 1));
    let mut runs = 0;
    let done = session.db.transaction(|tx| {
        runs += 1;
        tx.expect(&kv, "a", Expect::Version(version))?;
        tx.expect(&kv, "c", Expect::Absent)?;
        tx.put(&log, "runs", runs.to_string())?;
        if runs == 1 {
            // By another thread, since this one is inside a closure.
            let write = || kv.put("c", "1").and_then(|()| kv.delete("c"));
            std::thread::scope(|threads| threads.spawn(write).join().unwrap())?;
        }
        Ok::<(), flagstone::Error>(())
    });
    done.unwrap();
    assert_eq!(log.get("runs").unwrap().as_deref(), Some(b"2".as_slice()));
}

/// A condition means the same in a batch and in a transaction.
#[test]
fn a_transaction_without_neighbours_refuses_what_a_batch_would() {
    let world = World::new(7);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let mut rng = Rng::new(7);
    let (mut tokens, mut outcomes): (Vec<VersionToken>, _) = (Vec::new(), [0, 0]);
    for n in 0..1500_u32 {
        let key = [b'a' + rng.below(6) as u8];
        match rng.below(14) {
            0..3 => kv.put(key, n.to_be_bytes()).unwrap(),
            3 => {
                let soon = session.db.now().after(Duration::from_millis(rng.below(3)));
                kv.put(key, "".expires(soon)).unwrap();
            }
            4 | 5 => kv.delete(key).unwrap(),
            6 => kv.delete_range(key..[b'd']).unwrap(),
            7 => session.db.flush().unwrap(),
            8 => session.db.compact().unwrap(),
            9 => tokens.push(session.db.snapshot().version()),
            10 => world.clock.advance(Duration::from_millis(1)),
            11 => tokens.extend(kv.get_versioned(key).unwrap().map(|(version, _)| version)),
            _ => {}
        }
        let token = tokens.get(rng.below(tokens.len().max(1) as u64) as usize).copied();
        let expected = match (rng.below(3), token) {
            (1, Some(token)) => Expect::Version(token),
            (2, Some(token)) => Expect::UnchangedSince(token),
            _ => Expect::Absent,
        };
        let mut batch = session.db.batch();
        batch.expect(&kv, key, expected).unwrap();
        let by_batch = kind(session.db.commit(batch));
        for isolation in ISOLATIONS {
            let mut tx = begin(&session, isolation);
            let expect = tx.expect(&kv, key, expected);
            tx.put(&kv, "z", "1").unwrap();
            assert_eq!(kind(expect.and_then(|()| tx.commit())), by_batch, "{n}: {expected:?}");
        }
        outcomes[usize::from(by_batch.is_some())] += 1;
    }
    assert!(outcomes.iter().all(|times| *times > 200), "{outcomes:?}");
}
