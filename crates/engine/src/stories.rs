//! Regression tests for bugs that were found by reading the code. Each tells the story of its bug.

use crate::background::{compact_trees, flush_all, schedule, seal_all};
use crate::testing::Builder;
use crate::{
    Batch, Durability, Engine, Environment, ErrorKind, Event, Keyspace, KeyspaceOptions, Routing,
    Ticket,
};
use flagstone_base::key::KeyRange;
use flagstone_env::names::{FileKind, Name, parse};
use flagstone_env::{
    Disk, Effect, Failure, Fault, FaultDisk, Lane, ManualClock, MemDisk, Op, Random, SeededRandom,
    StepExecutor,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A database on a disk in memory. Its background work runs only when it is stepped.
struct World {
    disk: MemDisk,
    faults: FaultDisk,
    steps: Arc<StepExecutor>,
    clock: Arc<ManualClock>,
}

impl World {
    fn on(disk: MemDisk) -> Self {
        let faults = FaultDisk::new(Arc::new(disk.clone()));
        Self { disk, faults, steps: Arc::default(), clock: Arc::default() }
    }

    fn new() -> Self {
        let disk = MemDisk::default();
        disk.create_dir(Path::new("db")).unwrap();
        Self::on(disk)
    }

    fn builder(&self) -> crate::testing::Builder {
        let environment = Environment {
            disk: Arc::new(self.faults.clone()),
            clock: Arc::<ManualClock>::clone(&self.clock),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<StepExecutor>::clone(&self.steps)),
        };
        Builder::at("db").environment(environment).memory_budget(4 << 20)
    }

    fn open(&self) -> Engine {
        self.builder().open().unwrap()
    }

    /// The disk as it would be if the process died now.
    fn killed(&self) -> Self {
        Self::on(self.disk.kill())
    }

    fn files(&self) -> Vec<String> {
        let mut files = self.disk.list(Path::new("db")).unwrap();
        files.sort();
        files
    }
}

fn keyspace(db: &Engine, name: &str) -> Keyspace {
    let options = KeyspaceOptions::new().routing(Routing::Hash(1));
    db.keyspace_with(name, options).unwrap()
}

/// The SeqNos of a failed write are voided in the log. If the database was killed right then, the
/// next one continued from the last record that was a batch, and the log refused every write.
#[test]
fn a_failed_write_and_a_kill_leave_a_database_that_takes_writes() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    kv.put("before", "1").unwrap();
    let fault = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append]).of(FileKind::Wal);
    world.faults.inject(fault);
    assert_eq!(kv.put("failed", "1").unwrap_err().kind(), ErrorKind::OutOfSpace);
    let next = world.killed();
    let db = next.open();
    let kv = keyspace(&db, "a");
    kv.put("after", "1").unwrap();
    assert_eq!(kv.get("failed").unwrap(), None);
    assert_eq!(kv.count().unwrap(), 2);
}

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
    let live = || kv.handle().parts().upkeep.work.lock().spaces.live();
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
    let begun = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&begun);
    let listener = move |event: &Event| {
        let is_begin = matches!(event, Event::CompactionStarted { .. });
        heard.fetch_add(usize::from(is_begin), Ordering::Relaxed);
    };
    let db = next.builder().listener(listener).open_read_only().unwrap();
    next.steps.run_all();
    assert_eq!(begun.load(Ordering::Relaxed), 0);
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
    assert_eq!(upkeep.work.lock().flushes.sealed, 2);
    while upkeep.work.lock().flushes.installed == 0 {
        assert!(world.steps.step(Lane::Flush));
    }
    let next = world.killed();
    let db = next.open();
    let found = ["a", "b"].map(|name| keyspace(&db, name).get("k").unwrap().is_some());
    assert_eq!(found[0], found[1]);
}

/// A power cut can leave a segment that holds its header and no record. A flush before the first
/// write released it, but the segment of the first record named it as its predecessor: the database
/// could not be opened any more.
#[test]
fn a_segment_without_records_is_not_released_while_the_next_will_name_it() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    kv.put("1", "1").unwrap();
    db.flush().unwrap();
    let killed = world.killed();
    let wal = |name: &&String| matches!(parse(name), Name::Numbered(FileKind::Wal, _));
    let files = killed.files();
    let mut paths = files.iter().filter(wal).map(|name| Path::new("db").join(name));
    let path = paths.rfind(|path| !killed.disk.content(path).unwrap().is_empty()).unwrap();
    // Only the header was written.
    let bytes = killed.disk.content(&path).unwrap();
    let mut torn = bytes[..4608].to_vec();
    torn.resize(bytes.len(), 0);
    let header_only = World::on(killed.disk.clone());
    header_only.disk.put_content(&path, &torn);
    let db = header_only.open();
    let kv = keyspace(&db, "a");
    let mut batch = Batch::default();
    batch.put(&kv, "2", "2").unwrap();
    db.commit_with(batch, Durability::None).unwrap();
    db.flush().unwrap();
    kv.put("3", "3").unwrap();
    let db = header_only.killed().open();
    assert_eq!(keyspace(&db, "a").count().unwrap(), 3);
}

/// A timed sync that failed was the last one: once the disk had space again, commits were
/// acknowledged and never synced. An idle database was synced forever.
#[test]
fn timed_syncs_continue_after_a_full_disk_and_pause_when_nothing_is_new() {
    let world = World::new();
    let db = world.builder().durability(Durability::Interval(Duration::from_millis(5))).open();
    let db = db.unwrap();
    let kv = keyspace(&db, "a");
    let tick = || {
        assert!(world.steps.ring_timer());
        world.steps.run_all();
    };
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append]).of(FileKind::Wal);
    world.faults.inject(full.forever());
    kv.put("1", "1").unwrap_err();
    tick();
    world.faults.heal();
    kv.put("2", "2").unwrap();
    tick();
    assert_eq!(
        keyspace(&World::on(world.disk.crash_losing_unsynced()).open(), "a").count().unwrap(),
        1
    );
    let syncs = db.stats().wal_syncs;
    tick();
    assert_eq!(db.stats().wal_syncs, syncs);
}

/// A shorter interval waited for the timer of the longer one.
#[test]
fn a_shorter_interval_has_a_timer_of_its_own() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    for seconds in [3600, 1] {
        let mut batch = Batch::default();
        batch.put(&kv, "k", "v").unwrap();
        db.commit_with(batch, Durability::Interval(Duration::from_secs(seconds))).unwrap();
    }
    assert!(world.steps.ring_timer() && world.steps.ring_timer());
    world.steps.run_all();
    // The timer of the longer interval has ended.
    assert!(world.steps.ring_timer() && !world.steps.ring_timer());
}

/// A flush that had just been installed failed because a segment could not be removed.
#[test]
fn a_segment_that_cannot_be_removed_is_no_failure_of_the_flush() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    for i in 0..3_u32 {
        kv.put(i.to_be_bytes(), vec![0; 700 << 10]).unwrap();
    }
    let stuck = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Remove, Op::Rename]);
    world.faults.inject(stuck.of(FileKind::Wal).forever());
    db.flush().unwrap();
    assert!(world.faults.hits() > 0);
    let db = world.killed().open();
    assert_eq!(keyspace(&db, "a").count().unwrap(), 3);
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
        if db.start(&batch, Durability::Buffered, false).and_then(Ticket::wait).is_err() {
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

/// While writers work, the runs of a tree wait in its first level; when writers are idle, the tree
/// is compacted. A compaction of a tree that was not out of shape was never requested, so tables of
/// ordered keys stayed.
#[test]
fn a_tree_is_compacted_when_its_writers_are_idle() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    let upkeep = &kv.handle().parts().upkeep;
    let runs = || kv.core().trees[0].pressure(flagstone_tree::Policy::Leveling).l0_runs;
    for i in 0..8_u8 {
        for key in ["a", "m", "z"] {
            kv.put(key, [i]).unwrap();
        }
        seal_all(upkeep);
        kv.put("m", "keeps the tree busy").unwrap();
        schedule(upkeep);
        for _ in 0..10 {
            while world.steps.step(Lane::Flush) && upkeep.work.is_flush_pending() {}
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

/// A flush or a full compaction that waited while another thread closed the database waited for
/// jobs that had been dropped.
#[test]
fn nobody_waits_for_jobs_that_a_close_has_dropped() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    kv.put("1", "1").unwrap();
    let upkeep = Arc::clone(&kv.handle().parts().upkeep);
    let tree = Arc::clone(&upkeep.keyspaces.all_trees()[0]);
    upkeep.work.lock().compacting.insert(tree.id());
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

/// When the log was too long, only the one tree with the oldest write was flushed. Trees that are
/// seldom written kept the oldest segment one after another.
#[test]
fn a_log_that_is_too_long_flushes_all_trees_that_hold_its_oldest_segment() {
    let world = World::new();
    let db = world.builder().memory_budget(1 << 20).open().unwrap();
    let quiet: Vec<_> = (0..8).map(|i| keyspace(&db, &format!("quiet {i}"))).collect();
    quiet.iter().for_each(|kv| kv.put("k", "v").unwrap());
    let busy = keyspace(&db, "busy");
    let is_held = || quiet.iter().filter(|kv| kv.core().trees[0].oldest_unflushed().is_some());
    for i in 0..40_u32 {
        busy.put(i.to_be_bytes(), vec![0; 100 << 10]).unwrap();
        world.steps.run_all();
        if is_held().count() < 8 {
            break;
        }
    }
    assert_eq!(is_held().count(), 0);
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

/// Every stopped writer that checked for work rang the bell for all the others, which then checked
/// and rang, too. They used up the processor time that the flush needed.
#[test]
fn stopped_writers_do_not_wake_one_another() {
    let world = World::new();
    let db = world.open();
    let kv = keyspace(&db, "a");
    let upkeep = &kv.handle().parts().upkeep;
    let rung = upkeep.health.writers.rung();
    schedule(upkeep);
    assert_eq!(upkeep.health.writers.rung(), rung);
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
        let ended = |error: crate::Error| {
            assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::InvalidInput), "{error}");
            error.kind() == ErrorKind::Closed
        };
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (db, [left, right]) = (db.clone(), pair(&db));
                scope.spawn(move || {
                    for i in 0_u64.. {
                        let mut batch = Batch::default();
                        let key = (i % 97).to_be_bytes();
                        let value = vec![(round + thread + i) as u8; 200 + (i % 3000) as usize];
                        batch.put(&left, key, &value).unwrap();
                        batch.put(&right, key, &value).unwrap();
                        let durability = match (thread + i) % 5 {
                            0 => Durability::Group,
                            1 => Durability::None,
                            _ => Durability::Buffered,
                        };
                        if db.commit_with(batch, durability).is_err_and(ended) {
                            return;
                        }
                    }
                });
            }
            let (reader, [left, right]) = (db.clone(), pair(&db));
            scope.spawn(move || {
                for i in 0_u64.. {
                    let snapshot = reader.snapshot();
                    let key = (i % 97).to_be_bytes();
                    match (snapshot.get(&left, key), snapshot.get(&right, key)) {
                        (Ok(a), Ok(b)) => assert_eq!(a, b),
                        _ => return,
                    }
                }
            });
            let other = db.clone();
            scope.spawn(move || {
                for i in 0_u64.. {
                    let done = other.keyspace("comes and goes").and_then(|kv| {
                        kv.put(i.to_be_bytes(), [0; 500])?;
                        if i % 3 == 0 {
                            other.drop_keyspace("comes and goes")?
                        } else {
                            true
                        };
                        if i % 7 == 0 { other.flush() } else { Ok(()) }?;
                        if i % 11 == 0 { other.compact() } else { Ok(()) }
                    });
                    if done.is_err_and(ended) {
                        return;
                    }
                }
            });
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
