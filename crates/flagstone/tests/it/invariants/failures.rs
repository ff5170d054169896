//! Failures stay local. One flipped bit in a table of one keyspace once refused the writes of every
//! keyspace: the compaction that met it was tried again five times a second, all compactions paused
//! meanwhile, and the first level of the damaged tree stopped all writers when it was full.

use crate::support::{hashed, small};
use flagstone::admin::{DamagedTable, Event, Listener, StallCause, TryCommit};
use flagstone::internal::env::names::{FileKind, Name, parse};
use flagstone::internal::env::{Disk, Effect, Executor, Failure, Fault, Op, StepExecutor};
use flagstone::{Database, Durability, Error, ErrorKind, Keyspace, Options, Space};
use flagstone_testkit::World;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A database whose events are kept.
struct Watched {
    db: Database,
    executor: Arc<StepExecutor>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Watched {
    fn options() -> Options {
        small().memtable_bytes(64 << 10)
    }

    fn open(world: &World) -> Self {
        Self::open_with(world, Self::options(), |_: &Event| {})
    }

    fn open_with(world: &World, options: Options, listener: impl Listener + 'static) -> Self {
        let (environment, executor) = world.environment();
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let heard = Arc::clone(&events);
        let keeps = move |event: &Event| heard.lock().unwrap().push(event.clone());
        let builder = Database::builder(World::dir()).options(options);
        let builder = builder.listener(keeps).listener(listener).environment(environment);
        Self { db: builder.open().unwrap(), executor, events }
    }

    fn keyspace(&self, name: &str) -> Keyspace {
        self.db.space(name).options(hashed(1)).keyspace().unwrap()
    }

    /// Runs background work for a while.
    fn work(&self, world: &World) {
        for _ in 0..20 {
            let _was_there_any = self.executor.assist();
        }
        world.clock.advance(Duration::from_millis(200));
    }

    fn events<T>(&self, wanted: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.events.lock().unwrap().iter().filter_map(wanted).collect()
    }

    fn damaged(&self) -> Vec<DamagedTable> {
        self.events(|event| match event {
            Event::TableDamaged(table) => Some(table.clone()),
            _ => None,
        })
    }

    fn quarantined(&self) -> Vec<DamagedTable> {
        self.events(|event| match event {
            Event::TableQuarantined(table) => Some(table.clone()),
            _ => None,
        })
    }

    /// Returns how long compactions paused after each failure, in milliseconds.
    fn delays(&self) -> Vec<u64> {
        self.events(|event| match event {
            Event::BackedOff { doing: "compaction", delay, .. } => Some(delay.as_millis() as u64),
            _ => None,
        })
    }
}

/// Puts about 70 KB under keys that every call writes.
fn fill(keyspace: &Keyspace, db: &Database, round: u32) -> Result<(), Error> {
    for n in 0..70_u32 {
        keyspace.put((n * 7919 % 997).to_be_bytes(), vec![round as u8; 1000])?;
    }
    db.flush()
}

fn tables(world: &World) -> Vec<String> {
    let is_table = |name: &String| matches!(parse(name), Name::Numbered(FileKind::Table, _));
    world.files().into_iter().filter(is_table).collect()
}

/// Flips a bit in the first block of a table, or flips it back.
fn flip(world: &World, table: &str) {
    let mut content = world.mem.content(&World::path(table)).unwrap();
    content[200] ^= 1;
    world.mem.put_content(&World::path(table), &content);
}

#[test]
fn a_damaged_table_is_quarantined_and_all_keyspaces_go_on() {
    let world = World::new(1);
    let watched = Watched::open(&world);
    let (a, b) = (watched.keyspace("a"), watched.keyspace("b"));
    fill(&a, &watched.db, 0).unwrap();
    let table = tables(&world).remove(0);
    flip(&world, &table);
    for round in 1..150_u32 {
        fill(&a, &watched.db, round).unwrap();
        watched.work(&world);
        b.put(round.to_be_bytes(), "1").unwrap();
    }
    let (damaged, quarantined) = (watched.damaged(), watched.quarantined());
    assert_eq!((damaged.len(), quarantined.len()), (1, 1), "{damaged:?} {quarantined:?}");
    let told = &quarantined[0];
    assert_eq!(told.file, World::path(&table));
    assert_eq!((told.keyspace.as_str(), told.partition), ("a", 0));
    assert!(told.smallest < told.largest && told.error.to_string().contains(&table), "{told}");
    assert_eq!(watched.delays(), [200], "the second time it is left out");
    // What lies above it was merged, and reads do not need it.
    let levels = watched.db.stats().keyspaces.swap_remove(0).levels;
    let tables: u64 = levels.iter().map(|level| level.tables).sum();
    assert!(tables < 30, "{levels:?}");
    assert_eq!(a.get(0_u32.to_be_bytes()).unwrap().unwrap()[0], 149);
    assert_eq!(b.count().unwrap(), 149);
    let error = a.count().unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains(&table), "{error}");
}

/// Returns the offset of the index parts of a table.
fn index_parts(world: &World, table: &str) -> u64 {
    let mut text = String::new();
    flagstone::internal::inspect::file_on(&world.mem, &World::path(table), &mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with("index    ")).unwrap();
    line["index    ".len()..].split('+').next().unwrap().parse().unwrap()
}

#[test]
fn a_damaged_part_of_an_index_is_told_with_its_place_and_stays_in_its_keyspace() {
    let world = World::new(9);
    let options = small().memory_budget(8 << 20);
    let blocks = hashed(1).block_bytes(1024);
    let open = || {
        let watched = Watched::open_with(&world, options.clone(), |_: &Event| {});
        let a = watched.db.space("a").options(blocks.clone()).keyspace().unwrap();
        (a, watched.keyspace("b"), watched)
    };
    let (a, b, watched) = open();
    // 600 blocks, of which a part of the index holds 256.
    (0..600_u32).for_each(|n| a.put(n.to_be_bytes(), vec![n as u8; 1000]).unwrap());
    watched.db.flush().unwrap();
    let table = tables(&world).remove(0);
    b.put("key", "value").unwrap();
    drop((a, b, watched));
    let offset = index_parts(&world, &table);
    let mut content = world.mem.content(&World::path(&table)).unwrap();
    content[offset as usize + 9] ^= 1;
    world.mem.put_content(&World::path(&table), &content);
    let (a, b, watched) = open();
    let error = a.get(5_u32.to_be_bytes()).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{text}");
    assert!(text.contains(&table) && text.contains(&format!("offset {offset}")), "{text}");
    assert_eq!(b.get("key").unwrap().unwrap(), b"value");
    a.put("written", "later").unwrap();
    b.put("key", "other").unwrap();
    watched.db.flush().unwrap();
    assert_eq!(a.get("written").unwrap().unwrap(), b"later");
    assert_eq!(b.get("key").unwrap().unwrap(), b"other");
    assert_eq!(watched.damaged().len(), 1);
}

#[test]
fn a_compaction_that_fails_is_tried_again_less_and_less_often() {
    let world = World::new(2);
    let watched = Watched::open(&world);
    let a = watched.keyspace("a");
    fill(&a, &watched.db, 0).unwrap();
    let fault = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append]).of(FileKind::Table);
    for round in 1..4 {
        fill(&a, &watched.db, round).unwrap();
    }
    world.disk.inject(fault.forever());
    for _ in 0..12 {
        watched.work(&world);
    }
    let delays = watched.delays();
    assert!(delays.len() > 6, "{delays:?}");
    assert_eq!(delays[..6], [200, 400, 800, 1600, 2000, 2000]);
    assert!(delays[6..].iter().all(|delay| *delay == 2000), "{delays:?}");
    let full = |event: &Event| matches!(event, Event::DiskFull { .. }).then_some(());
    assert_eq!(watched.events(full).len(), 1);
    world.disk.heal();
    watched.work(&world);
    watched.work(&world);
    let has_room = |event: &Event| matches!(event, Event::DiskHasRoom { .. }).then_some(());
    assert_eq!(watched.events(has_room).len(), 1);
    assert_eq!(watched.db.stats().tables(), 1);
}

/// A device that does not answer may do so a moment later.
#[test]
fn a_table_that_cannot_be_read_is_quarantined_at_the_fifth_failure() {
    let world = World::new(3);
    let watched = Watched::open(&world);
    let a = watched.keyspace("a");
    for round in 0..4 {
        fill(&a, &watched.db, round).unwrap();
    }
    let unreadable = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Read]).of(FileKind::Table);
    world.disk.inject(unreadable.forever());
    while watched.quarantined().is_empty() {
        assert!(watched.executor.assist());
    }
    assert_eq!(watched.delays(), [200, 400, 800, 1600]);
}

/// Every table of `a` is damaged as soon as it is written.
#[test]
fn writers_of_a_tree_that_cannot_be_compacted_get_an_error_that_names_the_file() {
    let world = World::new(4);
    let watched = Watched::open(&world);
    let (a, b) = (watched.keyspace("a"), watched.keyspace("b"));
    let mut damaged = Vec::new();
    let refused = (0..200).find_map(|round| {
        let filled = fill(&a, &watched.db, round);
        for table in
            tables(&world).into_iter().filter(|table| !damaged.contains(table)).collect::<Vec<_>>()
        {
            flip(&world, &table);
            damaged.push(table);
        }
        watched.work(&world);
        b.put(round.to_be_bytes(), "1").unwrap();
        filled.err()
    });
    let error = refused.unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error:?}");
    let text = error.to_string();
    assert!(text.contains("keyspace \"a\", partition 0"), "{text}");
    assert!(damaged.iter().any(|table| text.contains(table)), "{text}");
    b.put("more", "1").unwrap();
    watched.db.flush().unwrap();
    drop((a, b));
    watched.db.close().unwrap();
    // Restored from a copy, say: the tables are taken again.
    damaged
        .iter()
        .filter(|table| world.mem.content(&World::path(table)).is_ok())
        .for_each(|table| flip(&world, table));
    let watched = Watched::open(&world);
    let a = watched.keyspace("a");
    (0..40).for_each(|_| watched.work(&world));
    fill(&a, &watched.db, 201).unwrap();
    assert_eq!(a.count().unwrap(), 70);
    assert!(watched.quarantined().is_empty());
}

/// Such writers were told to retry, forever.
#[test]
fn writers_that_do_not_wait_are_told_of_a_tree_that_cannot_be_compacted() {
    let world = World::new(4);
    let watched = Watched::open(&world);
    let a = watched.keyspace("a");
    let put = |n: u32| {
        let mut batch = watched.db.batch();
        batch.put(&a, (n * 7919 % 997).to_be_bytes(), vec![1; 1000]).unwrap();
        batch
    };
    let (mut damaged, mut retries, mut told) = (Vec::new(), 0, None);
    while told.is_none() {
        for n in 0..70 {
            match watched.db.try_commit(&put(n)) {
                Ok(TryCommit::Started { .. }) => continue,
                Ok(TryCommit::RetryAfter(_)) => retries += 1,
                Err(error) => told = Some(error),
            }
            break;
        }
        assert!(retries < 200, "nobody says why");
        watched.db.flush().unwrap();
        let mut tables = tables(&world);
        tables.retain(|table| !damaged.contains(table));
        tables.iter().for_each(|table| flip(&world, table));
        damaged.append(&mut tables);
        watched.work(&world);
    }
    let error = told.unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error:?}");
    assert!(error.to_string().contains("keyspace \"a\", partition 0"), "{error}");
    let again = watched.db.try_commit(&put(0)).err();
    assert_eq!(again.map(|error| error.kind()), Some(ErrorKind::Corruption));
}

/// A tombstone above a damaged table must outlive it, or what it deletes is back when the table is
/// restored.
#[test]
fn tombstones_above_a_quarantined_table_are_kept() {
    let world = World::new(5);
    let watched = Watched::open(&world);
    let a = watched.keyspace("a");
    for n in 0..60_u32 {
        a.put(n.to_be_bytes(), vec![1; 1000]).unwrap();
    }
    watched.db.compact().unwrap();
    let table = tables(&world).remove(0);
    flip(&world, &table);
    for round in 0..30_u32 {
        for n in 0..60_u32 {
            let key = n.to_be_bytes();
            if (n + round) % 3 == 0 {
                a.delete(key).unwrap()
            } else {
                a.put(key, vec![2; 900]).unwrap()
            }
        }
        watched.db.flush().unwrap();
        watched.work(&world);
    }
    (0..60_u32).for_each(|n| a.delete(n.to_be_bytes()).unwrap());
    watched.db.flush().unwrap();
    (0..40).for_each(|_| watched.work(&world));
    assert_eq!(watched.quarantined().len(), 1);
    flip(&world, &table);
    drop(a);
    watched.db.close().unwrap();
    let watched = Watched::open(&world);
    assert_eq!(watched.keyspace("a").count().unwrap(), 0);
}

/// Files of tables that stay open nowhere: the missing file is found when it is opened again.
#[test]
fn a_missing_table_is_told_of_by_the_read_that_needs_it() {
    let world = World::new(6);
    let watched = Watched::open(&world);
    let a = watched.keyspace("a");
    fill(&a, &watched.db, 0).unwrap();
    drop(a);
    watched.db.close().unwrap();
    let watched = Watched::open(&world);
    let table = tables(&world).remove(0);
    world.mem.remove(&World::path(&table)).unwrap();
    let a = watched.keyspace("a");
    for _ in 0..3 {
        a.get(0_u32.to_be_bytes()).unwrap_err();
        assert!(a.scan(..).next().unwrap().is_err());
    }
    let damaged = watched.damaged();
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0].file, World::path(&table));
}

/// The flush of keyspace `a` fails as long as this says so: no table of it can be made.
fn failing_flushes(world: &World, options: Options) -> (Watched, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(true));
    let (heard, disk) = (Arc::clone(&fails), world.disk.clone());
    let listener = move |event: &Event| {
        if let Event::FlushStarted { keyspace, .. } = event {
            disk.heal();
            if keyspace == "a" && heard.load(Ordering::Relaxed) {
                let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Create]);
                disk.inject(fault.of(FileKind::Table).forever());
            }
        }
    };
    (Watched::open_with(world, options, listener), fails)
}

#[test]
fn a_flush_that_fails_stops_the_writers_of_its_tree_alone() {
    let world = World::new(7);
    let (watched, fails) = failing_flushes(&world, Watched::options());
    let (a, b) = (watched.keyspace("a"), watched.keyspace("b"));
    let mut refused = None;
    let mut put = 0_u32;
    for round in 0..300_u32 {
        if refused.is_none() {
            match a.put(round.to_be_bytes(), [1; 4000]) {
                Ok(()) => put += 1,
                Err(error) => refused = Some(error),
            }
        }
        b.put((round % 50).to_be_bytes(), [2; 2000]).unwrap();
        watched.work(&world);
    }
    let error = refused.unwrap();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("keyspace \"a\", partition 0"), "{error}");
    assert!(watched.db.stats().flushes > 3, "{} flushes of b", watched.db.stats().flushes);
    // Both are sealed together; b is flushed, and a says why it is not.
    b.put("last", "b").unwrap();
    let error = watched.db.flush().unwrap_err();
    assert!(error.to_string().contains("keyspace \"a\""), "{error}");
    assert_eq!(watched.db.stats().keyspaces[1].memtable_bytes, 0);
    fails.store(false, Ordering::Relaxed);
    watched.db.flush().unwrap();
    a.put("more", "1").unwrap();
    assert_eq!((a.count().unwrap(), b.count().unwrap()), (u64::from(put) + 1, 51));
    let world = world.after_kill(1);
    let watched = Watched::open(&world);
    let counts = ["a", "b"].map(|name| watched.keyspace(name).count().unwrap());
    assert_eq!(counts, [u64::from(put) + 1, 51]);
}

/// The log of a tree whose flush fails cannot be released.
#[test]
fn a_log_at_its_bound_stops_all_writers_and_says_for_which_tree() {
    let world = World::new(8);
    let (watched, fails) = failing_flushes(&world, Watched::options());
    let (a, b) = (watched.keyspace("a"), watched.keyspace("b"));
    a.put("pins", "the log").unwrap();
    let stall = |wanted: fn(&Event) -> bool| watched.events(|event| wanted(event).then_some(()));
    let is_begin = |event: &Event| matches!(event, Event::StallStarted { cause: StallCause::Log });
    let is_end =
        |event: &Event| matches!(event, Event::StallFinished { cause: StallCause::Log, .. });
    let refused = (0..3000_u32).find_map(|n| {
        watched.work(&world);
        b.put((n % 50).to_be_bytes(), [2; 2000]).err()
    });
    let error = refused.unwrap();
    assert!(error.to_string().contains("the log is full"), "{error}");
    assert!(error.to_string().contains("keyspace \"a\", partition 0"), "{error}");
    let bound = 1 << 20;
    assert!(watched.db.stats().wal_bytes < 2 * bound, "{}", watched.db.stats().wal_bytes);
    assert_eq!((stall(is_begin).len(), stall(is_end).len()), (1, 0));
    fails.store(false, Ordering::Relaxed);
    watched.db.flush().unwrap();
    assert_eq!((stall(is_begin).len(), stall(is_end).len()), (1, 1));
    b.put("more", "1").unwrap();
}

/// A batch is whole or absent: what was not logged is installed by one edit, so a crash keeps a
/// whole cut of it.
#[test]
fn unlogged_writes_wait_for_the_tree_whose_flush_fails() {
    let world = World::new(9);
    let (watched, _) = failing_flushes(&world, Watched::options());
    let (a, b, c) = (watched.keyspace("a"), watched.keyspace("b"), watched.keyspace("c"));
    let unlogged = |keyspaces: &[&Keyspace]| {
        let mut batch = watched.db.batch();
        keyspaces.iter().for_each(|keyspace| batch.put(*keyspace, "k", "1").unwrap());
        watched.db.commit(batch.durability(Durability::None)).unwrap();
        watched.db.flush().unwrap_err();
    };
    unlogged(&[&a, &b]);
    // Later than the first, which it must not pass although they share no tree.
    unlogged(&[&c]);
    // This one is logged, and may.
    b.put("logged", "1").unwrap();
    (0..50).for_each(|_| watched.work(&world));
    let world = world.after_kill(1);
    let watched = Watched::open(&world);
    let counts = ["a", "b", "c"].map(|name| watched.keyspace(name).count().unwrap());
    assert_eq!(counts, [0, 1, 0]);
}

/// A flush that had failed was neither running nor waiting while listeners heard of it, so who
/// waited for it took it for done: `flush` returned Ok, and nothing was installed. Found by power
/// cuts.
#[test]
fn a_failed_flush_is_not_taken_for_done_while_listeners_hear_of_it() {
    let world = World::new(8);
    let (answered, is_answered) = std::sync::mpsc::channel::<()>();
    let is_answered = Mutex::new(is_answered);
    let listener = move |event: &Event| {
        if let Event::BackgroundFailed { doing: "flush", .. } = event {
            // Until the caller has an answer, which must not come before this returns.
            let _late = is_answered.lock().unwrap().recv_timeout(Duration::from_millis(300));
        }
    };
    let environment = world.environment_with_threads();
    let builder = Database::builder(World::dir()).options(small()).listener(listener);
    let db = builder.environment(environment).open().unwrap();
    let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let failing = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Create]);
    world.disk.inject(failing.of(FileKind::Table).forever());
    let flushed = db.flush();
    drop(answered);
    assert_eq!(flushed.unwrap_err().kind(), ErrorKind::Io);
}

/// The group of a cut that no checkpoint waited for any more was still flushed as a whole, so every
/// tree waited for the one whose flush failed.
#[test]
fn a_checkpoint_that_fails_chains_no_tree_to_the_one_whose_flush_fails() {
    let world = World::new(10);
    let (watched, fails) = failing_flushes(&world, Watched::options());
    let (a, b) = (watched.keyspace("a"), watched.keyspace("b"));
    a.put("pins", "the log").unwrap();
    b.put("k", "1").unwrap();
    let error = watched.db.checkpoint("/copy").unwrap_err();
    assert!(error.to_string().contains("keyspace \"a\""), "{error}");
    for n in 0..200_u32 {
        b.put((n % 50).to_be_bytes(), [2; 2000]).unwrap();
        watched.work(&world);
    }
    assert!(watched.db.stats().flushes > 2, "{} flushes of b", watched.db.stats().flushes);
    fails.store(false, Ordering::Relaxed);
    // A flush of `a` that has failed may not have ended yet.
    (0..20).for_each(|_| watched.work(&world));
    watched.db.checkpoint("/copy").unwrap();
}

/// What a drop must not outlive is in the log, whatever becomes of a flush: so the room that a
/// failing tree takes can be had back.
#[test]
fn keyspaces_can_be_dropped_while_a_flush_fails() {
    let world = World::new(11);
    let (watched, _) = failing_flushes(&world, Watched::options());
    let (a, b, c) = (watched.keyspace("a"), watched.keyspace("b"), watched.keyspace("c"));
    for keyspace in [&a, &b, &c] {
        keyspace.put("k", "1").unwrap();
    }
    watched.db.flush().unwrap_err();
    c.put("more", "1").unwrap();
    watched.db.drop_keyspace("b").unwrap();
    watched.db.drop_keyspace("a").unwrap();
    watched.db.flush().unwrap();
    let world = world.after_power_cut(1);
    let watched = Watched::open(&world);
    let names: Vec<String> = watched.db.keyspaces().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["c"]);
    assert_eq!(watched.keyspace("c").count().unwrap(), 2);
}
