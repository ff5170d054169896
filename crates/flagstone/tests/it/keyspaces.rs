//! Many keyspaces: made together, there together after a crash, or not at all.

use crate::support::{hashed, open, small};
use flagstone::ErrorKind;
use flagstone::env::names::FileKind;
use flagstone::env::{Effect, Failure, Fault, Op};
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
