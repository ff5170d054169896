//! Can a full disk be left by deleting, with the room that the ballast kept?

use crate::support::{hashed, small_with};
use flagstone::admin::Event;
use flagstone::internal::env::names::BALLAST;
use flagstone::{Durability, ErrorKind, Keyspace, Options, Space};
use flagstone_testkit::{Session, World};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BYTES: u64 = 768 << 10;

fn options(ballast: u64) -> Options {
    small_with(Durability::Buffered).ballast_bytes(ballast)
}

fn is_there(world: &World) -> bool {
    world.files().iter().any(|name| name == BALLAST)
}

/// A value that no compression makes shorter.
fn noise(n: u32) -> Vec<u8> {
    let word = |at: u32| flagstone_base::hash::remix(u64::from(n) << 32 | u64::from(at));
    (0..64).flat_map(|at| word(at).to_le_bytes()).collect()
}

/// Writes until the disk is full, and takes the last room; how many keys were acknowledged.
fn fill(world: &World, session: &Session, kv: &Keyspace) -> u32 {
    session.settle();
    world.disk.set_room(Some(4 << 20));
    let mut n = 0_u32;
    loop {
        match kv.put(n.to_be_bytes(), noise(n)) {
            Ok(()) => n += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                return n;
            }
        }
        if n.is_multiple_of(64) {
            session.settle();
        }
        assert!(n < 100_000, "the disk is never full");
    }
}

#[test]
fn a_full_disk_is_left_by_deletes_and_then_takes_all_writes_again() {
    let world = World::new(1);
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&events);
    let listener = move |event: &Event| {
        if matches!(event, Event::BallastGivenUp { .. } | Event::BallastCreated { .. }) {
            heard.lock().unwrap().push(event.to_string());
        }
    };
    let (environment, executor) = world.environment();
    let builder = flagstone::Database::builder(World::dir()).options(options(BYTES));
    let db = builder.environment(environment).listener(listener).open().unwrap();
    let session = Session::of(&world, db, executor);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    session.settle();
    assert!(is_there(&world));
    let count = fill(&world, &session, &kv);
    assert!(!is_there(&world), "given up");
    // What fills the disk does not get its room.
    for _ in 0..3 {
        let error = kv.put("more", noise(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        assert!(error.to_string().contains("only deletes"), "{error}");
        session.settle();
    }
    kv.delete_range(10_u32.to_be_bytes()..count.to_be_bytes()).unwrap();
    kv.delete(0_u32.to_be_bytes()).unwrap();
    session.db.flush().unwrap();
    session.db.compact().unwrap();
    world.clock.advance(Duration::from_secs(2));
    session.settle();
    assert!(is_there(&world), "there is room again");
    kv.put("more", noise(0)).unwrap();
    assert_eq!(kv.count().unwrap(), 10);
    session.db.flush().unwrap();
    let told = events.lock().unwrap().clone();
    let of = |what: &str| told.iter().filter(|told| told.contains(what)).count();
    assert!(of("given up") >= 1 && of("was created") == of("given up") + 1, "{told:?}");
    session.db.verify().unwrap();
    drop((kv, session));
    let session = world.open(&options(BYTES)).unwrap();
    assert!(is_there(&world), "found");
    assert_eq!(session.db.space("kv").options(hashed(1)).keyspace().unwrap().count().unwrap(), 10);
}

/// Its room is there before the flush is tried again; and the file only when there is room for two
/// of it.
#[test]
fn a_flush_that_does_not_fit_is_tried_again_in_the_room_of_the_ballast() {
    let world = World::new(8);
    let session = world.open(&options(BYTES)).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    (0..200_u32).for_each(|n| kv.put(n.to_be_bytes(), noise(n)).unwrap());
    session.settle();
    assert!(is_there(&world));
    world.disk.set_room(Some(0));
    let first = session.db.flush();
    assert!(!is_there(&world), "given up: {first:?}");
    session.db.flush().unwrap();
    assert_eq!(session.db.stats().memtable_bytes, 0);
    let later = |room: u64| {
        world.disk.set_room(Some(room));
        world.clock.advance(Duration::from_secs(2));
        session.settle();
        is_there(&world)
    };
    assert!(!later(2 * BYTES - 1));
    assert_eq!(kv.put("more", noise(0)).unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert!(later(2 * BYTES));
    kv.put("more", noise(0)).unwrap();
}

#[test]
fn without_a_ballast_a_full_disk_stays_full_until_something_else_makes_room() {
    let world = World::new(2);
    let session = world.open(&options(0)).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let count = fill(&world, &session, &kv);
    assert!(!is_there(&world));
    world.disk.set_room(Some(0));
    let deleted = kv
        .delete_range(10_u32.to_be_bytes()..count.to_be_bytes())
        .and_then(|()| session.db.flush());
    assert_eq!(deleted.unwrap_err().kind(), ErrorKind::OutOfSpace);
    world.disk.set_room(None);
    session.settle();
    kv.put("more", noise(0)).unwrap();
}

#[test]
fn a_database_on_a_full_disk_is_opened_with_the_room_of_the_ballast() {
    let world = World::new(3);
    let session = world.open(&options(BYTES)).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    session.settle();
    assert!(is_there(&world));
    let after = world.after_kill(1);
    after.disk.set_room(Some(0));
    let session = after.open(&options(BYTES)).unwrap();
    assert!(!is_there(&after));
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert_eq!(kv.get("a").unwrap().unwrap(), b"1");
    assert_eq!(kv.put("b", "1").unwrap_err().kind(), ErrorKind::OutOfSpace);
    kv.delete("a").unwrap();
    after.disk.set_room(Some(100 << 20));
    after.clock.advance(Duration::from_secs(2));
    session.settle();
    kv.put("b", "1").unwrap();
    assert!(is_there(&after));
}

#[test]
fn unless_it_is_asked_for_a_small_database_has_none_and_of_another_size_it_is_made_again() {
    let world = World::new(4);
    let session = world.open(&small_with(Durability::Buffered)).unwrap();
    session.db.keyspace("kv").unwrap().put("a", "1").unwrap();
    session.db.flush().unwrap();
    session.settle();
    assert!(!is_there(&world));
    drop(session);
    for bytes in [100_000, 50_000, 0] {
        let session = world.open(&options(bytes)).unwrap();
        session.settle();
        let len = world.mem.content(&World::path(BALLAST)).map_or(0, |content| content.len());
        assert_eq!(len as u64, bytes);
        session.db.close().unwrap();
    }
}

/// Without a ballast, and without room for a flush: what is replayed stays in memory, and the
/// database is open, so that something in it can be given up.
#[test]
fn a_log_that_does_not_fit_on_a_full_disk_stays_in_memory_until_there_is_room() {
    let world = World::new(5);
    let session = world.open(&options(0)).unwrap();
    let old = session.db.space("old").options(hashed(1)).keyspace().unwrap();
    (0..1000_u32).for_each(|n| old.put(n.to_be_bytes(), noise(n)).unwrap());
    session.db.flush().unwrap();
    session.settle();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let mut count = 0_u32;
    // A replay flushes from 256 KiB on.
    while session.db.stats().memtable_bytes < 350 << 10 {
        kv.put(count.to_be_bytes(), noise(count)).unwrap();
        count += 1;
    }
    let after = world.after_kill(1);
    after.disk.set_room(Some(100_000));
    let session = after.open(&options(0)).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert_eq!(kv.count().unwrap(), u64::from(count));
    session.settle();
    assert!(session.db.stats().memtable_bytes >= 256 << 10, "nothing fits");
    assert!(session.db.drop_keyspace("old").unwrap());
    after.clock.advance(Duration::from_secs(2));
    session.settle();
    session.db.flush().unwrap();
    assert_eq!(session.db.stats().memtable_bytes, 0);
    kv.put("more", noise(0)).unwrap();
    assert_eq!(kv.count().unwrap(), u64::from(count) + 1);
}

#[test]
fn a_ballast_that_is_as_large_as_what_is_free_is_given_up_for_the_replay() {
    let world = World::new(6);
    let session = world.open(&options(BYTES)).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    session.settle();
    assert!(is_there(&world));
    while session.db.stats().memtable_bytes < 350 << 10 {
        let n = session.db.stats().visible_seqno as u32;
        kv.put(n.to_be_bytes(), noise(n)).unwrap();
    }
    let after = world.after_kill(1);
    // Looked at as a whole it is enough; the manifest and the flush take more than its half.
    after.disk.set_room(Some(100_000));
    let session = after.open(&options(BYTES)).unwrap();
    assert!(!is_there(&after));
    session.db.flush().unwrap();
    assert_eq!(session.db.stats().memtable_bytes, 0);
}

#[test]
fn an_open_that_finds_no_room_says_how_much_it_needs_or_that_memory_would_do() {
    let world = World::new(7);
    let large = options(0).memory_budget(4 << 20);
    let session = world.open(&large).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let mut count = 0_u32;
    while session.db.stats().memtable_bytes < 1500 << 10 {
        kv.put(count.to_be_bytes(), noise(count)).unwrap();
        count += 1;
    }
    let full = |room| {
        let after = world.after_kill(1);
        after.disk.set_room(Some(room));
        after
    };
    let refused = |room, options: &Options| {
        let error = full(room).open(options).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        error.to_string()
    };
    let text = refused(0, &large);
    assert!(text.contains("to be freed outside of the database"), "{text}");
    let text = refused(100_000, &options(0));
    assert!(text.contains("open it once with a larger budget"), "{text}");
    let session = full(100_000).open(&large).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert_eq!(kv.count().unwrap(), u64::from(count));
}
