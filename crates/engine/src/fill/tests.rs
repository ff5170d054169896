//! Fills beside writers: an index that was created late agrees with its documents.

use super::*;
use crate::hold::tests::{Plan, all, check, commit, entry, index, open, restarted};
use crate::stories::world::World;
use crate::{Batch, Effect, Engine, ErrorKind, Keyspace, Wait};
use flagstone_base::Moment;
use flagstone_base::key::KeyRange;
use flagstone_env::{Effect as DiskEffect, Executor, Failure, Fault, Lane, Progress, SeededRandom};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Ranges of keys that are filled one after another.
const RANGES: u8 = 3;

fn range(number: u8) -> KeyRange {
    let bound = |number: u8| match number {
        RANGES => vec![b'z'],
        _ => vec![b'k', number * 14],
    };
    crate::owned_range(&(bound(number)..bound(number + 1)))
}

/// The entries of the documents of a range, in their order.
fn entries(
    fill: &Fill,
    kv: &Keyspace,
    range: KeyRange,
) -> Result<BTreeMap<Vec<u8>, Option<Moment>>> {
    let mut scan = fill.snapshot().scan(kv, range)?;
    let mut entries = BTreeMap::new();
    while scan.advance()? {
        let expiry = fill.snapshot().find(kv, scan.key())?.lives_until();
        entries.insert(entry(&scan.value(), scan.key()), expiry);
    }
    Ok(entries)
}

/// Fills a range, and notes that. `between` runs after each step.
fn fill(
    (db, kv, owned): (&Engine, &Keyspace, &Keyspace),
    number: u8,
    mut between: impl FnMut(),
) -> Result<SeqNo> {
    let fill = db.begin_fill(owned)?;
    between();
    let mut ingest = fill.ingest()?;
    for (key, expiry) in entries(&fill, kv, range(number))? {
        ingest.put(&key, b"", expiry)?;
    }
    between();
    ingest.finish()?;
    between();
    db.set_note(owned, &[number + 1])?;
    Ok(fill.seqno())
}

/// What is left of a fill, by its note.
fn fill_rest(db: &Engine, kv: &Keyspace, owned: &Keyspace) -> Result<()> {
    let done = owned.note().first().copied().unwrap_or_default();
    (done..RANGES).try_for_each(|number| fill((db, kv, owned), number, || ()).map(drop))
}

fn written(world: &World, seed: u64, steps: usize) -> Plan {
    let (db, kv) = open(world);
    let plan = Plan { random: SeededRandom::new(seed), db, kv };
    // Plain writes: nothing is owned yet.
    for n in 0..60_u8 {
        plan.kv.put([b'k', n % 40], [b'a' + n % 5]).unwrap();
    }
    for _ in 0..steps {
        plan.step(world).unwrap();
    }
    plan
}

#[test]
fn a_filled_index_agrees_with_its_documents_whatever_is_written_meanwhile() {
    for seed in 0..12 {
        let world = World::new();
        let plan = written(&world, seed, 20);
        let (db, kv) = (&plan.db, &plan.kv);
        let owned = index(db, kv, "late");
        let mut usable_from = SeqNo::ZERO;
        for number in 0..RANGES {
            let between = || {
                for _ in 0..plan.below(12) {
                    plan.step(&world).unwrap();
                }
                if plan.below(3) == 0 {
                    db.compact().unwrap();
                }
                world.steps.run_all();
            };
            usable_from = fill((db, kv, &owned), number, between).unwrap();
        }
        let snapshot = db.snapshot();
        assert!(snapshot.seqno() >= usable_from);
        check(kv, std::slice::from_ref(&owned));
        let then = all(&owned);
        for _ in 0..30 {
            plan.step(&world).unwrap();
            world.steps.run_all();
        }
        db.compact().unwrap();
        check(kv, std::slice::from_ref(&owned));
        db.verify().unwrap();
        let mut scan = snapshot.scan(&owned, KeyRange::ALL).unwrap();
        let mut seen = BTreeMap::new();
        while scan.advance().unwrap() {
            seen.insert(scan.key().to_vec(), scan.value().to_vec());
        }
        assert_eq!(seen, then, "a reader of that time sees what it saw");
    }
}

fn put(db: &Engine, owned: &Keyspace, key: &str, value: &str) {
    let mut batch = Batch::default();
    batch.put(owned, key, value).unwrap();
    db.start(&batch, db.options().durability, Wait::Yes).unwrap().wait().unwrap();
}

/// Without the floor the newer entries went down, and the ingested table above them hid them; or
/// their tombstones were dropped at the bottom.
#[test]
fn newer_entries_win_over_an_ingest_below_them_however_they_are_compacted() {
    let world = World::new();
    let (db, kv) = open(&world);
    let owned = index(&db, &kv, "late");
    let keys = ["before", "deleted", "expired", "ranged/1", "replaced"];
    put(&db, &owned, "before", "same");
    let filling = db.begin_fill(&owned).unwrap();
    owned.delete("deleted").unwrap();
    put(&db, &owned, "replaced", "new");
    let expiry = db.now().after(Duration::from_secs(5));
    owned.write_one(Effect::put(Some(expiry)), b"expired", b"x").unwrap();
    owned.delete_range("ranged/".."ranged0").unwrap();
    world.clock.advance(Duration::from_secs(60));
    for round in 0..20 {
        put(&db, &owned, &format!("other {round}"), "");
        db.flush().unwrap();
        world.steps.run_all();
    }
    db.compact().unwrap();
    world.steps.run_all();
    let mut ingest = filling.ingest().unwrap();
    keys.iter().for_each(|key| ingest.put(key.as_bytes(), b"same", None).unwrap());
    let report = ingest.finish().unwrap();
    assert!(report.seqno <= filling.seqno() && report.entries == 5);
    let state = || keys.map(|key| owned.get(key).unwrap().map(|value| value.to_vec()));
    let expected = [Some(&b"same"[..]), None, None, None, Some(b"new")].map(|v| v.map(Vec::from));
    assert_eq!(state(), expected);
    db.verify().unwrap();
    drop(filling);
    for _ in 0..3 {
        db.compact().unwrap();
        world.steps.run_all();
        assert_eq!(state(), expected);
    }
    db.verify().unwrap();
    let stats = db.stats();
    let levels = &stats.keyspaces.iter().find(|stats| stats.info.name == "late").unwrap().levels;
    assert_eq!(
        levels.iter().map(|level| (level.deletes, level.level)).collect::<Vec<_>>(),
        [(0, 6)]
    );
}

/// The entries have the SeqNo of the floor, which is in the cut, though their documents are not.
#[test]
fn a_checkpoint_has_no_entries_of_documents_that_came_after_it() {
    let world = World::new();
    let (db, kv) = open(&world);
    kv.put("k1", "old").unwrap();
    let owned = index(&db, &kv, "late");
    let floor = Arc::new(Floor::set(kv.handle(), owned.core()).unwrap().0);
    let mut begun = Some((db.clone(), kv.clone(), floor));
    // The first step of the checkpoint, which has sealed the memtables by then.
    let job = move || {
        if let Some((db, kv, floor)) = begun.take() {
            let mut batch = Batch::default();
            batch.put(&kv, "k2", "new").unwrap();
            commit(&db, batch).unwrap();
            let filling = Fill { floor, snapshot: Snapshot::new(kv.handle()) };
            let mut ingest = filling.ingest().unwrap();
            for (key, expiry) in entries(&filling, &kv, KeyRange::ALL).unwrap() {
                ingest.put(&key, b"", expiry).unwrap();
            }
            ingest.finish().unwrap();
        }
        Progress::Done
    };
    db.keyspace("other").unwrap().put("a", "1").unwrap();
    world.steps.submit(Lane::Flush, Box::new(job));
    db.checkpoint("copy").unwrap();
    // With other background work: a close ends that of its executor.
    let copy = World::on(world.disk.clone()).builder_at("copy").open().unwrap();
    let kv = copy.keyspace("kv").unwrap();
    let documents: Vec<_> = all(&kv).iter().map(|(key, value)| entry(value, key)).collect();
    for key in all(&copy.owned(&kv)[0]).keys() {
        assert!(documents.contains(key), "{} is of no document", key.escape_ascii());
    }
}

/// Else a unique value could be given twice: the one who looks after the ingest for values that two
/// documents have does not see the write either.
#[test]
fn an_ingest_ends_after_the_writers_that_did_not_see_its_entries() {
    let world = World::new();
    let (db, kv) = open(&world);
    let owned = index(&db, &kv, "late");
    let mut ingest = db.begin_fill(&owned).unwrap().ingest().unwrap();
    ingest.put(b"value", b"first", None).unwrap();
    let has_ended = AtomicBool::new(false);
    let mut batch = Batch::default();
    batch.put(&kv, "k", "v").unwrap();
    std::thread::scope(|scope| {
        let (ticket, ()) = db
            .hold(batch)
            .commit(|held| {
                held.lock_also(&[(Arc::clone(&owned), b"value".to_vec())]);
                assert!(held.get(&owned, b"value")?.value.is_none());
                scope.spawn(|| {
                    ingest.finish().unwrap();
                    has_ended.store(true, Ordering::SeqCst);
                });
                while owned.get("value")?.is_none() {
                    std::thread::yield_now();
                }
                (0..10_000).for_each(|_| std::thread::yield_now());
                assert!(!has_ended.load(Ordering::SeqCst), "this write is not visible yet");
                held.push(&owned, Effect::put(None), b"value", b"second")
            })
            .unwrap();
        ticket.unwrap().wait().unwrap();
    });
    assert_eq!(owned.get("value").unwrap().as_deref(), Some(&b"second"[..]));
}

#[test]
fn a_keyspace_has_one_fill_at_a_time_and_an_owner() {
    let world = World::new();
    let (db, kv) = open(&world);
    let owned = index(&db, &kv, "late");
    let refused = |keyspace: &Keyspace| db.begin_fill(keyspace).err().unwrap().kind();
    assert_eq!(refused(&kv), ErrorKind::InvalidInput);
    let filling = db.begin_fill(&owned).unwrap();
    assert_eq!(refused(&owned), ErrorKind::Busy);
    let ingest = filling.ingest().unwrap();
    drop(filling);
    assert_eq!(refused(&owned), ErrorKind::Busy, "its ingest goes on");
    assert!(owned.is_filling());
    drop(ingest);
    assert!(!owned.is_filling());
    let mut ingest = db.begin_fill(&owned).unwrap().ingest().unwrap();
    ingest.put(b"a", b"", None).unwrap();
    assert!(db.drop_owned(&kv, |one| one.name() == "late").unwrap());
    let refused = ingest.finish().unwrap_err();
    assert!(refused.to_string().contains("was dropped"), "{refused}");
}

#[test]
fn a_fill_that_a_crash_ends_is_resumed_and_loses_nothing() {
    for at in (1..).step_by(2) {
        let world = World::new();
        let plan = written(&world, at, 10);
        let owned = index(&plan.db, &plan.kv, "late");
        world.faults.cut_power_at(at);
        let mut filled = Ok(());
        for number in 0..RANGES {
            let between = || (0..2).for_each(|_| drop(plan.step(&world)));
            filled =
                filled.and_then(|()| fill((&plan.db, &plan.kv, &owned), number, between).map(drop));
        }
        let is_off = world.faults.is_off();
        for disk in [world.disk.kill(), world.disk.crash(at), world.disk.crash_losing_unsynced()] {
            let after = restarted(&world, disk);
            let db = after.open();
            let kv = db.keyspace("kv").unwrap();
            let owned = db.owned(&kv).remove(0);
            let mut batch = Batch::default();
            batch.put(&kv, b"k\0", "after").unwrap();
            commit(&db, batch).unwrap();
            fill_rest(&db, &kv, &owned).unwrap();
            db.compact().unwrap();
            check(&kv, &[owned]);
            db.verify().unwrap();
        }
        if !is_off {
            assert!(filled.is_ok() && at > 20, "{at}: {filled:?}");
            return;
        }
    }
}

#[test]
fn a_fill_that_the_disk_refuses_can_be_done_again() {
    for effect in [DiskEffect::Fail(Failure::Io), DiskEffect::FailAfter(Failure::NoSpace)] {
        for at in (1..).step_by(3) {
            let world = World::new();
            let plan = written(&world, at, 10);
            let (db, kv) = (&plan.db, &plan.kv);
            let owned = index(db, kv, "late");
            world.faults.inject(Fault::new(effect).nth(at));
            let first = (0..RANGES).try_for_each(|number| {
                fill((db, kv, &owned), number, || drop(plan.step(&world))).map(drop)
            });
            let hits = world.faults.hits();
            world.faults.heal();
            let again = fill_rest(db, kv, &owned);
            match &again {
                Ok(()) => {
                    db.compact().unwrap();
                    check(kv, std::slice::from_ref(&owned));
                    db.verify().unwrap();
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Poisoned, "at {at}"),
            }
            let after = restarted(&world, world.disk.crash(at));
            let db = after.open();
            let kv = db.keyspace("kv").unwrap();
            let owned = db.owned(&kv).remove(0);
            fill_rest(&db, &kv, &owned).unwrap();
            check(&kv, &[owned]);
            if hits == 0 {
                assert!(first.is_ok() && at > 20, "at {at}: {first:?}");
                break;
            }
        }
    }
}

/// A write that came between the two was newer than the floor, so it hid what was ingested there,
/// and no newer than the snapshot, so who compared that with later writes did not see it either.
#[test]
fn no_write_comes_between_the_floor_of_a_fill_and_its_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let db = crate::testing::open(dir.path()).unwrap();
    let kv = db.keyspace("kv").unwrap();
    let owned = index(&db, &kv, "late");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                put(&db, &owned, "entry", "");
            }
        });
        let between = (0..300).find_map(|_| {
            let filling = db.begin_fill(&owned).unwrap();
            let found = filling.snapshot().get_stored(&owned, b"entry").unwrap().seqno;
            found.filter(|seqno| *seqno > filling.floor.seqno())
        });
        is_done.store(true, Ordering::SeqCst);
        writer.join().unwrap();
        assert_eq!(between, None);
    });
}
