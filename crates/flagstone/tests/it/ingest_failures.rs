//! Ingests that end by a crash, an error or a close: all entries are there or none, and no file is
//! left.

use crate::ingest::{entries, key};
use crate::support::{hashed, open, owned, small, small_with};
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{Database, Durability, ErrorKind, Ingest, Keyspace, Routing, Space};
use flagstone_testkit::{Session, World, dump};

const OLD: u32 = 60;
const FROM: u32 = 30;
const TO: u32 = 90;

fn tables(world: &World) -> Vec<String> {
    world.files().into_iter().filter(|name| name.ends_with(".sst")).collect()
}

fn keyspace(session: &Session) -> Keyspace {
    session.db.space("kv").options(hashed(3)).keyspace().unwrap()
}

/// A keyspace in whose tables and memtables the keys below `OLD` are.
fn prepared(world: &World, durability: Durability) -> (Session, Keyspace) {
    let session = open(world, &small_with(durability));
    let kv = keyspace(&session);
    for (key, value) in entries(0, OLD, "old") {
        kv.put(key, value).unwrap();
        if key[3] == 20 {
            session.db.flush().unwrap();
        }
    }
    (session, kv)
}

/// The number of keys with this value.
fn count(kv: &Keyspace, value: &str) -> u32 {
    let shown = dump(kv).unwrap();
    shown.values().filter(|found| *found == value.as_bytes()).count() as u32
}

/// Returns whether the keyspace shows the ingest, with what came before; or nothing of it.
fn shows_ingest(kv: &Keyspace) -> bool {
    let new = count(kv, "new");
    assert!(new == 0 || (new, count(kv, "old")) == (TO - FROM, FROM), "{new} entries");
    new > 0
}

/// Each partition synced the directory by itself.
#[test]
fn the_names_of_the_tables_of_all_partitions_are_synced_at_once() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(8)).keyspace().unwrap();
    let mut ingest = Ingest::new(&kv).unwrap();
    for (key, value) in entries(0, 200, "new") {
        ingest.put(key, value).unwrap();
    }
    let second = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::SyncDir]).nth(2);
    world.disk.inject(second.forever());
    assert_eq!(ingest.finish().unwrap().tables, 8);
}

#[test]
fn a_crash_at_any_change_keeps_all_of_it_or_nothing() {
    for durability in [Durability::None, Durability::Buffered] {
        for at in 1.. {
            let world = World::new(at);
            let (session, kv) = prepared(&world, durability);
            world.disk.cut_power_at(at);
            let done = session.db.ingest(&kv, entries(FROM, TO, "new"));
            let is_off = world.disk.is_off();
            for after in [world.after_kill(at), world.after_power_cut(at)] {
                let session = open(&after, &small_with(durability));
                let kv = keyspace(&session);
                let is_there = shows_ingest(&kv);
                assert!(is_there || done.is_err(), "{durability} at {at}: {done:?}");
                session.db.verify().unwrap();
                assert_eq!(tables(&after).len() as u64, session.db.stats().tables());
                session.db.ingest(&kv, entries(FROM, TO, "new")).unwrap();
                assert_eq!(count(&kv, "new"), TO - FROM);
            }
            if !is_off {
                assert!(done.is_ok() && at > 10, "{at}");
                break;
            }
        }
    }
}

#[test]
fn any_operation_that_fails_leaves_all_of_it_or_nothing() {
    let effects = [
        Effect::Fail(Failure::Io),
        Effect::Fail(Failure::NoSpace),
        Effect::FailAfter(Failure::Io),
        Effect::Short(13, Failure::Io),
    ];
    for effect in effects {
        for at in 1.. {
            let world = World::new(at);
            let (session, kv) = prepared(&world, Durability::Group);
            world.disk.inject(Fault::new(effect).nth(at));
            let done = session.db.ingest(&kv, entries(FROM, TO, "new"));
            let hits = world.disk.hits();
            world.disk.heal();
            assert_eq!(shows_ingest(&kv), done.is_ok(), "{effect:?} at {at}: {done:?}");
            let later = kv.put("later", "1");
            if let Err(error) = &later {
                assert_eq!(error.kind(), ErrorKind::Poisoned, "{effect:?} at {at}");
            } else {
                session.db.verify().unwrap();
            }
            let after = world.after_power_cut(at);
            let again = open(&after, &small());
            let kv = keyspace(&again);
            let is_there = shows_ingest(&kv);
            if later.is_ok() {
                assert_eq!(is_there, done.is_ok(), "{effect:?} at {at}: {done:?}");
                assert!(kv.get("later").unwrap().is_some());
            }
            assert!(is_there || done.is_err(), "{effect:?} at {at}");
            again.db.verify().unwrap();
            if hits == 0 {
                assert!(at > 10, "{at}");
                break;
            }
        }
    }
}

/// The manifest takes neither the edit nor a new file: a crash could bring the edit back.
#[test]
fn an_ingest_that_may_come_back_stops_the_writes_of_its_keyspace() {
    use flagstone::internal::env::Op;
    use flagstone::internal::env::names::FileKind;
    let world = World::new(9);
    let (session, kv) = prepared(&world, Durability::Group);
    session.db.flush().unwrap();
    let other = session.db.space("other").options(hashed(1)).keyspace().unwrap();
    let append = Fault::new(Effect::FailAfter(Failure::Io)).on(&[Op::Append]);
    world.disk.inject(append.of(FileKind::Manifest));
    let create = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create]);
    world.disk.inject(create.of(FileKind::Manifest).forever());
    session.db.ingest(&kv, entries(FROM, TO, "new")).unwrap_err();
    assert!(!shows_ingest(&kv));
    let refused = kv.put("later", "1").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io);
    assert!(refused.to_string().contains("add tables"), "{refused}");
    other.put("goes on", "1").unwrap();
    let crashed = open(&world.after_kill(1), &small());
    assert!(shows_ingest(&keyspace(&crashed)), "it came back, as a whole");
    crashed.db.verify().unwrap();
    world.disk.heal();
    session.settle();
    kv.put("later", "1").unwrap();
    let after = world.after_power_cut(1);
    let again = open(&after, &small());
    assert!(!shows_ingest(&keyspace(&again)));
    assert_eq!(tables(&after).len() as u64, again.db.stats().tables());
}

#[test]
fn an_ingest_that_is_dropped_or_refused_leaves_no_file() {
    let world = World::new(1);
    let (session, kv) = prepared(&world, Durability::Buffered);
    session.db.flush().unwrap();
    session.settle();
    let before = tables(&world);
    let mut ingest = Ingest::new(&kv).unwrap();
    entries(FROM, TO, "new").for_each(|(key, value)| ingest.put(key, value).unwrap());
    assert!(tables(&world).len() > before.len());
    drop(ingest);
    assert_eq!(tables(&world), before);
    let twice = entries(FROM, TO, "new").chain(entries(TO - 1, TO, "new"));
    session.db.ingest(&kv, twice).unwrap_err();
    assert_eq!(tables(&world), before);
    assert!(!shows_ingest(&kv));
}

/// A value that no compression makes shorter.
fn noise(n: u32) -> Vec<u8> {
    let word = |at: u32| flagstone_base::hash::remix(u64::from(n) << 32 | u64::from(at));
    (0..128).flat_map(|at| word(at).to_le_bytes()).collect()
}

#[test]
fn a_full_disk_ends_it_and_gets_its_room_back() {
    let world = World::new(1);
    let (session, kv) = prepared(&world, Durability::Buffered);
    session.db.flush().unwrap();
    session.settle();
    let before = tables(&world);
    world.disk.set_room(Some(1 << 20));
    let mut ingest = Ingest::new(&kv).unwrap();
    let error = (1000..5000).find_map(|n| ingest.put(key(n), noise(n)).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert_eq!(ingest.put(key(9000), "1").unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert_eq!(ingest.finish().unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert_eq!(tables(&world), before);
    let report = session.db.ingest(&kv, (1000..1400).map(|n| (key(n), noise(n)))).unwrap();
    assert!(report.bytes > 400 << 10, "{report}");
    assert_eq!(kv.count().unwrap(), u64::from(OLD) + 400);
}

#[test]
fn an_ingest_into_a_dropped_keyspace_or_a_closed_database_is_refused() {
    let world = World::new(1);
    let session = open(&world, &small());
    let (kv, gone) = (keyspace(&session), session.db.keyspace("gone").unwrap());
    let begin = |kv: &Keyspace| {
        let mut ingest = Ingest::new(kv).unwrap();
        ingest.put("a", "1").unwrap();
        ingest
    };
    let (mut put_into, finished) = (begin(&gone), begin(&gone));
    let (mut put_closed, finished_closed) = (begin(&kv), begin(&kv));
    assert!(session.db.drop_keyspace("gone").unwrap());
    assert_eq!(put_into.put("b", "1").unwrap_err().kind(), ErrorKind::InvalidInput);
    let error = finished.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("was dropped"), "{error}");
    assert_eq!(Ingest::new(&gone).unwrap_err().kind(), ErrorKind::InvalidInput);
    session.db.clone().close().unwrap();
    assert_eq!(put_closed.put("b", "1").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(finished_closed.finish().unwrap_err().kind(), ErrorKind::Closed);
    // The files of these two belong to nobody: an open may give their numbers again.
    let again = open(&world, &small());
    assert_eq!(tables(&world).len(), 0);
    let kv = keyspace(&again);
    kv.put("a", "2").unwrap();
    again.db.flush().unwrap();
    drop(put_closed);
    assert_eq!(owned(kv.get("a").unwrap()).unwrap(), b"2");
    again.db.verify().unwrap();
}

#[test]
fn other_databases_and_readers_are_refused() {
    let worlds = [World::new(1), World::new(2)];
    let [one, two] = worlds.each_ref().map(|world| open(world, &small()));
    let kv = keyspace(&one);
    let refused = two.db.ingest(&kv, [("a", "1")]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    one.db.clone().close().unwrap();
    drop((kv, one));
    let reader = worlds[0].open_read_only(&small()).unwrap();
    let kv = reader.db.space("kv").existing().keyspace().unwrap().unwrap();
    assert_eq!(Ingest::new(&kv).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn range_partitions_are_written_one_after_another() {
    let world = World::new(1);
    let options = small().files_open_max(16);
    let session = open(&world, &options);
    let bounds = (1..60).map(|n| key(n * 10).to_vec()).collect();
    let ranged = hashed(1).routing(Routing::Range(bounds));
    let kv = session.db.space("ranged").options(ranged).keyspace().unwrap();
    let many = session.db.space("hashed").options(hashed(60)).keyspace().unwrap();
    world.disk.set_open_files_max(Some(40));
    let report = session.db.ingest(&kv, entries(0, 600, "1")).unwrap();
    assert_eq!((report.tables, kv.count().unwrap()), (60, 600));
    let before = tables(&world);
    let error = session.db.ingest(&many, entries(0, 600, "1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(tables(&world), before);
    world.disk.set_open_files_max(None);
    session.db.ingest(&many, entries(0, 600, "1")).unwrap();
    assert_eq!(many.count().unwrap(), 600);
}

/// `Database::ingest` is usable with whatever an application has.
#[test]
fn entries_may_be_borrowed_or_owned() {
    let world = World::new(1);
    let session = open(&world, &small());
    let db: &Database = &session.db;
    let kv = db.keyspace("kv").unwrap();
    db.ingest(&kv, [("a", b"1")]).unwrap();
    db.ingest(&kv, vec![("b".to_owned(), vec![1, 2])]).unwrap();
    let sorted = std::collections::BTreeMap::from([(vec![9_u8], "9"), (vec![8], "8")]);
    db.ingest(&kv, &sorted).unwrap();
    assert_eq!(kv.count().unwrap(), 4);
}
