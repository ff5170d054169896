//! `verify` of an open database: it used to read tables alone. A log that rotted after the open, a
//! manifest that says something else than memory, tables on the wrong levels: all of that passed,
//! until the next open, or for ever.

use crate::support::{files_of, folding, hashed, open, small, small_with, threaded};
use flagstone::internal::env::Disk;
use flagstone::internal::env::names::{CURRENT, FileKind};
use flagstone::{Database, Durability, Error, ErrorKind, Space};
use flagstone_testkit::{Rng, Session, World};
use std::sync::atomic::{AtomicBool, Ordering};

/// A database at work: tables, and several segments of the log, the first of them from before it
/// was opened.
fn at_work() -> (World, Session) {
    let world = World::new(11);
    // Segments of 1 MiB, and memtables that are not flushed before there are some.
    let options = small_with(Durability::Each).memory_budget(16 << 20);
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    (0..300_u32).for_each(|n| kv.put(n.to_be_bytes(), [1; 500]).unwrap());
    session.db.flush().unwrap();
    kv.put("before", "the kill").unwrap();
    let world = world.after_kill(1);
    drop(session);
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    (300..2000_u32).for_each(|n| kv.put(n.to_be_bytes(), [1; 1500]).unwrap());
    (world, session)
}

fn corruption(
    found: flagstone::Result<flagstone::report::VerifyReport>,
    name: &str,
    what: &str,
) -> Error {
    let error = found.err().unwrap_or_else(|| panic!("{name}: {what} was not found"));
    assert_eq!(error.kind(), ErrorKind::Corruption, "{name}: {what}: {error}");
    assert!(error.to_string().contains(name), "{name}: {what}: {error}");
    error
}

/// Replaces the content of a file while `look` looks.
fn with_content(world: &World, name: &str, content: &[u8], look: impl FnOnce()) {
    let path = World::path(name);
    let whole = world.mem.content(&path).unwrap();
    world.mem.put_content(&path, content);
    look();
    world.mem.put_content(&path, &whole);
}

#[test]
fn a_database_at_work_is_whole() {
    let (world, session) = at_work();
    let report = session.db.verify().unwrap();
    assert!(report.segments > 1 && report.records >= 1700, "{report:?}");
    let quick = session.db.verify_quickly().unwrap();
    assert!(quick.segments == report.segments && quick.records < report.records, "{quick:?}");
    let image = world.after_kill(2);
    let reader = image.open_read_only(&small()).unwrap();
    assert_eq!(reader.db.verify().unwrap().segments, report.segments);
    session.db.close().unwrap();
    assert_eq!(open(&world, &small()).db.verify().unwrap().records, 0);
}

#[test]
fn a_byte_of_the_log_that_flips_after_the_open_is_found() {
    let (world, session) = at_work();
    let logs = files_of(&world, FileKind::Wal);
    let used = |name: &&String| world.mem.content(&World::path(name)).unwrap().len() > 5000;
    let used: Vec<&String> = logs.iter().filter(used).collect();
    assert!(used.len() > 1, "{logs:?}");
    let mut rng = Rng::new(3);
    for (place, name) in used.iter().enumerate() {
        let whole = world.mem.content(&World::path(name)).unwrap();
        let end = whole.iter().rposition(|byte| *byte != 0).unwrap();
        // Copies of the header, then records up to the very last byte; of a segment from before the
        // open one copy is enough.
        let is_last = place + 1 == used.len();
        let headers = if is_last { vec![20, 4096 + 20] } else { vec![] };
        let records = (0..20).map(|_| rng.between(4608, end as u64) as usize).chain([end]);
        for at in headers.into_iter().chain(records) {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            let what = format!("byte {at}");
            with_content(&world, name, &damaged, || {
                corruption(session.db.verify(), name, &what);
                if is_last {
                    corruption(session.db.verify_quickly(), name, &what);
                }
            });
        }
        with_content(&world, name, &whole[..end], || {
            corruption(session.db.verify_quickly(), name, "its cut end");
        });
    }
    session.db.verify().unwrap();
}

#[test]
fn a_segment_in_the_place_of_another_is_found() {
    let (world, session) = at_work();
    let logs = files_of(&world, FileKind::Wal);
    let content = |name: &String| world.mem.content(&World::path(name)).unwrap();
    let used: Vec<&String> = logs.iter().filter(|name| content(name).len() > 5000).collect();
    let (first, second) = (content(used[0]), content(used[1]));
    with_content(&world, used[1], &first, || {
        corruption(session.db.verify_quickly(), used[1], "the segment before in its place");
    });
    with_content(&world, used[0], &second, || {
        corruption(session.db.verify_quickly(), used[0], "the next segment in its place");
    });
    // A listed file that waits for its segment.
    let spare = logs.last().unwrap();
    with_content(&world, spare, &second, || {
        corruption(session.db.verify_quickly(), spare, "a segment in a file that waits");
    });
    let (path, whole) = (World::path(spare), content(spare));
    world.mem.remove(&path).unwrap();
    corruption(session.db.verify_quickly(), spare, "a missing file that waits");
    world.mem.put_content(&path, &whole);
    session.db.verify().unwrap();
}

/// The last frame, too: after a crash it would be taken for torn, and memory alone knows that it
/// was synced.
#[test]
fn every_flipped_byte_of_the_manifest_is_found() {
    let (world, session) = at_work();
    let name = files_of(&world, FileKind::Manifest).remove(0);
    let whole = world.mem.content(&World::path(&name)).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        with_content(&world, &name, &damaged, || {
            let found = session.db.verify_quickly();
            let kind = found.expect_err("a flipped byte").kind();
            assert!([ErrorKind::Corruption, ErrorKind::Unsupported].contains(&kind), "byte {at}");
        });
    }
    for content in [&whole[..whole.len() - 1], &[&whole[..], b"more"].concat()] {
        with_content(&world, &name, content, || {
            corruption(session.db.verify_quickly(), &name, "another length");
        });
    }
    world.mem.put_content(&World::path(CURRENT), b"no name");
    corruption(session.db.verify_quickly(), CURRENT, "another content");
}

#[test]
fn a_manifest_of_before_is_found() {
    let (world, session) = at_work();
    let name = files_of(&world, FileKind::Manifest).remove(0);
    let before = world.mem.content(&World::path(&name)).unwrap();
    session.db.keyspace("another").unwrap();
    with_content(&world, &name, &before, || {
        corruption(session.db.verify_quickly(), &name, "an older self");
    });
    session.db.verify_quickly().unwrap();
}

#[test]
fn a_table_that_goes_missing_is_found_quickly() {
    let (world, session) = at_work();
    let name = files_of(&world, FileKind::Table).remove(0);
    world.mem.remove(&World::path(&name)).unwrap();
    corruption(session.db.verify_quickly(), &name, "the file");
}

/// Writers, flushes, compactions and segments that come and go must not look like damage.
#[test]
fn verifications_beside_writers_find_nothing() {
    let world = World::new(5);
    let db = threaded(&world, small());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || write(db, thread, stop));
        }
        let (mut segments, mut round) = (0, 0);
        let mut verified = Ok(());
        while verified.is_ok() && (round < 20 || segments == 0 || db.stats().flushes < 5) {
            round += 1;
            let report = if round % 3 == 0 { db.verify_quickly() } else { db.verify() };
            verified = report.map(|report| segments = segments.max(report.segments));
        }
        // Before anything can panic: the writers end.
        stop.store(true, Ordering::Relaxed);
        verified.unwrap();
    });
    db.verify().unwrap();
    db.close().unwrap();
}

fn write(db: &Database, thread: u64, stop: &AtomicBool) {
    let mut rng = Rng::new(thread);
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    let sums = db.space("sums").options(folding(1, "add-i64/1")).keyspace().unwrap();
    while !stop.load(Ordering::Relaxed) {
        let key = rng.below(2000).to_be_bytes();
        match rng.below(100) {
            0..=69 => kv.put(key, rng.bytes(400)).unwrap(),
            70..=79 => kv.delete(key).unwrap(),
            80..=96 => sums.merge(&key[7..], 1_i64.to_le_bytes()).unwrap(),
            97..=98 => {
                let end = rng.below(2000).to_be_bytes();
                if key < end {
                    kv.delete_range(key..end).unwrap();
                }
            }
            _ => db.sync().unwrap(),
        }
    }
}
