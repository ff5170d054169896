//! Does an error leave us whole? Every k-th operation of the disk fails once: what was acknowledged
//! is there, what failed is absent, the database works on or says Poisoned. And a disk that is
//! full.

use crate::support::{folding, hashed, small_with};
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{Durability, ErrorKind, KeyspaceOptions, Options, Routing, Space};
use flagstone_testkit::history::End;
use flagstone_testkit::workload::{Step, Workload};
use flagstone_testkit::{History, Promise, World, dump, rounds, seed};

/// Partitions that split and merge all the time have this size.
const SPLIT_BYTES: u64 = 1 << 10;

const FOLDS: [Option<&str>; 3] = [None, Some("add-i64/1"), None];

fn keyspaces() -> Vec<KeyspaceOptions> {
    let ranged = hashed(1).routing(Routing::Range(Vec::new()));
    vec![hashed(4), folding(2, "add-i64/1"), ranged]
}

fn fail_everywhere(name: &str, durability: Durability, effects: &[Effect]) {
    fail_everywhere_with(name, &small_with(durability), effects);
}

/// The same with partitions that split and merge all the time.
fn fail_splits(name: &str, durability: Durability) {
    fail_everywhere_with(name, &small_with(durability).split_bytes(SPLIT_BYTES), &FAIL);
}

fn fail_everywhere_with(name: &str, options: &Options, effects: &[Effect]) {
    let seed = seed(name, 21);
    for round in 0..rounds(1, 30) {
        let seed = seed + round;
        let steps = Workload::new(seed, &FOLDS, 60).write_steps(120);
        let world = World::new(seed);
        let (end, session) = History::new(&keyspaces()).run(&world, options, &keyspaces(), &steps);
        assert_eq!(end, End::Finished);
        let stats = session.unwrap().db.stats();
        let is_split = stats.splits > 0 || stats.keyspaces[2].partitions > 1;
        assert!(options.split_bytes > SPLIT_BYTES || is_split, "{stats:?}");
        let total = world.disk.operations();
        let stride = (total / rounds(70, 1000)).max(1);
        let mut at = 1 + seed % stride;
        while at <= total {
            for effect in effects {
                fail_once(seed, at, *effect, options, &steps);
            }
            at += stride;
        }
    }
}

fn fail_once(seed: u64, at: u64, effect: Effect, options: &Options, steps: &[Step]) {
    let (world, keyspaces) = (World::new(seed), keyspaces());
    let mut history = History::new(&keyspaces);
    world.disk.inject(Fault::new(effect).nth(at));
    eprintln!("seed {seed}, {:?}, {effect:?} at operation {at}", options.durability);
    let (end, session) = history.run(&world, options, &keyspaces, steps);
    world.disk.heal();
    if let (End::Finished, Some(session)) = (end, &session) {
        history.check_live(&session.db);
        session.db.verify().unwrap();
        goes_on(&mut history, session, options);
    }
    let (after, promise) = match at % 3 {
        // Closing: nothing acknowledged is lost, or an error says that it may be.
        0 => {
            if let Some(session) = session {
                let closed = history.close(session);
                assert!(closed.is_ok() || world.disk.hits() > 0, "{closed:?}");
            }
            (world.after_power_cut(at), Promise::PowerCut)
        }
        1 => (world.after_kill(at), Promise::Kill),
        _ => (world.after_power_cut(at), Promise::PowerCut),
    };
    let again = after.open(options).unwrap();
    history.check_recovered(&again.db, promise);
    again.db.verify().unwrap();
}

/// With a healthy disk again, writes work or say Poisoned.
fn goes_on(history: &mut History, session: &flagstone_testkit::Session, options: &Options) {
    let kv = session.db.keyspaces().into_iter().find(|info| info.name == "ks0").unwrap();
    let kv = session.db.space("ks0").options(kv.options).keyspace().unwrap();
    match kv.put("afterwards", "1") {
        Ok(()) => {
            let change = flagstone_testkit::Change::Put(0, b"afterwards".to_vec(), b"1".to_vec());
            history.commit(&[change], options.durability);
            history.check_live(&session.db);
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Poisoned, "{error:?}"),
    }
}

const FAIL: [Effect; 2] = [Effect::Fail(Failure::Io), Effect::Fail(Failure::NoSpace)];
const SHORT: [Effect; 2] = [Effect::Short(13, Failure::Io), Effect::FailAfter(Failure::Io)];

#[test]
fn a_failed_operation_loses_nothing_acknowledged_with_buffered_commits() {
    let name = "a_failed_operation_loses_nothing_acknowledged_with_buffered_commits";
    fail_everywhere(name, Durability::Buffered, &FAIL);
}

#[test]
fn a_failed_operation_loses_nothing_acknowledged_with_group_commits() {
    let name = "a_failed_operation_loses_nothing_acknowledged_with_group_commits";
    fail_everywhere(name, Durability::Group, &FAIL);
}

#[test]
fn a_failed_operation_keeps_a_whole_cut_of_unlogged_commits() {
    let name = "a_failed_operation_keeps_a_whole_cut_of_unlogged_commits";
    fail_everywhere(name, Durability::None, &FAIL);
}

#[test]
fn a_failed_operation_loses_nothing_while_partitions_split_and_merge() {
    let name = "a_failed_operation_loses_nothing_while_partitions_split_and_merge";
    fail_splits(name, Durability::Buffered);
    fail_splits(name, Durability::None);
}

#[test]
fn a_short_write_loses_nothing_acknowledged() {
    let name = "a_short_write_loses_nothing_acknowledged";
    fail_everywhere(name, Durability::Buffered, &SHORT);
    fail_everywhere(name, Durability::Group, &SHORT);
}

#[test]
fn a_full_disk_refuses_writes_and_serves_reads_until_there_is_room_again() {
    let (world, options) = (World::new(8), small_with(Durability::Buffered));
    let session = world.open(&options).unwrap();
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    let value = vec![7; 4000];
    let key = |n: u32| n.to_be_bytes();
    for n in 0..100 {
        kv.put(key(n), &value).unwrap();
    }
    session.db.flush().unwrap();
    world.disk.set_room(Some(300_000));
    let mut written = 100;
    let error = loop {
        match kv.put(key(written), &value) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the disk never became full");
    };
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error:?}");
    for n in 0..written {
        assert_eq!(kv.get(key(n)).unwrap().as_deref(), Some(value.as_slice()), "key {n}");
    }
    assert_eq!(kv.get(key(written)).unwrap(), None, "the refused write is absent");
    assert_eq!(kv.put(key(written), &value).unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert_eq!(dump(&kv).unwrap().len(), written as usize);
    world.disk.set_room(None);
    kv.put(key(written), &value).expect("writing resumes when there is room");
    session.db.flush().unwrap();
    drop(kv);
    session.db.close().unwrap();
    let again = world.open(&options).unwrap();
    let kv = again.db.space("kv").options(hashed(4)).keyspace().unwrap();
    assert_eq!(kv.count().unwrap(), u64::from(written) + 1);
}

/// A removal that was refused may stand in the manifest all the same. Until a new manifest has been
/// begun, what is acknowledged could go with it.
#[test]
fn a_keyspace_whose_removal_may_come_back_takes_no_writes() {
    let (world, options) = (World::new(9), small_with(Durability::Group));
    let session = world.open(&options).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let refuse = |creation: Fault| {
        let append = Fault::new(Effect::FailAfter(Failure::Io)).on(&[Op::Append]);
        world.disk.inject(append.of(FileKind::Manifest));
        world.disk.inject(creation.on(&[Op::Create]).of(FileKind::Manifest));
        session.db.drop_keyspace("kv").unwrap_err();
    };
    let full = Fault::new(Effect::Fail(Failure::NoSpace));
    refuse(full.clone());
    kv.put("b", "2").expect("a new manifest was begun at the second try");
    let other = session.db.space("other").options(hashed(1)).keyspace().unwrap();
    refuse(full.forever());
    // The manifest is in doubt already: this edit is in no file.
    session.db.drop_keyspace("other").unwrap_err();
    assert_eq!(kv.put("c", "3").unwrap_err().kind(), ErrorKind::Io);
    other.put("d", "4").unwrap();
    assert_eq!(kv.get("b").unwrap().as_deref(), Some(&b"2"[..]));
    world.disk.heal();
    session.db.flush().unwrap();
    kv.put("e", "5").unwrap();
    let again = world.after_power_cut(1).open(&options).unwrap();
    let kv = again.db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert_eq!(kv.count().unwrap(), 3, "a, b and e");
}

/// What is acknowledged meanwhile would be found under the new name.
#[test]
fn a_keyspace_whose_renaming_may_come_back_takes_no_writes() {
    let (world, options) = (World::new(9), small_with(Durability::Group));
    let session = world.open(&options).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let refuse = |change: &dyn Fn() -> flagstone::Result<()>| {
        let append = Fault::new(Effect::FailAfter(Failure::Io)).on(&[Op::Append]);
        world.disk.inject(append.of(FileKind::Manifest));
        let create = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create]);
        world.disk.inject(create.of(FileKind::Manifest).forever());
        change().unwrap_err();
    };
    refuse(&|| session.db.alter_keyspace("kv", KeyspaceOptions::new().block_bytes(8192)));
    kv.put("b", "2").expect("only tables to come would differ");
    world.disk.heal();
    session.db.flush().unwrap();
    refuse(&|| session.db.rename_keyspace("kv", "new"));
    let refused = kv.put("c", "3").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io);
    assert!(refused.to_string().contains("rename keyspace \"kv\""), "{refused}");
    assert_eq!(kv.get("b").unwrap().as_deref(), Some(&b"2"[..]));
    let crashed = world.after_kill(1).open(&options).unwrap();
    let found = crashed.db.keyspaces();
    assert_eq!((found.len(), found[0].name.as_str()), (1, "new"), "it came back");
    assert_eq!(crashed.db.space("new").existing().keyspace().unwrap().unwrap().count().unwrap(), 2);
    world.disk.heal();
    session.settle();
    kv.put("d", "4").unwrap();
    let again = world.after_power_cut(1).open(&options).unwrap();
    assert_eq!(again.db.space("kv").existing().keyspace().unwrap().unwrap().count().unwrap(), 3);
}
