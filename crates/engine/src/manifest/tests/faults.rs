//! Operations of the disk fail, once or twice, or the disk is full: the database stays whole,
//! reports the right kind of error, and continues as soon as it can.

use super::support::*;
use crate::manifest::*;
use flagstone_base::ErrorKind;
use flagstone_env::{Effect, Failure, Fault, Op, SeededRandom};

const EDITS: u64 = 25;

/// The failures during a history.
#[derive(Default, Debug)]
struct Met {
    failed: u32,
    poisoned: u32,
}

/// Checks that a crash now would leave the acknowledged state, with or without the edit in doubt.
fn check_crash(world: &World, acknowledged: &ManifestState, doubtful: Option<&Edit>, case: &str) {
    for left in [world.mem.crash_losing_unsynced(), world.mem.kill(), world.mem.crash(7)] {
        let loaded = World::on(left).load().unwrap_or_else(|error| panic!("{case}: {error:?}"));
        let found = plain(&loaded.unwrap_or_else(|| panic!("{case}: it is gone")).state);
        let arrived = doubtful.is_some_and(|edit| found == after(acknowledged, edit));
        assert!(found == *acknowledged || arrived, "{case}: {found}");
    }
}

/// Opens the database, and tries again after each failure: faults pass.
fn open(world: &World, met: &mut Met, case: &str) -> Manifest {
    for _ in 0..4 {
        match world.open() {
            Ok(manifest) => return manifest,
            Err(error) => {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::Io | ErrorKind::OutOfSpace), "{case}: {error:?}");
                met.failed += 1;
            }
        }
    }
    panic!("{case}: it never opens");
}

fn run(world: &World, seed: u64, case: &str) -> Met {
    let mut met = Met::default();
    let mut manifest = open(world, &mut met, case);
    let random = SeededRandom::new(seed);
    let mut acknowledged = plain(manifest.state());
    let mut doubtful = None;
    for file in 0..EDITS {
        let edit = next_edit(manifest.state(), &random, 1000 + file);
        let Err(error) = manifest.append(&edit) else {
            acknowledged = after(&acknowledged, &edit);
            doubtful = None;
            assert_eq!(plain(manifest.state()), acknowledged, "{case}");
            check_crash(world, &acknowledged, None, case);
            continue;
        };
        assert!(manifest.is_in_doubt(), "{case}: {error:?}");
        assert_eq!(plain(manifest.state()), acknowledged, "{case}");
        check_crash(world, &acknowledged, Some(&edit), case);
        match error.kind() {
            ErrorKind::Io | ErrorKind::OutOfSpace => met.failed += 1,
            ErrorKind::Poisoned => {
                met.poisoned += 1;
                let again = manifest.append(&edit).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Poisoned, "{case}");
                drop(manifest);
                manifest = open(world, &mut met, case);
                acknowledged = plain(manifest.state());
                doubtful = None;
                continue;
            }
            kind => panic!("{case}: {kind}: {error:?}"),
        }
        doubtful = Some(edit);
    }
    drop(manifest);
    check_crash(world, &acknowledged, doubtful.as_ref(), case);
    met
}

fn effects() -> [Effect; 6] {
    let (io, full) = (Failure::Io, Failure::NoSpace);
    [
        Effect::Fail(io),
        Effect::Fail(full),
        Effect::Short(11, io),
        Effect::Short(11, full),
        Effect::FailAfter(io),
        Effect::FailAfter(full),
    ]
}

fn operations(seed: u64) -> u64 {
    let whole = World::new();
    run(&whole, seed, "no fault");
    let counts = whole.mem.counts();
    assert!(counts.of(Op::Rename) >= 2, "the history rolls: {counts}");
    Op::CHANGES.iter().map(|&op| counts.of(op)).sum()
}

#[test]
fn any_operation_may_fail_once() {
    let seed = seed();
    let mut poisoned = 0;
    for nth in 1..=operations(seed) {
        for effect in effects() {
            let world = World::new();
            world.disk.inject(Fault::new(effect).on(&Op::CHANGES).nth(nth));
            let case = format!("operation {nth}, {effect:?}");
            let met = run(&world, seed, &case);
            assert!(world.disk.hits() == 1 && met.failed <= 1, "{case}: {met:?}");
            poisoned += met.poisoned;
        }
    }
    assert!(poisoned > 10, "some of them are failed syncs: {poisoned}");
}

#[test]
fn any_two_operations_near_each_other_may_fail() {
    let seed = seed();
    let mut failed = 0;
    for nth in 1..=operations(seed) {
        for (gap, effect) in [1, 2, 3].into_iter().zip(effects()).chain([(1, effects()[4])]) {
            let world = World::new();
            world.disk.inject(Fault::new(effect).on(&Op::CHANGES).nth(nth));
            let second = Fault::new(Effect::Fail(Failure::NoSpace));
            world.disk.inject(second.on(&Op::CHANGES).nth(nth + gap));
            let case = format!("operation {nth} and {gap} on, {effect:?}");
            failed += run(&world, seed, &case).failed;
        }
    }
    assert!(failed > 10, "some appends fail: {failed}");
}

#[test]
fn an_append_that_fails_is_repeated_in_a_new_file() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    manifest.append(&created(keyspace(1, "a", 1))).unwrap();
    let number = manifest.number();
    world.disk.inject(Fault::new(Effect::Short(5, Failure::Io)).on(&[Op::Append]));
    manifest.append(&flushed(1, 10, 5)).unwrap();
    assert!(manifest.number() > number && !manifest.is_in_doubt());
    assert_eq!(world.names(), ["000002.manifest", "CURRENT"]);
}

#[test]
fn a_full_disk_refuses_edits_until_there_is_space_and_loses_none() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    manifest.append(&created(keyspace(1, "a", 1))).unwrap();
    for room in 0..30 {
        world.disk.set_room(Some(room));
        let error = manifest.append(&flushed(1, 10 + room, 5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{room}");
        assert!(manifest.is_in_doubt() && !manifest.is_poisoned());
        let error = manifest.append(&flushed(1, 10 + room, 5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{room}");
        world.disk.set_room(None);
        manifest.append(&flushed(1, 10 + room, 5)).unwrap();
        assert!(!manifest.is_in_doubt());
    }
    assert_eq!(world.names().len(), 2, "{:?}", world.names());
    let state = plain(manifest.state());
    assert_eq!(plain(&world.load().unwrap().unwrap().state), state);
    assert_eq!(state.live_tables().count(), 30);
}

#[test]
fn after_a_failed_sync_every_append_says_poisoned() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    world.disk.inject(Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Sync]));
    let edit = created(keyspace(1, "a", 1));
    for _ in 0..3 {
        let error = manifest.append(&edit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned);
        assert!(error.to_string().contains("cannot sync"), "{error}");
    }
    assert!(manifest.is_poisoned() && manifest.state().catalog.get("a").is_none());
}

#[test]
fn a_roll_that_fails_does_not_fail_the_append() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    manifest.append(&created(keyspace(1, "a", 1))).unwrap();
    let first = manifest.number();
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create]);
    world.disk.inject(full.forever());
    for file in 0..40 {
        manifest.append(&flushed(1, 10 + file, 5)).unwrap();
    }
    assert_eq!(manifest.number(), first);
    world.disk.heal();
    for file in 0..20 {
        manifest.append(&flushed(1, 100 + file, 5)).unwrap();
    }
    assert!(manifest.number() > first, "it is tried again");
    assert_eq!(world.load().unwrap().unwrap().state.live_tables().count(), 60);
}

#[test]
fn an_edit_that_does_not_fit_is_refused_and_nothing_is_written() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    let bytes = manifest.bytes();
    let error = manifest.append(&flushed(9, 10, 5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(manifest.bytes(), bytes);
    assert!(!manifest.is_in_doubt());
}
