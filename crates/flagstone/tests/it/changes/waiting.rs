//! Readers that wait for changes, beside writers.

use super::{keeping, kept, line};
use crate::support::threaded;
use flagstone::changes::{ChangesFrom, Happened};
use flagstone::{Durability, ErrorKind, Space};
use flagstone_testkit::World;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Would outlast the test.
const LONG: Duration = Duration::from_secs(600);

#[test]
fn a_reader_that_waits_has_the_log_synced() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
    for round in 0..4 {
        kv.put("a", round.to_string()).unwrap();
        let delivery = changes.wait(LONG).unwrap().unwrap();
        assert_eq!(line(&delivery), format!("kv put a={round}"));
    }
    let lost = world.after_power_cut(0);
    let session = kept(&lost);
    assert_eq!(session.db.keyspace("kv").unwrap().get("a").unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_wait_ends_after_its_time_without_a_change() {
    let world = World::new(1);
    let session = kept(&world);
    let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
    assert!(changes.wait(Duration::ZERO).unwrap().is_none());
    assert!(changes.wait(Duration::from_millis(2)).unwrap().is_none());
}

#[test]
fn a_wait_ends_when_the_database_is_closed() {
    let world = World::new(1);
    let db = threaded(&world, keeping());
    let mut changes = db.changes(ChangesFrom::Start).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || changes.wait(LONG).unwrap_err());
        db.close().unwrap();
        assert_eq!(waits.join().unwrap().kind(), ErrorKind::Closed);
    });
}

/// Each writer writes its own keys, in batches of two, with a durability of its own.
#[test]
fn readers_that_wait_get_everything_in_order_beside_writers() {
    const BATCHES: u64 = 150;
    let world = World::new(1);
    let db = threaded(&world, keeping());
    let (kv, filler) = (db.keyspace("kv").unwrap(), db.keyspace("filler").unwrap());
    let durabilities = [Durability::Buffered, Durability::Group, Durability::Each];
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u8)
            .map(|writer| {
                let (db, kv) = (&db, &kv);
                scope.spawn(move || {
                    for n in 0..BATCHES {
                        let mut batch = db.batch();
                        batch.put(kv, [writer, 0], n.to_be_bytes()).unwrap();
                        batch.put(kv, [writer, 1], n.to_be_bytes()).unwrap();
                        let durability = durabilities[usize::from(writer)];
                        db.commit(batch.durability(durability)).unwrap();
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut changes = db.changes(ChangesFrom::Start).unwrap().only(["kv"]);
                scope.spawn(move || {
                    let (mut next, mut last) = ([0_u64; 3], None);
                    while next != [BATCHES; 3] {
                        let delivery = changes.wait(LONG).unwrap().unwrap();
                        assert!(last < Some(delivery.token.seqno()));
                        last = Some(delivery.token.seqno());
                        let Happened::Commit(batch) = delivery.happened else { panic!() };
                        let found: Vec<_> = batch.changes().collect();
                        let [first, second] = found[..] else { panic!("{found:?}") };
                        let writer = usize::from(first.key_bytes()[0]);
                        let n = next[writer].to_be_bytes();
                        assert_eq!((first.value_bytes(), second.value_bytes()), (&n[..], &n[..]));
                        next[writer] += 1;
                    }
                })
            })
            .collect();
        // Segments are released and renamed meanwhile.
        let flusher = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                filler.put("a", vec![7; 200_000]).unwrap();
                db.flush().unwrap();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
        flusher.join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}
