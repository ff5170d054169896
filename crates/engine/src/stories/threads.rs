//! Bugs of threads that wait for one another, panic, or close the database at work.

use super::world::{World, keyspace};
use crate::background::{compact_trees, flush_all, schedule};
use crate::testing::Builder;
use crate::{Batch, Durability, Engine, ErrorKind, Event, Keyspace, KeyspaceOptions, Routing};
use flagstone_base::key::KeyRange;
use flagstone_env::{Effect, Failure, Fault, Op};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A flush or a full compaction that waited while another thread closed the database waited for
/// jobs that had been dropped.
#[test]
fn nobody_waits_for_jobs_that_a_close_has_dropped() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    kv.put("1", "1").unwrap();
    let upkeep = Arc::clone(&kv.handle().parts().upkeep);
    let tree = Arc::clone(&upkeep.core.keyspaces.all_trees()[0]);
    upkeep.core.work.lock().compacting.insert(tree.id());
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append, Op::Create]);
    world.faults.inject(full.forever());
    kv.put("2", "2").unwrap_err();
    db.close().unwrap_err();
    assert_eq!(flush_all(&upkeep).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(
        compact_trees(&upkeep, vec![tree], &mut |_| ControlFlow::Continue(())).unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(keyspace(&world.killed().open(), "a").count().unwrap(), 1);
}

/// A fold that panicked in the background took the flush with it, and writers waited forever.
#[test]
fn a_panic_in_a_background_job_poisons_instead_of_leaving_waiters() {
    let world = World::new();
    let db = world.open();
    let options = KeyspaceOptions::new().fold("panics/1");
    let kv = db.keyspace_with("a", options).unwrap();
    kv.put("k", "1").unwrap();
    kv.merge("k", "2").unwrap();
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(kv.put("k", "3").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Poisoned);
}

/// A panic in a full compaction unwound out of the call, or was an error after which writes
/// continued.
#[test]
fn a_panic_in_a_full_compaction_poisons_whoever_works_on_it() {
    let world = World::new();
    let panics = Arc::new(AtomicUsize::new(0));
    let listener = {
        let panics = Arc::clone(&panics);
        move |event: &Event| {
            if matches!(event, Event::CompactionStarted { .. }) {
                panics.fetch_add(1, Ordering::Relaxed);
                panic!("a listener of the user's");
            }
        }
    };
    let db = world.builder().listener(listener).open().unwrap();
    let options = KeyspaceOptions::new().routing(Routing::Hash(4));
    let kv = db.keyspace_with("a", options).unwrap();
    for value in ["1", "2"] {
        (0..100_u8).for_each(|key| kv.put([key], value).unwrap());
        db.flush().unwrap();
    }
    assert_eq!(db.compact().unwrap_err().kind(), ErrorKind::Poisoned);
    assert!(panics.load(Ordering::Relaxed) > 0);
    assert_eq!(kv.put("k", "3").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(kv.get([7_u8]).unwrap().as_deref(), Some(&b"2"[..]));
}

/// Every stopped writer that checked for work notified all the others, which then checked and
/// notified, too. They used up the processor time that the flush needed.
#[test]
fn stopped_writers_do_not_wake_one_another() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    let upkeep = &kv.handle().parts().upkeep;
    let generation = upkeep.core.health.writers.generation();
    schedule(upkeep);
    assert_eq!(upkeep.core.health.writers.generation(), generation);
}

/// Returns whether a call failed because the database was closed. It may also find its keyspace
/// dropped.
fn is_closed(error: &crate::Error) -> bool {
    assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::InvalidInput), "{error}");
    error.kind() == ErrorKind::Closed
}

/// Writes pairs under mixed durabilities until the database is closed; `salt` varies the values.
fn write_pairs(db: &Engine, [left, right]: &[Keyspace; 2], thread: u64, salt: u64) {
    for i in 0_u64.. {
        let mut batch = Batch::default();
        let key = (i % 97).to_be_bytes();
        let value = vec![(salt + thread + i) as u8; 200 + (i % 3000) as usize];
        batch.put(left, key, &value).unwrap();
        batch.put(right, key, &value).unwrap();
        let durability = match (thread + i) % 5 {
            0 => Durability::Group,
            1 => Durability::None,
            _ => Durability::Buffered,
        };
        if db.commit_with(batch, durability).is_err_and(|error| is_closed(&error)) {
            return;
        }
    }
}

/// Reads pairs until the database is closed: both halves are equal in every snapshot.
fn read_pairs(db: &Engine, [left, right]: &[Keyspace; 2]) {
    for i in 0_u64.. {
        let snapshot = db.snapshot();
        let key = (i % 97).to_be_bytes();
        match (snapshot.get(left, key), snapshot.get(right, key)) {
            (Ok(a), Ok(b)) => assert_eq!(a, b),
            _ => return,
        }
    }
}

/// Creates and drops a keyspace, flushes and compacts until the database is closed.
fn create_and_drop(db: &Engine) {
    for i in 0_u64.. {
        let done = db.keyspace("comes and goes").and_then(|kv| {
            kv.put(i.to_be_bytes(), [0; 500])?;
            if i % 3 == 0 {
                db.drop_keyspace("comes and goes")?;
            }
            if i % 7 == 0 { db.flush() } else { Ok(()) }?;
            if i % 11 == 0 { db.compact() } else { Ok(()) }
        });
        if done.is_err_and(|error| is_closed(&error)) {
            return;
        }
    }
}

/// Everything at once, on threads: writers of pairs under mixed durabilities, readers that must see
/// both halves, a keyspace that is created and dropped, flushes, compactions, and a close in the
/// middle.
#[test]
fn pairs_stay_whole_while_everything_happens_at_once_and_a_close_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Builder::at(dir.path()).memory_budget(1 << 20).open().unwrap();
    let pair = |db: &Engine| [keyspace(db, "left"), keyspace(db, "right")];
    for round in 0..3_u64 {
        let db = open();
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (writer, pair) = (db.clone(), pair(&db));
                scope.spawn(move || write_pairs(&writer, &pair, thread, round));
            }
            let (reader, pair) = (db.clone(), pair(&db));
            scope.spawn(move || read_pairs(&reader, &pair));
            let other = db.clone();
            scope.spawn(move || create_and_drop(&other));
            let visible = db.stats().visible_seqno;
            while db.stats().visible_seqno < visible + 6_000 {
                std::thread::yield_now();
            }
            db.close().unwrap();
        });
        let db = open();
        let [left, right] = pair(&db);
        assert!(
            left.scan_range(KeyRange::ALL)
                .map(Result::unwrap)
                .eq(right.scan_range(KeyRange::ALL).map(Result::unwrap))
        );
        assert_eq!(left.count().unwrap(), 97);
        db.verify().unwrap();
    }
}
