//! Does the scrub read every table, and does it report damage that no read has met yet?

use crate::support::{hashed, small};
use flagstone::admin::Event;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Executor, Failure, Fault, Op};
use flagstone::report::ScrubReport;
use flagstone::{Database, ErrorKind, Space};
use flagstone_testkit::{Session, World};
use std::sync::{Arc, Mutex};

const RATE: u64 = 100_000;

fn open(world: &World, damages: &Arc<Mutex<Vec<String>>>) -> Session {
    let heard = Arc::clone(damages);
    let listener = move |event: &Event| {
        if let Event::TableDamaged(table) = event {
            heard.lock().unwrap().push(table.file.display().to_string());
        }
    };
    let (environment, executor) = world.environment();
    let options = small().scrub_bytes_per_second(RATE);
    let builder = Database::builder(World::dir()).options(options).listener(listener);
    let db = builder.environment(environment).open().unwrap();
    Session::of(world, db, executor)
}

/// Runs background work, whose rests this executor passes over, until the scrub has come so far.
fn scrub(session: &Session, until: impl Fn(&ScrubReport) -> bool) {
    for _ in 0..10_000 {
        if until(&session.db.stats().scrub) {
            return;
        }
        session.executor.assist();
    }
    panic!("{:?}", session.db.stats().scrub);
}

/// Three tables of some 100 KB that cannot be compressed.
fn fill(session: &Session) -> u64 {
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    for table in 0..3_u32 {
        for n in 0..200_u32 {
            let word = |at: u64| flagstone_base::hash::remix(at + u64::from(table * 1000 + n) * 64);
            let value: Vec<u8> = (0..64).flat_map(|at| word(at).to_le_bytes()).collect();
            kv.put((table * 1000 + n).to_be_bytes(), value).unwrap();
        }
        session.db.flush().unwrap();
    }
    session.db.stats().table_bytes()
}

#[test]
fn all_tables_are_read_and_what_is_damaged_is_told_once() {
    let (world, damages) = (World::new(1), Arc::default());
    let session = open(&world, &damages);
    let bytes = fill(&session);
    assert!(bytes > 250_000, "{bytes}");
    let tables = session.db.stats().tables();
    let before = session.db.stats().scrub;
    let from = before.rounds + 1;
    scrub(&session, |scrub| scrub.rounds == from);
    let before = session.db.stats().scrub;
    scrub(&session, |scrub| scrub.rounds == from + 1);
    let stats = session.db.stats().scrub;
    let read = (stats.tables - before.tables, stats.bytes - before.bytes, stats.damaged);
    assert_eq!(read, (tables, bytes, 0));
    assert!(damages.lock().unwrap().is_empty());

    let table = world.files().into_iter().rfind(|name| name.ends_with(".sst")).unwrap();
    let mut content = world.mem.content(&World::path(&table)).unwrap();
    content[5000] ^= 1;
    world.mem.put_content(&World::path(&table), &content);
    scrub(&session, |scrub| scrub.rounds == from + 4);
    let stats = session.db.stats().scrub;
    assert!(stats.damaged >= 2 && stats.tables > read.0 + 2 * tables, "{stats:?}");
    assert_eq!(*damages.lock().unwrap(), [World::path(&table).display().to_string()]);
}

#[test]
fn a_device_that_refuses_to_read_is_damage_and_the_others_are_read() {
    let (world, damages) = (World::new(2), Arc::default());
    let session = open(&world, &damages);
    fill(&session);
    let tables = session.db.stats().tables();
    let from = session.db.stats().scrub.rounds + 1;
    scrub(&session, |scrub| scrub.rounds == from);
    let before = session.db.stats().scrub;
    let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Read]).of(FileKind::Table);
    world.disk.inject(fault);
    scrub(&session, |scrub| scrub.rounds == from + 1);
    let stats = session.db.stats().scrub;
    assert_eq!((stats.tables - before.tables, stats.damaged), (tables - 1, 1));
}

/// The file that it reads is one more than the tables that are open.
#[test]
fn a_process_without_a_free_descriptor_closes_a_table_for_the_scrub() {
    let (world, damages) = (World::new(4), Arc::default());
    let session = open(&world, &damages);
    fill(&session);
    let from = session.db.stats().scrub.rounds + 1;
    scrub(&session, |scrub| scrub.rounds == from);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert_eq!(kv.count().unwrap(), 600);
    let (open, tables) = (session.db.stats().files_open, session.db.stats().tables());
    assert!(open as u64 >= tables, "{open} of {tables}");
    world.disk.set_open_files_max(Some(world.disk.open_files()));
    let before = session.db.stats().scrub;
    scrub(&session, |scrub| scrub.rounds == from + 2);
    let after = session.db.stats().scrub;
    assert_eq!((after.tables - before.tables, after.damaged), (2 * tables, 0));
    assert!(damages.lock().unwrap().is_empty());
}

#[test]
fn a_quick_verification_reads_both_ends_of_a_table_and_no_block() {
    let world = World::new(3);
    let session = world.open(&small()).unwrap();
    fill(&session);
    session.db.close().unwrap();
    let open = || {
        let builder = Database::builder(World::dir()).options(small());
        builder.environment(world.environment().0).open_read_only().unwrap()
    };
    assert!(open().verify_quickly().unwrap().to_string().contains("no block was read"));
    let table = world.files().into_iter().find(|name| name.ends_with(".sst")).unwrap();
    let path = World::path(&table);
    let whole = world.mem.content(&path).unwrap();
    let verified = |at: usize| {
        let mut content = whole.clone();
        content[at] ^= 1;
        world.mem.put_content(&path, &content);
        let kind = |error: flagstone::Error| error.kind();
        let db = open();
        (db.verify_quickly().map(drop).map_err(kind), db.verify().map(drop).map_err(kind))
    };
    let bad = Err(ErrorKind::Corruption);
    assert_eq!(verified(10), (bad, bad), "the header");
    assert_eq!(verified(whole.len() - 10), (bad, bad), "the footer");
    assert_eq!(verified(5000), (Ok(()), bad), "a block");
}
