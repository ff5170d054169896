//! Bugs of flushes, compactions and the tables that they leave.

use super::world::{World, keyspace};
use crate::background::{schedule, seal_all};
use crate::{Batch, Durability, ErrorKind, Event, Ticket, Wait};
use flagstone_env::names::FileKind;
use flagstone_env::{Effect, Failure, Fault, Lane, Op, Random, SeededRandom};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Holds for the tables of a flush and for those of a database that is opened again.
#[test]
fn tables_are_opened_for_direct_reads_only_where_they_are_asked_for() {
    for direct in [false, true] {
        let world = World::new();
        let builder = || world.builder().direct_reads(direct);
        let opened = || world.disk.counts().of(Op::OpenDirect);
        let db = builder().open().unwrap();
        keyspace(&db, "a").put("k", "1").unwrap();
        db.flush().unwrap();
        let flushed = opened();
        db.close().unwrap();
        let db = builder().open().unwrap();
        assert_eq!(keyspace(&db, "a").get("k").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!((flushed, opened()), if direct { (1, 2) } else { (0, 0) });
    }
}

/// An open read the sample of each table of a tree with garbage before it returned.
#[test]
fn an_open_leaves_the_search_for_garbage_to_the_background() {
    let world = World::new();
    let db = world.open();
    let random = SeededRandom::new(7);
    let noise = || (0..125).flat_map(|_| random.next_u64().to_le_bytes()).collect::<Vec<u8>>();
    for _ in 0..2 {
        (0..800_u32).for_each(|n| keyspace(&db, "a").put(n.to_be_bytes(), noise()).unwrap());
        db.flush().unwrap();
    }
    let next = world.killed();
    let db = next.open();
    let kv = keyspace(&db, "a");
    let live = || kv.handle().parts().upkeep.core.work.lock().spaces.live();
    assert_eq!(live(), 0);
    next.steps.run_all();
    assert!((600_000..1_200_000).contains(&live()), "{}", live());
}

/// A flush that failed in its second tree left the tables of the first on the full disk. Each
/// attempt wrote them again, under other names.
#[test]
fn a_flush_that_fails_leaves_no_tables() {
    let world = World::new();
    let db = world.open();
    let random = SeededRandom::new(7);
    let noise: Vec<u8> = (0..12_500).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    for name in ["a", "b"] {
        keyspace(&db, name).put("k", &noise).unwrap();
    }
    let tables = || world.files().iter().filter(|name| name.ends_with(".sst")).count();
    // Only one fits.
    world.faults.set_room(Some(150_000));
    for _ in 0..3 {
        assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert_eq!(tables(), 0, "{:?}", world.files());
    }
    world.faults.set_room(None);
    db.flush().unwrap();
    assert_eq!(tables(), 2);
}

/// Tables whose edit the manifest refused blocked the next attempt until a later edit ended the
/// doubt, which needed the space that they took.
#[test]
fn tables_of_an_edit_that_the_manifest_refused_do_not_stay() {
    let world = World::new();
    let db = world.open();
    keyspace(&db, "a").put("k", vec![7; 1000]).unwrap();
    let refused = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append, Op::Create]);
    world.faults.inject(refused.clone().of(FileKind::Manifest));
    world.faults.inject(refused.of(FileKind::Manifest).nth(2));
    assert!(db.flush().is_err());
    assert_eq!(world.files().iter().filter(|name| name.ends_with(".sst")).count(), 0);
    db.flush().unwrap();
    assert_eq!(keyspace(&db, "a").get("k").unwrap().unwrap(), vec![7; 1000]);
}

/// A database that was closed with compactions still to do started them each time it was opened for
/// reading only.
#[test]
fn a_database_open_for_reading_only_compacts_nothing() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    for i in 0..6_u32 {
        kv.put("same", i.to_be_bytes()).unwrap();
        kv.put(i.to_be_bytes(), "x").unwrap();
        let upkeep = &kv.handle().parts().upkeep;
        seal_all(upkeep);
        schedule(upkeep);
        while world.steps.step(Lane::Flush) {}
    }
    let next = world.killed();
    let files = next.files();
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let listener = move |event: &Event| {
        let is_start = matches!(event, Event::CompactionStarted { .. });
        count.fetch_add(usize::from(is_start), Ordering::Relaxed);
    };
    let db = next.builder().listener(listener).open_read_only().unwrap();
    next.steps.run_all();
    assert_eq!(started.load(Ordering::Relaxed), 0);
    assert_eq!(db.keyspace("a").unwrap().count().unwrap(), 7);
    db.close().unwrap();
    assert_eq!(next.files(), files);
}

/// The flush of one group also took the memtables of the next, if they were sealed by then. So one
/// half of an unlogged batch was installed before the other, and a crash between them tore it.
#[test]
fn a_crash_between_two_groups_keeps_unlogged_batches_whole() {
    let world = World::new();
    let db = world.open();
    let (a, b) = (keyspace(&db, "a"), keyspace(&db, "b"));
    // Half of the memtables' share: `a` is sealed, and its flush waits to be stepped.
    a.put("large 1", vec![1; 600 << 10]).unwrap();
    a.put("large 2", vec![2; 600 << 10]).unwrap();
    let mut batch = Batch::default();
    batch.put(&a, "k", "1").unwrap();
    batch.put(&b, "k", "1").unwrap();
    db.commit_with(batch, Durability::None).unwrap();
    let upkeep = &a.handle().parts().upkeep;
    seal_all(upkeep);
    assert_eq!(upkeep.core.work.lock().flushes.sealed, 2);
    while upkeep.core.work.lock().flushes.installed == 0 {
        assert!(world.steps.step(Lane::Flush));
    }
    let next = world.killed();
    let db = next.open();
    let found = ["a", "b"].map(|name| keyspace(&db, name).get("k").unwrap().is_some());
    assert_eq!(found[0], found[1]);
}

/// Writers that were stopped by too many runs waited forever while every compaction failed.
#[test]
fn writers_that_wait_for_compactions_learn_why_these_fail() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    let upkeep = &kv.handle().parts().upkeep;
    let mut runs = 0_u32;
    loop {
        let mut batch = Batch::default();
        batch.put(&kv, "a", "x").unwrap();
        batch.put(&kv, "z", runs.to_be_bytes()).unwrap();
        if db.start(&batch, Durability::Buffered, Wait::No).and_then(Ticket::wait).is_err() {
            break;
        }
        seal_all(upkeep);
        schedule(upkeep);
        while world.steps.step(Lane::Flush) {}
        if runs == 10 {
            // The first compaction moves one table and writes none.
            assert!(world.steps.step(Lane::Compaction));
        }
        runs += 1;
    }
    let broken = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Create]).of(FileKind::Table);
    world.faults.inject(broken.forever());
    let error = kv.put("b", "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    world.faults.heal();
    kv.put("b", "x").unwrap();
}

/// One partition is flushed seldom, however fast it is written. Its writers counted as idle a
/// second after each flush, and its tables were compacted all the time. Only scans call for that.
#[test]
fn writers_that_are_seldom_flushed_are_not_idle_and_scans_get_few_runs() {
    let world = World::new();
    let db = world.builder().memory_budget(64 << 20).open().unwrap();
    let kv = keyspace(&db, "a");
    let upkeep = &kv.handle().parts().upkeep;
    let runs = || kv.core().trees()[0].pressure(flagstone_tree::Policy::Leveling).l0_runs;
    let step_all = || {
        (0..100).for_each(|_| {
            world.steps.ring_timer();
            world.steps.step(Lane::Flush);
            world.steps.step(Lane::Compaction);
        });
    };
    for i in 0..8_u8 {
        ["a", "m", "z"].into_iter().for_each(|key| kv.put(key, [i]).unwrap());
        seal_all(upkeep);
        kv.put("m", "keeps the tree busy").unwrap();
        schedule(upkeep);
        while upkeep.core.work.is_flush_pending() {
            world.steps.step(Lane::Flush);
        }
    }
    let before = runs();
    assert!(before >= 6, "{before} runs");
    let write = |second: u8| {
        (0..50_u8).for_each(|n| kv.put([second, n], [7; 60_000]).unwrap());
        world.clock.advance(Duration::from_secs(1));
        step_all();
    };
    (0..2).for_each(write);
    assert_eq!(runs(), before);
    // Reads are sampled, with seeds of their own.
    for _ in 0..20_000 {
        assert!(kv.scan("a"..).advance().unwrap());
    }
    (2..4).for_each(write);
    assert!(runs() < 4, "{} runs", runs());
}

/// While writers work, the runs of a tree wait in its first level; when writers are idle, the tree
/// is compacted. A compaction of a tree that was not out of shape was never requested, so tables of
/// ordered keys stayed.
#[test]
fn a_tree_is_compacted_when_its_writers_are_idle() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    let upkeep = &kv.handle().parts().upkeep;
    let runs = || kv.core().trees()[0].pressure(flagstone_tree::Policy::Leveling).l0_runs;
    for i in 0..8_u8 {
        for key in ["a", "m", "z"] {
            kv.put(key, [i]).unwrap();
        }
        seal_all(upkeep);
        kv.put("m", "keeps the tree busy").unwrap();
        schedule(upkeep);
        for _ in 0..10 {
            while world.steps.step(Lane::Flush) && upkeep.core.work.is_flush_pending() {}
            world.steps.step(Lane::Compaction);
        }
    }
    assert!(runs() >= 6, "{} runs", runs());
    for _ in 0..3 {
        world.clock.advance(Duration::from_secs(2));
        (0..100).for_each(|_| {
            world.steps.ring_timer();
            world.steps.step(Lane::Flush);
            world.steps.step(Lane::Compaction);
        });
    }
    assert!(runs() < 4, "{} runs", runs());
    assert_eq!(kv.get("z").unwrap().as_deref(), Some(&[7][..]));
}
