//! Many keyspaces: made together, there together after a crash, or not at all.

use crate::support::{hashed, open, small};
use flagstone::env::names::FileKind;
use flagstone::env::{Effect, Failure, Fault, Op};
use flagstone::{Compression, ErrorKind, KeyspaceOptions};
use flagstone_testkit::World;

fn names() -> impl Iterator<Item = String> {
    (0..300).map(|n| format!("keyspace {n}"))
}

#[test]
fn keyspaces_made_by_one_call_cost_one_write_of_the_disk_and_survive_a_power_cut_together() {
    let world = World::new(1);
    let session = open(&world, &small());
    let operations = |names: Vec<String>| {
        let before = world.disk.operations();
        (session.db.keyspaces_with(names, &hashed(2)).unwrap(), world.disk.operations() - before)
    };
    let (_, of_one) = operations(vec!["one".to_owned()]);
    let (made, of_all) = operations(names().collect());
    assert_eq!(of_all, of_one, "one append and one sync");
    assert!(made.iter().map(|keyspace| keyspace.name().to_owned()).eq(names()));
    made[299].put("a", "1").unwrap();
    // Those that are there are opened, a name given twice is one keyspace.
    let again = session.db.keyspaces_with(["new", "keyspace 299", "new"], &hashed(2)).unwrap();
    assert_eq!(again[1].get("a").unwrap().unwrap(), b"1");
    again[0].put("b", "2").unwrap();
    assert_eq!(again[2].get("b").unwrap().unwrap(), b"2");
    let after = world.after_power_cut(0);
    let session = open(&after, &small());
    assert_eq!(session.db.keyspaces().len(), 302);
}

#[test]
fn an_option_that_is_set_to_another_value_is_refused_and_both_values_are_named() {
    let world = World::new(3);
    let session = open(&world, &small());
    let chosen = || hashed(2).block_bytes(2048).compression(Compression::None);
    session.db.keyspace_with("kv", chosen()).unwrap();
    session.db.collection_with("docs", chosen()).unwrap();
    session.db.close().unwrap();
    let db = open(&world, &small()).db;
    for (other, has, asked) in [
        (chosen().block_bytes(4096), "blocks of 2048 bytes", "blocks of 4096 bytes"),
        (chosen().compression(Compression::Lz4), "compression none", "compression lz4"),
        (chosen().bottom_compression(Compression::None), "compression zstd 1", "compression none"),
        (chosen().filter_bits(3), "10 filter bits", "3 filter bits"),
    ] {
        for error in [
            db.keyspace_with("kv", other.clone()).unwrap_err(),
            db.collection_with("docs", other).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains(has) && text.contains(asked), "{text}");
        }
    }
    for same in [chosen(), KeyspaceOptions::new(), KeyspaceOptions::new().block_bytes(2048)] {
        db.keyspace_with("kv", same.clone()).unwrap();
        db.collection_with("docs", same).unwrap();
    }
}

#[test]
fn keyspaces_of_a_call_that_fails_are_not_there() {
    let world = World::new(2);
    let session = open(&world, &small());
    session.db.keyspace_with("keyspace 7", hashed(1)).unwrap();
    let mismatch = session.db.keyspaces_with(names(), &hashed(2)).unwrap_err();
    assert_eq!(mismatch.kind(), ErrorKind::InvalidInput, "{mismatch}");
    let fault = Fault::new(Effect::Fail(Failure::NoSpace)).of(FileKind::Manifest);
    world.disk.inject(fault.on(&[Op::Append]).forever());
    let refused = session.db.keyspaces_with(names(), &hashed(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
    assert_eq!(session.db.keyspaces().len(), 1);
    world.disk.heal();
    assert_eq!(session.db.keyspaces_with(names(), &hashed(1)).unwrap().len(), 300);
    session.db.close().unwrap();
    assert_eq!(open(&world, &small()).db.keyspaces().len(), 300);
}
