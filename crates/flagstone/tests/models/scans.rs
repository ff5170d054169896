//! Scans that wait, and those who take from them what they hold.

use crate::commits::{hashed, options};
use crate::explore::{self, explore};
use flagstone::internal::env::BiasedOwner;
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::{Durability, Space};
use flagstone_testkit::World;

/// Both halves change together: whoever sees them apart came in while somebody was at them.
#[test]
fn an_owner_and_contenders_never_hold_the_lock_at_once() {
    explore("an_owner_and_contenders_never_hold_the_lock_at_once", || {
        let mut owned = BiasedOwner::new((0_u32, 0_u32));
        fn step(pair: &mut (u32, u32)) {
            assert_eq!(pair.0, pair.1);
            pair.0 += 1;
            thread::yield_now();
            pair.1 += 1;
        }
        let contenders: Vec<_> = (0..2)
            .map(|_| {
                let lock = owned.contender();
                thread::spawn(move || {
                    let Some(lock) = lock.upgrade() else { return 0 };
                    (0..2).filter_map(|_| lock.try_with(|access| step(access.value))).count() as u32
                })
            })
            .collect();
        for _ in 0..3 {
            owned.with_mut(step);
            owned.with(|pair| assert_eq!(pair.0, pair.1));
        }
        let locked: u32 = contenders.into_iter().map(|contender| contender.join().unwrap()).sum();
        owned.with(|pair| assert_eq!(*pair, (3 + locked, 3 + locked)));
    });
}

/// A flush takes from a scan what it holds, at any moment.
#[test]
fn a_scan_shows_the_same_beside_a_flush() {
    explore("a_scan_shows_the_same_beside_a_flush", || {
        let db = explore::open(&World::new(1), options(Durability::Buffered));
        let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
        // Short values are kept when the rest is given up, long ones are read again.
        let value = |n: u8| vec![n; if n.is_multiple_of(2) { 8 } else { 300 }];
        (0..4_u8).for_each(|n| kv.put([n], value(n)).unwrap());
        let mut scan = kv.scan(..);
        let flusher = {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || {
                (0..4_u8).for_each(|n| kv.put([n], "newer").unwrap());
                db.flush().unwrap();
            })
        };
        for n in 0..4_u8 {
            assert!(scan.advance().unwrap());
            let lent = scan.value_bytes();
            thread::yield_now();
            assert_eq!((scan.key(), lent), (&[n][..], &value(n)[..]));
            assert_eq!(scan.value(), value(n));
        }
        assert!(!scan.advance().unwrap());
        flusher.join().unwrap();
        drop(scan);
    });
}

/// Consumers take the first entry of a queue beside one who puts back what was taken. A scan that
/// remembers which keys are dead must see what was put among them, at whatever moment.
#[test]
fn what_is_put_back_into_a_queue_is_taken() {
    explore("what_is_put_back_into_a_queue_is_taken", || {
        let db = explore::open(&World::new(1), options(Durability::Buffered));
        let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
        (0..9_u8).for_each(|n| kv.put([n], "1").unwrap());
        let take = |kv: &flagstone::Keyspace| {
            let mut scan = kv.scan(..);
            let found = scan.advance().unwrap().then(|| scan.key()[0]);
            found.filter(|first| kv.remove([*first]).unwrap())
        };
        // As in a transaction: others write between the begin and the scan.
        let take_late = |db: &flagstone::Database, kv: &flagstone::Keyspace| {
            let snapshot = db.snapshot();
            thread::yield_now();
            let mut scan = snapshot.scan(kv, ..);
            let found = scan.advance().unwrap().then(|| scan.key()[0]);
            found.filter(|first| kv.remove([*first]).unwrap())
        };
        let consumer = {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || (0..10).filter_map(|_| take_late(&db, &kv)).count())
        };
        let flusher = thread::spawn({
            let db = db.clone();
            move || db.flush().unwrap()
        });
        let mut taken = (0..4).filter_map(|_| take(&kv)).count();
        for n in [3, 0_u8] {
            kv.put([n], "2").unwrap();
            let mut scan = kv.scan(..);
            let first = scan.advance().unwrap().then(|| scan.key()[0]);
            let is_there = kv.get([n]).unwrap().is_some();
            assert!(!is_there || first.is_some_and(|first| first <= n), "{n} behind {first:?}");
        }
        taken += consumer.join().unwrap();
        flusher.join().unwrap();
        while kv.scan(..).advance().unwrap() {
            taken += take(&kv).into_iter().count();
        }
        let left: Vec<u8> = (0..9_u8).filter(|n| kv.get([*n]).unwrap().is_some()).collect();
        assert!(left.is_empty() && (9..=11).contains(&taken), "{taken} taken, left {left:?}");
    });
}

/// A scan that is late records which keys are dead while the first entry of a fresh memtable comes
/// among them. The entry was counted only after the lock of the writers, and a memtable that counts
/// none is skipped: so the scan took the key for dead.
#[test]
fn the_first_entry_of_a_memtable_is_seen_by_a_late_scan() {
    explore("the_first_entry_of_a_memtable_is_seen_by_a_late_scan", || {
        let db = explore::open(&World::new(1), options(Durability::Buffered));
        let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
        (0..9_u8).for_each(|n| kv.put([n], "1").unwrap());
        // Keeps what is removed, so that the scan walks over it.
        let old = db.snapshot();
        (0..8_u8).for_each(|n| kv.delete([n]).unwrap());
        db.flush().unwrap();
        let snapshot = db.snapshot();
        let writer = thread::spawn({
            let kv = kv.clone();
            move || kv.put([3], "2").unwrap()
        });
        let mut scan = snapshot.scan(&kv, ..);
        assert!(scan.advance().unwrap());
        assert_eq!(scan.key(), [8]);
        drop(scan);
        writer.join().unwrap();
        let mut scan = kv.scan(..);
        assert!(scan.advance().unwrap());
        assert_eq!(scan.key(), [3]);
        drop(old);
    });
}
