//! Can a full disk be left by deleting, with the room that the ballast kept?

use crate::support::{hashed, small_with};
use flagstone::env::names::BALLAST;
use flagstone::{Durability, ErrorKind, Event, Keyspace, Options};
use flagstone_testkit::{Session, World};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BYTES: u64 = 768 << 10;

fn options(ballast: u64) -> Options {
    Options { ballast_bytes: Some(ballast), ..small_with(Durability::Buffered) }
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
        if matches!(event, Event::BallastGivenUp { .. } | Event::BallastMade { .. }) {
            heard.lock().unwrap().push(event.to_string());
        }
    };
    let (environment, executor) = world.environment();
    let builder = flagstone::Database::builder(World::dir()).options(options(BYTES));
    let db = builder.environment(environment).listener(listener).open().unwrap();
    let session = Session::of(&world, db, executor);
    let kv = session.db.keyspace_with("kv", hashed(1)).unwrap();
    session.settle();
    assert!(is_there(&world));
    let count = fill(&world, &session, &kv);
    assert!(!is_there(&world), "given up");
    // What fills the disk does not get its room.
    for _ in 0..3 {
        let error = kv.put("more", noise(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        assert!(error.to_string().contains("deletes alone"), "{error}");
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
    assert!(of("given up") >= 1 && of("made") == of("given up") + 1, "{told:?}");
    session.db.verify().unwrap();
    drop((kv, session));
    let session = world.open(&options(BYTES)).unwrap();
    assert!(is_there(&world), "found");
    assert_eq!(session.db.keyspace_with("kv", hashed(1)).unwrap().count().unwrap(), 10);
}

#[test]
fn without_a_ballast_a_full_disk_stays_full_until_something_else_makes_room() {
    let world = World::new(2);
    let session = world.open(&options(0)).unwrap();
    let kv = session.db.keyspace_with("kv", hashed(1)).unwrap();
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
    let kv = session.db.keyspace_with("kv", hashed(1)).unwrap();
    kv.put("a", "1").unwrap();
    session.settle();
    assert!(is_there(&world));
    let after = world.after_kill(1);
    after.disk.set_room(Some(0));
    let session = after.open(&options(BYTES)).unwrap();
    assert!(!is_there(&after));
    let kv = session.db.keyspace_with("kv", hashed(1)).unwrap();
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
