//! Renamings in the feed: a copy that is keyed by names follows them.
//!
//! They were not delivered, and changes had the names of now: after `a` and `b` had changed places,
//! a copy put everything into the wrong keyspace.

use super::{keeping, kept, lines};
use flagstone::changes::ChangesFrom;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{Durability, Json, Result, Space};
use flagstone_testkit::{Copy, Rng, Session, World, rounds, seed};

fn all(session: &Session) -> Vec<String> {
    lines(&mut session.db.changes(ChangesFrom::Start).unwrap())
}

#[test]
fn changes_have_the_names_of_their_time_and_renamings_come_between() {
    let mut world = World::new(1);
    let session = kept(&world);
    let db = &session.db;
    let kv = db.keyspace("a").unwrap();
    kv.put("k", "1").unwrap();
    db.keyspace("b").unwrap().put("k", "2").unwrap();
    // They change places.
    db.rename_keyspace("a", "t").unwrap();
    kv.put("k", "3").unwrap();
    db.rename_keyspace("b", "a").unwrap();
    db.rename_keyspace("t", "b").unwrap();
    kv.put("k", "4").unwrap();
    db.keyspace("a").unwrap().put("k", "5").unwrap();
    db.sync().unwrap();
    let expected = [
        "a put k=1",
        "b put k=2",
        "a renamed t",
        "t put k=3",
        "b renamed a",
        "t renamed b",
        "b put k=4",
        "a put k=5",
    ];
    assert_eq!(all(&session), expected);
    let only = |session: &Session, name| {
        lines(&mut session.db.changes(ChangesFrom::Start).unwrap().only([name]))
    };
    assert_eq!(only(&session, "t"), ["a renamed t", "t put k=3", "t renamed b"]);
    let of_b = ["b put k=2", "b renamed a", "t renamed b", "b put k=4"];
    assert_eq!(only(&session, "b"), of_b);
    drop(kv);
    for life in 0..3 {
        world = match life {
            0 => world.after_kill(2),
            1 => world.after_power_cut(0),
            _ => {
                kept(&world).db.close().unwrap();
                world
            }
        };
        let reader = world.open_read_only(&keeping()).unwrap();
        assert_eq!(all(&reader), expected);
        reader.db.close().unwrap();
        let session = kept(&world);
        assert_eq!(all(&session), expected);
        assert_eq!(only(&session, "b"), of_b);
    }
}

#[test]
fn collections_are_renamed_and_names_used_again() {
    let world = World::new(1);
    let session = kept(&world);
    let db = &session.db;
    let mut copy = Copy::default();
    copy.follow(db).unwrap();
    db.collection("c").unwrap().put(1, Json(r#"{"n":1}"#)).unwrap();
    db.rename_keyspace("c", "d").unwrap();
    db.collection("c").unwrap().put(1, Json(r#"{"n":2}"#)).unwrap();
    db.rename_keyspace("d", "e").unwrap();
    db.rename_keyspace("c", "d").unwrap();
    db.collection("d").unwrap().put(2, Json(r#"{"n":3}"#)).unwrap();
    assert!(db.drop_keyspace("d").unwrap());
    db.collection("d").unwrap().put(3, Json(r#"{"n":4}"#)).unwrap();
    db.sync().unwrap();
    copy.follow(db).unwrap();
    copy.check(db).unwrap();
    let names: Vec<_> = all(&session)
        .into_iter()
        .filter(|line| line.contains("renamed") || line.contains("dropped"))
        .collect();
    // What was dropped later goes when it is renamed: nothing more of it is delivered.
    assert_eq!(names, ["c renamed d", "d renamed e", "c dropped", "d dropped"]);
    let error = db.rename_keyspace("e", "d").unwrap_err();
    assert_eq!(error.kind(), flagstone::ErrorKind::InvalidInput);
    copy.follow(db).unwrap();
    copy.check(db).unwrap();
}

/// A renaming or a drop that the disk refuses is noted in the log already. No reader is told.
#[test]
fn what_was_refused_is_not_told() {
    let world = World::new(1);
    let session = kept(&world);
    let db = &session.db;
    let kv = db.keyspace("a").unwrap();
    kv.put("k", "1").unwrap();
    db.flush().unwrap();
    for n in 0..2 {
        let fault = Fault::new(Effect::Fail(Failure::NoSpace)).of(FileKind::Manifest);
        world.disk.inject(fault.on(&[Op::Append]).forever());
        match n {
            0 => assert!(db.rename_keyspace("a", "b").is_err()),
            _ => assert!(db.drop_keyspace("a").is_err()),
        }
        world.disk.heal();
    }
    session.settle();
    kv.put("k", "2").unwrap();
    db.sync().unwrap();
    assert_eq!(all(&session), ["a put k=1", "a put k=2"]);
    db.rename_keyspace("a", "b").unwrap();
    kv.put("k", "3").unwrap();
    db.sync().unwrap();
    let expected = ["a put k=1", "a put k=2", "a renamed b", "b put k=3"];
    assert_eq!(all(&session), expected);
}

/// While a crash could bring back a renaming that was refused, a reader waits before its note. It
/// passed over the note, and was never told when the crash did so.
#[test]
fn a_renaming_in_doubt_is_told_if_a_crash_brings_it_back() {
    let world = World::new(1);
    let session = kept(&world);
    let db = &session.db;
    let kv = db.keyspace("a").unwrap();
    kv.put("k", "1").unwrap();
    db.flush().unwrap();
    // The edit is in the file, and nothing can be written that says otherwise.
    let fault = Fault::new(Effect::FailAfter(Failure::Io)).of(FileKind::Manifest);
    world.disk.inject(fault.on(&[Op::Append]).forever());
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create]);
    world.disk.inject(full.of(FileKind::Manifest).forever());
    db.rename_keyspace("a", "b").unwrap_err();
    let mut changes = db.changes(ChangesFrom::Start).unwrap();
    assert_eq!(lines(&mut changes), ["a put k=1"]);
    let token = changes.token();
    drop((changes, kv));
    let brought_back = world.after_kill(2);
    let opened = kept(&brought_back);
    let names: Vec<_> = opened.db.keyspaces().into_iter().map(|info| info.name).collect();
    let rest = lines(&mut opened.db.changes(ChangesFrom::After(token)).unwrap());
    match &*names[0] {
        "b" => assert_eq!(rest, ["a renamed b"]),
        _ => assert_eq!(rest, [""; 0]),
    }
    assert_eq!(names, ["b"], "the fault has brought it back");
}

/// Names and writes at random, with unlogged writes, ingests, flushes, closes.
fn run(world: &World, rng: &mut Rng, copy: &mut Copy) -> Result<()> {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for _ in 0..3 {
        let session = world.open(&keeping())?;
        let db = &session.db;
        for _ in 0..25 {
            let name = *rng.pick(&NAMES);
            match rng.below(20) {
                0..=2 => {
                    let to = *rng.pick(&NAMES);
                    let names: Vec<_> = db.keyspaces().into_iter().map(|info| info.name).collect();
                    if names.iter().any(|n| n == name) && names.iter().all(|n| n != to) {
                        db.rename_keyspace(name, to)?;
                    }
                }
                3 => drop(db.drop_keyspace(name)?),
                4 => db.keyspace(name)?.clear()?,
                5 => db.flush()?,
                6 => db.sync()?,
                7 | 8 => drop(copy.follow(db)?),
                9 => {
                    let kv = db.keyspace(name)?;
                    db.ingest(&kv, [("x", "1"), ("y", "2")])?;
                }
                _ => {
                    let kv = db.keyspace(name)?;
                    let durability = match rng.below(6) {
                        0 | 1 => Durability::None,
                        2 => Durability::Group,
                        _ => Durability::Buffered,
                    };
                    let mut batch = db.batch();
                    let key = format!("k{}", rng.below(20));
                    match rng.below(5) {
                        0 => batch.delete(&kv, key)?,
                        1 => batch.delete_range(&kv, key.as_str().."k9")?,
                        _ => batch.put(&kv, key, rng.number().to_string())?,
                    }
                    db.commit(batch.durability(durability))?;
                }
            }
        }
        session.db.close()?;
    }
    Ok(())
}

#[test]
fn a_copy_by_name_is_equal_after_a_crash_at_any_change_of_the_disk() {
    let seed = seed("a_copy_by_name_is_equal_after_a_crash_at_any_change_of_the_disk", 3);
    for round in 0..rounds(4, 100) {
        let seed = seed + round;
        let (world, mut copy) = (World::new(seed), Copy::default());
        run(&world, &mut Rng::new(seed), &mut copy).unwrap();
        let session = world.open(&keeping()).unwrap();
        copy.follow(&session.db).unwrap();
        copy.check(&session.db).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        drop(session);
        let counts = world.mem.counts();
        let total: u64 = Op::CHANGES.iter().map(|op| counts.of(*op)).sum();
        let stride = (total / rounds(25, 400)).max(1);
        for at in (1 + round % stride..=total).step_by(stride as usize) {
            crash_at(seed, at);
        }
    }
}

fn crash_at(seed: u64, at: u64) {
    let (world, mut copy) = (World::new(seed), Copy::default());
    world.disk.cut_power_at(at);
    let _cut = run(&world, &mut Rng::new(seed), &mut copy);
    let world = match at % 2 {
        0 => world.after_power_cut(seed ^ at),
        _ => world.after_kill(seed ^ at),
    };
    let story = format!("seed {seed}, change {at}");
    let scans = copy.scans;
    let session = world.open(&keeping()).unwrap_or_else(|error| panic!("{story}: {error}"));
    session.db.sync().unwrap();
    let refused = copy.follow(&session.db).unwrap();
    assert!(refused.is_none() && copy.scans <= scans.max(1), "{story}: {refused:?}");
    copy.check(&session.db).unwrap_or_else(|what| panic!("{story}: {what}"));
    session.db.verify().unwrap();
}
