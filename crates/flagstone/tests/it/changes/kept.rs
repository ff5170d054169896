//! What is kept, and for how long.

use super::{feed_files, keeping, kept, lines};
use crate::support::{open, small};
use flagstone::admin::Event;
use flagstone::changes::{ChangeRetention, ChangesFrom};
use flagstone::internal::env::{Disk, Effect, Failure, Fault, Op};
use flagstone::{Database, ErrorKind, Index, Json, KeyspaceOptions, Routing, Space};
use flagstone_testkit::{Session, World};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Writes about `count` segments of 1 MiB, and flushes, so that all but the last are released.
fn fill(session: &Session, count: usize) {
    let kv = session.db.keyspace("kv").unwrap();
    for n in 0..count * 16 {
        kv.put("big", vec![n as u8; 66_000]).unwrap();
    }
    session.db.flush().unwrap();
}

#[test]
fn released_segments_are_renamed_and_still_read() {
    let world = World::new(1);
    let session = kept(&world);
    fill(&session, 4);
    let files = feed_files(&world);
    assert!(files.len() >= 3, "{files:?}");
    let delivered = session.db.changes(ChangesFrom::Start).unwrap().count();
    assert_eq!(delivered, 64);
    let report = session.db.stats().changes.unwrap();
    assert!(report.segments > files.len() as u64, "the log itself counts: {report:?}");
    assert!(report.bytes > 4 << 20, "{report:?}");
    assert_eq!(report.newest_seqno, session.db.stats().visible_seqno);
}

#[test]
fn the_oldest_go_first_beyond_the_bound_and_readers_are_told() {
    let world = World::new(1);
    let told = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&told);
    let (environment, executor) = world.environment();
    let options = small().change_retention(ChangeRetention::bytes(3 << 20));
    let builder = Database::builder(World::dir()).options(options).environment(environment);
    let db = builder
        .listener(move |event: &Event| {
            if let Event::ChangesDropped { through, is_disk_full, .. } = event {
                events.lock().unwrap().push((*through, *is_disk_full));
            }
        })
        .open()
        .unwrap();
    let session = Session::of(&world, db, executor);
    let mut slow = session.db.changes(ChangesFrom::Start).unwrap();
    session.db.keyspace("kv").unwrap().put("a", "1").unwrap();
    session.db.sync().unwrap();
    assert_eq!(lines(&mut slow), ["kv put a=1"]);
    let token = slow.token();
    fill(&session, 3);
    fill(&session, 6);
    let dropped = told.lock().unwrap().last().copied().expect("an event");
    assert!(!dropped.1);
    let report = session.db.stats().changes.unwrap();
    assert_eq!(report.oldest_seqno, dropped.0 + 1);
    assert!(report.bytes < 6 << 20, "{report:?}");
    for refused in
        [slow.poll().unwrap_err(), session.db.changes(ChangesFrom::After(token)).unwrap_err()]
    {
        assert_eq!(refused.kind(), ErrorKind::TooOld, "{refused}");
    }
    let first = session.db.changes(ChangesFrom::Start).unwrap().next().unwrap().unwrap();
    assert!(first.token.seqno().get() > dropped.0);
}

#[test]
fn changes_older_than_the_bound_are_removed_by_the_next_flush() {
    let world = World::new(1);
    let retention = ChangeRetention::age(Duration::from_secs(3600));
    let session = open(&world, &small().change_retention(retention));
    fill(&session, 3);
    let first = feed_files(&world);
    assert!(!first.is_empty());
    world.clock.advance(Duration::from_secs(1800));
    fill(&session, 2);
    assert!(first.iter().all(|name| feed_files(&world).contains(name)));
    world.clock.advance(Duration::from_secs(1801));
    fill(&session, 2);
    let left = feed_files(&world);
    assert!(!left.is_empty() && first.iter().all(|name| !left.contains(name)), "{left:?}");
}

#[test]
fn a_full_disk_takes_what_is_kept_before_the_ballast() {
    let world = World::new(1);
    let session = open(&world, &keeping().ballast_bytes(1 << 20));
    session.executor.run_all();
    // So that the log meets the full disk, not a flush.
    let four = KeyspaceOptions::new().routing(Routing::Hash(4));
    session.db.space("kv").options(four).keyspace().unwrap();
    fill(&session, 4);
    assert!(!feed_files(&world).is_empty());
    let full = Fault::new(Effect::Fail(Failure::NoSpace));
    world.disk.inject(full.on(&[Op::Append]));
    let kv = session.db.keyspace("kv").unwrap();
    let refused = (0..100).find_map(|_| kv.put("x", vec![0; 60_000]).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
    assert_eq!(feed_files(&world), [""; 0]);
    kv.put("y", "1").unwrap();
    session.db.sync().unwrap();
    let left = lines(&mut session.db.changes(ChangesFrom::Start).unwrap());
    assert_eq!(left.last().unwrap(), "kv put y=1");
}

#[test]
fn an_open_on_a_full_disk_takes_what_is_kept() {
    let world = World::new(1);
    let session = kept(&world);
    fill(&session, 3);
    session.db.close().unwrap();
    assert!(!feed_files(&world).is_empty());
    world.disk.set_room(Some(1000));
    let session = kept(&world);
    assert_eq!(feed_files(&world), [""; 0]);
    session.db.keyspace("kv").unwrap().put("a", "1").unwrap();
}

#[test]
fn a_database_open_for_reading_only_reads_what_is_kept() {
    let world = World::new(1);
    let session = kept(&world);
    fill(&session, 2);
    let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
    assert_eq!(changes.by_ref().count(), 32);
    let token = changes.token();
    session.db.keyspace("kv").unwrap().put("last", "1").unwrap();
    drop(changes);
    session.db.close().unwrap();
    let before = world.files();
    for world in [World::on(world.mem.clone(), 2), world.after_kill(3)] {
        let session = world.open_read_only(&small()).unwrap();
        assert_eq!(session.db.changes(ChangesFrom::Start).unwrap().count(), 33);
        let mut rest = session.db.changes(ChangesFrom::After(token)).unwrap();
        assert!(rest.wait(Duration::from_secs(3600)).unwrap().is_some());
        assert!(rest.wait(Duration::from_secs(3600)).unwrap().is_none(), "it does not wait");
        session.db.close().unwrap();
        assert_eq!(world.files(), before);
    }
}

/// After a crash the SeqNos begin far above. The position before them was too old, although nothing
/// came between.
#[test]
fn a_reader_that_has_missed_nothing_goes_on_after_crashes_and_closes() {
    for is_first_empty in [true, false] {
        let mut world = World::new(1);
        let session = kept(&world);
        let kv = session.db.keyspace("kv").unwrap();
        if !is_first_empty {
            kv.put("a", "0").unwrap();
            session.db.flush().unwrap();
        }
        session.db.sync().unwrap();
        let token = session.db.changes(ChangesFrom::Now).unwrap().token();
        drop(kv);
        let (mut session, mut expected) = (Some(session), Vec::new());
        for n in 0..6 {
            world = match n % 3 {
                0 => world.after_kill(n),
                1 => world.after_power_cut(n),
                _ => {
                    session.take().unwrap().db.close().unwrap();
                    World::on(world.mem.clone(), n)
                }
            };
            drop(session.take());
            let opened = kept(&world);
            let rest =
                || opened.db.changes(ChangesFrom::After(token)).map(|mut rest| lines(&mut rest));
            assert_eq!(rest().unwrap(), expected, "opening {n}");
            // Some lives write nothing.
            if n % 2 == 1 {
                opened.db.keyspace("kv").unwrap().put("b", n.to_string()).unwrap();
                opened.db.sync().unwrap();
                expected.push(format!("kv put b={n}"));
                assert_eq!(rest().unwrap(), expected, "life {n}");
            }
            session = Some(opened);
        }
    }
}

/// The build of an index takes SeqNos that no record has.
#[test]
fn the_build_of_an_index_makes_no_position_too_old() {
    let world = World::new(1);
    let session = kept(&world);
    let documents = session.db.collection("documents").unwrap();
    documents.put(1, Json(r#"{"v":1}"#)).unwrap();
    drop(documents);
    session.db.close().unwrap();
    feed_files(&world).iter().for_each(|name| world.disk.remove(&World::path(name)).unwrap());
    let session = kept(&world);
    let token = session.db.changes(ChangesFrom::Now).unwrap().token();
    let documents = session.db.collection("documents").unwrap();
    documents.create_index("v", Index::on("v")).unwrap();
    assert!(session.db.stats().visible_seqno > token.seqno().get(), "a build takes SeqNos");
    drop(documents);
    session.db.close().unwrap();
    for n in 0..2 {
        let session = kept(&world);
        let mut rest = session.db.changes(ChangesFrom::After(token)).unwrap();
        assert_eq!(rest.by_ref().count(), n, "opening {n}");
        session.db.keyspace("kv").unwrap().put("a", n.to_string()).unwrap();
        drop(rest);
        session.db.close().unwrap();
    }
}

/// A missing segment in the middle: what comes before it cannot be read, what comes after can.
#[test]
fn a_removed_segment_takes_everything_before_it() {
    let world = World::new(1);
    let session = kept(&world);
    fill(&session, 5);
    session.db.close().unwrap();
    let files = feed_files(&world);
    world.disk.remove(&World::path(&files[1])).unwrap();
    let session = kept(&world);
    let left = feed_files(&world);
    assert_eq!(left, files[2..], "{files:?}");
    let delivered = session.db.changes(ChangesFrom::Start).unwrap().count();
    assert!(delivered > 16 && delivered < 64, "{delivered}");
}

#[test]
fn damaged_segments_are_an_error_and_never_a_panic() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    for n in 0..20_u8 {
        kv.put([n], vec![n; 20]).unwrap();
    }
    drop(kv);
    session.db.close().unwrap();
    let name = feed_files(&world).pop().unwrap();
    let whole = world.mem.content(&World::path(&name)).unwrap();
    for at in (0..whole.len()).filter(|at| at % 31 == 0 || (4608..4700).contains(at)) {
        let world = World::on(world.mem.kill(), 1);
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        world.mem.put_content(&World::path(&name), &bytes);
        let session = kept(&world);
        let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
        let mut delivered = 0;
        let error = loop {
            match changes.poll() {
                Ok(Some(_)) => delivered += 1,
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        match error {
            Some(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}"),
            // A damaged copy of the header, zeroes after the records, or a segment left out.
            None => assert!(delivered == 20 || delivered == 0, "byte {at}: {delivered}"),
        }
    }
}
