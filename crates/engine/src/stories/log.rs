//! Bugs of the log: its segments, its timed syncs and its length.

use super::world::{World, keyspace};
use crate::{Batch, Durability, ErrorKind};
use flagstone_env::names::{FileKind, Name, parse};
use flagstone_env::{Effect, Failure, Fault, Op};
use std::path::Path;
use std::time::Duration;

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

/// When the log was too long, only the one tree with the oldest write was flushed. Trees that are
/// seldom written kept the oldest segment one after another.
#[test]
fn a_log_that_is_too_long_flushes_all_trees_that_hold_its_oldest_segment() {
    let world = World::new();
    let db = world.builder().memory_budget(1 << 20).open().unwrap();
    let quiet: Vec<_> = (0..8).map(|i| keyspace(&db, &format!("quiet {i}"))).collect();
    quiet.iter().for_each(|kv| kv.put("k", "v").unwrap());
    let busy = keyspace(&db, "busy");
    let is_held = || quiet.iter().filter(|kv| kv.core().trees()[0].oldest_unflushed().is_some());
    for i in 0..40_u32 {
        busy.put(i.to_be_bytes(), vec![0; 100 << 10]).unwrap();
        world.steps.run_all();
        if is_held().count() < 8 {
            break;
        }
    }
    assert_eq!(is_held().count(), 0);
}
