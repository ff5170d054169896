//! Readers: snapshots and long scans while everything moves below them; folds.

use crate::support::{folding, hashed, number, open, owned, small, threaded};
use flagstone::{Keyspace, Scan, Snapshot, Space};
use flagstone_testkit::{Rng, Session, World, seed};
use std::sync::atomic::{AtomicBool, Ordering};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn all(snapshot: &Snapshot, kv: &Keyspace, reverse: bool) -> Entries {
    let scan = snapshot.scan(kv, ..);
    let scan = if reverse { scan.rev() } else { scan };
    let mut entries: Entries =
        scan.map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
    if reverse {
        entries.reverse();
    }
    entries
}

/// Overwrites, deletes and adds, then flushes or compacts.
fn stir(session: &Session, kv: &Keyspace, rng: &mut Rng, upkeep: u64) {
    for _ in 0..150 {
        let key = rng.below(300).to_be_bytes();
        match rng.below(10) {
            0..=5 => {
                let len = rng.index(400);
                kv.put(key, rng.bytes(len)).unwrap();
            }
            6..=8 => kv.delete(key).unwrap(),
            _ => kv.delete_range(key.to_vec()..(rng.below(300)).to_be_bytes().to_vec()).unwrap(),
        }
    }
    match upkeep % 3 {
        0 => session.db.flush().unwrap(),
        1 => session.db.compact().unwrap(),
        _ => session.settle(),
    }
}

/// A reader sees one moment: a snapshot shows the same for as long as it is held.
#[test]
fn a_snapshot_does_not_change_through_flushes_and_compactions() {
    let seed = seed("a_snapshot_does_not_change_through_flushes_and_compactions", 1);
    let world = World::new(seed);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(3)).keyspace().unwrap();
    let mut rng = Rng::new(seed);
    let mut held: Vec<(Snapshot, Entries)> = Vec::new();
    for round in 0..24 {
        stir(&session, &kv, &mut rng, round);
        let snapshot = session.db.snapshot();
        let entries = all(&snapshot, &kv, false);
        held.push((snapshot, entries));
        if held.len() > 6 {
            held.remove(rng.index(held.len()));
        }
        for (snapshot, entries) in &held {
            assert_eq!(&all(snapshot, &kv, round % 2 == 0), entries, "round {round}");
            let (key, value) = rng.pick(entries);
            assert_eq!(owned(snapshot.get(&kv, key).unwrap()).as_ref(), Some(value));
        }
    }
}

/// A reader sees one moment: also a scan that continues, both ways, while memtables are flushed and
/// tables compacted under it.
#[test]
fn a_long_scan_shows_one_moment_while_everything_moves_below_it() {
    let seed = seed("a_long_scan_shows_one_moment_while_everything_moves_below_it", 2);
    for reverse in [false, true] {
        let world = World::new(seed);
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(hashed(3)).keyspace().unwrap();
        let mut rng = Rng::new(seed);
        (0..3).for_each(|round| stir(&session, &kv, &mut rng, round));
        let expected = all(&session.db.snapshot(), &kv, false);
        let scan = if reverse { kv.scan(..).rev() } else { kv.scan(..) };
        let mut found: Entries = Vec::new();
        let mut upkeep = 0;
        for entry in scan {
            let (key, value) = entry.unwrap();
            found.push((key.to_vec(), value.to_vec()));
            if found.len().is_multiple_of(8) {
                stir(&session, &kv, &mut rng, upkeep);
                upkeep += 1;
            }
        }
        if reverse {
            found.reverse();
        }
        assert!(upkeep > 3);
        assert_eq!(found, expected);
    }
}

/// Resources are bounded: a scan pins no memtable and no dropped table once it has moved on, or
/// while it is parked.
#[test]
fn a_scan_that_moves_on_or_is_parked_pins_no_memory() {
    let world = World::new(3);
    let session = open(&world, &small().memory_budget(4 << 20));
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let fill = || (0..500_u32).for_each(|n| kv.put(n.to_be_bytes(), [7; 1000]).unwrap());
    fill();
    let mut scan = kv.scan(..);
    assert!(scan.advance().unwrap());
    let before = session.db.stats().memtable_bytes;
    for _ in 0..8 {
        session.db.flush().unwrap();
        fill();
        assert!(scan.advance().unwrap());
    }
    let after = session.db.stats().memtable_bytes;
    assert!(after < before * 3, "{before} bytes of memtables became {after}");
    session.db.compact().unwrap();
    assert!(scan.advance().unwrap());
    let (key, value) = (scan.key().to_vec(), scan.value().to_vec());
    scan.park();
    assert_eq!((scan.key(), scan.value_bytes()), (&key[..], &value[..]));
    fill();
    session.db.compact().unwrap();
    session.settle();
    let files = world.files().iter().filter(|name| name.ends_with(".sst")).count();
    assert_eq!(files as u64, session.db.stats().tables());
    let next = scan.next().unwrap().unwrap();
    assert_eq!(next.0.to_vec(), 10_u32.to_be_bytes());
}

/// Resources are bounded: a scan that is not read gives up what it holds: a thousand of them hold
/// no more than a few.
#[test]
fn scans_that_wait_share_one_allowance() {
    let world = World::new(6);
    let session = open(&world, &small().memory_budget(8 << 20));
    let kv = session.db.space("kv").options(hashed(16)).keyspace().unwrap();
    let value = |n: u32| vec![n as u8; 1000];
    (0..6000_u32).for_each(|n| kv.put(n.to_be_bytes(), value(n)).unwrap());
    session.db.flush().unwrap();
    let mut waiting: Vec<(Scan<'static, Keyspace>, u32)> = Vec::new();
    for n in 0..400_u32 {
        let at = n * 7 + 1000;
        let mut scan = match n % 2 {
            0 => kv.scan(at.to_be_bytes()..),
            _ => kv.scan(..=at.to_be_bytes()).rev(),
        };
        assert!(scan.advance().unwrap());
        assert_eq!(scan.key(), at.to_be_bytes());
        waiting.push((scan, at));
        let report = session.db.stats().cache;
        assert!(report.scan_bytes <= report.scan_bytes_max * 5 / 2, "{n} wait: {report:?}");
    }
    assert!(session.db.stats().cache.scan_bytes > 0);
    for round in 1..4 {
        for (n, (scan, at)) in waiting.iter_mut().enumerate() {
            assert_eq!(scan.value_bytes(), value(scan_place(n, *at, round - 1)));
            assert!(scan.advance().unwrap());
            assert_eq!(scan.key(), scan_place(n, *at, round).to_be_bytes());
            assert_eq!(scan.value(), value(scan_place(n, *at, round)));
        }
    }
    drop(waiting);
    assert_eq!(session.db.stats().cache.scan_bytes, 0, "all was given back");
}

/// Returns the place of scan number `n`, begun at `at`, after `steps` steps.
fn scan_place(n: usize, at: u32, steps: u32) -> u32 {
    if n.is_multiple_of(2) { at + steps } else { at - steps }
}

/// A reader sees one moment: what a scan that waits holds is taken when memtables are flushed and
/// tables compacted; a value that its caller has a reference to stays where it is.
#[test]
fn a_scan_that_waits_loses_its_memtables_and_keeps_what_it_lent() {
    let world = World::new(7);
    let session = open(&world, &small().memory_budget(16 << 20));
    for (values, partitions) in [(100, 1), (100, 4), (9_000, 1), (9_000, 4)] {
        let name = format!("{values} {partitions}");
        let kv = session.db.space(&name).options(hashed(partitions)).keyspace().unwrap();
        let value = |n: u32, version: u8| vec![n as u8 ^ version; values];
        let fill = |version: u8| {
            (0..200_u32).for_each(|n| kv.put(n.to_be_bytes(), value(n, version)).unwrap());
        };
        fill(1);
        let mut scans: Vec<(Scan<'static, Keyspace>, u32)> = [false, true]
            .map(|back| {
                let mut scan = if back { kv.scan(..).rev() } else { kv.scan(..) };
                assert!(scan.advance().unwrap());
                (scan, if back { 199 } else { 0 })
            })
            .into();
        for version in 2..8 {
            // The first round lends out of a memtable, the others out of blocks.
            let lent: Vec<&[u8]> = scans.iter().map(|(scan, _)| scan.value_bytes()).collect();
            fill(version);
            session.db.flush().unwrap();
            if version % 2 == 0 {
                session.db.compact().unwrap();
            }
            session.settle();
            let files = world.files().iter().filter(|name| name.ends_with(".sst")).count();
            assert_eq!(files as u64, session.db.stats().tables(), "no scan holds a table");
            for ((scan, at), lent) in scans.iter().zip(lent) {
                assert_eq!((lent, scan.value_bytes()), (&value(*at, 1)[..], lent));
                assert_eq!(scan.key(), at.to_be_bytes());
                assert_eq!(scan.value(), lent);
            }
            for (scan, at) in &mut scans {
                assert!(scan.advance().unwrap());
                *at = if *at < 100 { *at + 1 } else { *at - 1 };
                assert_eq!(scan.key(), at.to_be_bytes());
            }
        }
    }
}

/// A scan merges partitions by the fronts of their keys; where these are the same, whole keys
/// decide.
#[test]
fn a_scan_merges_any_number_of_partitions_both_ways() {
    let world = World::new(9);
    let session = open(&world, &small());
    let mut keys: Vec<Vec<u8>> = (0..=300).map(|n: u32| n.to_be_bytes().repeat(2)).collect();
    for front in [vec![0; 8], vec![0xff; 8], b"the same".to_vec()] {
        // The fronts of keys that are short, and of partitions that have ended, are among these.
        keys.extend((1..8).map(|len| front[..len].to_vec()));
        keys.extend((0..20).map(|n| [&front[..], &[n]].concat()));
    }
    keys.sort_unstable();
    keys.dedup();
    for partitions in 1..=9 {
        let kv = session
            .db
            .space(&format!("{partitions}"))
            .options(hashed(partitions))
            .keyspace()
            .unwrap();
        keys.iter().for_each(|key| kv.put(key, key.repeat(20)).unwrap());
        let snapshot = session.db.snapshot();
        for back in [false, true] {
            let found = all(&snapshot, &kv, back);
            assert!(found.iter().map(|(key, _)| key).eq(&keys), "{partitions}, back: {back}");
            assert!(found.iter().all(|(key, value)| *value == key.repeat(20)));
        }
        // One partition goes on alone when the others have ended.
        let (last, rest) = keys.split_last().unwrap();
        rest.iter().for_each(|key| kv.delete(key).unwrap());
        assert_eq!(all(&session.db.snapshot(), &kv, false), [(last.clone(), last.repeat(20))]);
    }
}

/// Resources are bounded: of documents of megabytes a scan holds few at once, however many
/// partitions and runs it merges.
#[test]
fn a_scan_over_huge_values_holds_few_of_them() {
    let world = World::new(8);
    let session = open(&world, &small().memory_budget(64 << 20));
    let kv = session.db.space("kv").options(hashed(8)).keyspace().unwrap();
    let value = |n: u32| [n.to_be_bytes().repeat(500_000), vec![7; n as usize]].concat();
    for run in 0..4 {
        (0..24_u32)
            .filter(|n| n % 4 == run)
            .for_each(|n| kv.put(n.to_be_bytes(), value(n)).unwrap());
        session.db.flush().unwrap();
    }
    for back in [false, true] {
        let mut scan = if back { kv.scan(..).rev() } else { kv.scan(..) };
        for n in 0..24_u32 {
            let n = if back { 23 - n } else { n };
            assert!(scan.advance().unwrap());
            assert_eq!(scan.key(), n.to_be_bytes());
            assert!(scan.value_bytes() == value(n), "value {n}");
            let held = session.db.stats().cache.scan_bytes;
            assert!(held < 5 << 20, "{held} bytes in blocks at {n}");
        }
        assert!(!scan.advance().unwrap());
    }
}

/// Scans that threads read, by turns with rests, while others take from them what they hold.
#[test]
fn scans_show_the_same_while_their_memory_is_taken() {
    let seed = seed("scans_show_the_same_while_their_memory_is_taken", 5);
    let world = World::new(seed);
    let db = threaded(&world, small());
    let kv = db.space("kv").options(hashed(4)).keyspace().unwrap();
    let mut rng = Rng::new(seed);
    (0..500_u32).for_each(|n| kv.put(n.to_be_bytes(), rng.bytes(200)).unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (kv, db, done) = (&kv, &db, &done);
        let readers: Vec<_> = (0..3)
            .map(|thread| {
                scope.spawn(move || {
                    let mut rng = Rng::new(seed + thread);
                    for _ in 0..6 {
                        let snapshot = db.snapshot();
                        let expected = all(&snapshot, kv, false);
                        let mut scan = snapshot.scan(kv, ..);
                        for (key, value) in &expected {
                            assert!(scan.advance().unwrap());
                            let lent = scan.value_bytes();
                            if rng.percent(10) {
                                std::thread::yield_now();
                            }
                            assert_eq!((scan.key(), lent), (&key[..], &value[..]));
                            assert_eq!(scan.value(), value[..]);
                        }
                        assert!(!scan.advance().unwrap());
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            let mut rng = Rng::new(seed + 9);
            while !done.load(Ordering::Relaxed) {
                (0..50).for_each(|_| {
                    let key = rng.below(500) as u32;
                    kv.put(key.to_be_bytes(), rng.bytes(300)).unwrap();
                });
                db.flush().unwrap();
            }
        });
        let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|reader| reader.unwrap());
    });
}

/// A reader sees one moment: with threads that write, flush and compact as fast as they can, a
/// snapshot shows what it showed at first.
#[test]
fn snapshots_stay_as_they_are_among_threads() {
    let seed = seed("snapshots_stay_as_they_are_among_threads", 4);
    let world = World::new(seed);
    let db = threaded(&world, small());
    let kv = db.space("kv").options(hashed(3)).keyspace().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (kv, done) = (&kv, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(seed + thread);
                while !done.load(Ordering::Relaxed) {
                    let key = rng.below(200).to_be_bytes();
                    let len = rng.index(300);
                    let value = rng.bytes(len);
                    if rng.percent(70) { kv.put(key, value) } else { kv.delete(key) }.unwrap();
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.flush().unwrap();
                db.compact().unwrap();
            }
        });
        for round in 0..flagstone_testkit::rounds(40, 1000) {
            let snapshot = db.snapshot();
            let first = all(&snapshot, &kv, false);
            assert_eq!(all(&snapshot, &kv, true), first, "round {round}");
            for (key, value) in first.iter().step_by(7) {
                assert_eq!(owned(snapshot.get(&kv, key).unwrap()).as_ref(), Some(value));
            }
            std::thread::yield_now();
            assert_eq!(all(&snapshot, &kv, false), first, "round {round}");
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// A reader sees one moment: operands are not combined across a snapshot.
#[test]
fn operands_are_not_combined_across_a_snapshot() {
    let world = World::new(5);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let mut held = Vec::new();
    for n in 1..=40_i64 {
        kv.merge("sum", n.to_le_bytes()).unwrap();
        if n % 4 == 0 {
            held.push((session.db.snapshot(), n * (n + 1) / 2));
        }
        match n % 10 {
            3 => session.db.flush().unwrap(),
            7 => session.db.compact().unwrap(),
            _ => {}
        }
        for (snapshot, sum) in &held {
            assert_eq!(number(snapshot.get(&kv, "sum").unwrap()), *sum);
        }
        assert_eq!(number(kv.get("sum").unwrap()), n * (n + 1) / 2);
        if n % 16 == 0 {
            held.remove(0);
        }
    }
}

/// A fold is total: an operand that does not apply changes nothing, wherever it is folded.
#[test]
fn an_operand_that_does_not_apply_changes_nothing() {
    let world = World::new(6);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(2, "add-i64/1")).keyspace().unwrap();
    let one = 1_i64.to_le_bytes();
    kv.put("text", "not a number").unwrap();
    for upkeep in 0..3 {
        kv.merge("text", one).unwrap();
        kv.merge("number", one).unwrap();
        kv.merge("number", "junk").unwrap();
        match upkeep {
            0 => {}
            1 => session.db.flush().unwrap(),
            _ => session.db.compact().unwrap(),
        }
        assert_eq!(kv.get("text").unwrap().as_deref(), Some(b"not a number".as_slice()));
        assert_eq!(number(kv.get("number").unwrap()), upkeep + 1);
    }
    kv.delete("number").unwrap();
    kv.merge("number", one).unwrap();
    session.db.compact().unwrap();
    assert_eq!(number(kv.get("number").unwrap()), 1);
}

/// A fold is total: a key with many operands stays right while gets make the next write fold it.
#[test]
fn a_key_with_thousands_of_operands_stays_right() {
    let world = World::new(7);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(1, "append/1")).keyspace().unwrap();
    let mut expected = Vec::new();
    for n in 0..3000_u64 {
        let operand = [n as u8, (n >> 8) as u8];
        kv.merge("list", operand).unwrap();
        expected.extend_from_slice(&operand);
        if n % 50 == 0 {
            assert_eq!(owned(kv.get("list").unwrap()).as_ref(), Some(&expected));
        }
        if n % 700 == 0 {
            session.db.flush().unwrap();
        }
    }
    assert_eq!(owned(kv.get("list").unwrap()), Some(expected.clone()));
    let after = world.after_kill(1);
    let again = open(&after, &small());
    assert_eq!(owned(again.db.keyspace("kv").unwrap().get("list").unwrap()), Some(expected));
}
