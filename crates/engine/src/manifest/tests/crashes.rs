//! Cuts the power at every operation of a history of edits and rolls: afterwards everything
//! acknowledged is there, and nothing else except perhaps the edit that was in progress.

use super::support::*;
use crate::manifest::*;
use flagstone_env::{Disk, MemDisk, Op, SeededRandom};
use std::path::Path;

const EDITS: u64 = 40;

/// Appends edits until the power is off. Returns the acknowledged state, and the edit in progress.
fn run(world: &World, seed: u64) -> (Option<ManifestState>, Option<Edit>) {
    let random = SeededRandom::new(seed);
    let Ok(mut manifest) = world.open() else { return (None, None) };
    let mut acknowledged = plain(manifest.state());
    for file in 0..EDITS {
        let edit = next_edit(manifest.state(), &random, 1000 + file);
        match manifest.append(&edit) {
            Ok(()) => {
                acknowledged = after(&acknowledged, &edit);
                assert_eq!(plain(manifest.state()), acknowledged, "edit {file}");
            }
            Err(_) => return (Some(acknowledged), Some(edit)),
        }
    }
    (Some(acknowledged), None)
}

fn check(left: MemDisk, acknowledged: Option<&ManifestState>, underway: Option<&Edit>, case: &str) {
    let world = World::on(left);
    let loaded = world.load().unwrap_or_else(|error| panic!("{case}: {error:?}"));
    let found = loaded.as_ref().map(|loaded| plain(&loaded.state));
    match (acknowledged, &found) {
        (None, None) => {}
        (None, Some(found)) => assert_eq!(*found, plain(&ManifestState::default()), "{case}"),
        (Some(_), None) => panic!("{case}: the database is gone"),
        (Some(acknowledged), Some(found)) => {
            let arrived = underway.is_some_and(|edit| *found == after(acknowledged, edit));
            assert!(*found == *acknowledged || arrived, "{case}: {found}");
        }
    }
    let mut manifest = world.open().unwrap_or_else(|error| panic!("{case}: {error:?}"));
    let before = plain(manifest.state());
    assert_eq!(before, found.unwrap_or_else(|| plain(&ManifestState::default())), "{case}");
    let edit = next_edit(manifest.state(), &SeededRandom::new(1), 5000);
    manifest.append(&edit).unwrap();
    drop(manifest);
    let world = World::on(world.mem.crash_losing_unsynced());
    let loaded = world.load().unwrap().unwrap();
    assert_eq!(plain(&loaded.state), after(&before, &edit), "{case}");
    assert_eq!(loaded.torn_bytes, 0, "{case}");
}

#[test]
fn a_power_cut_at_any_operation_keeps_what_was_acknowledged() {
    let seed = seed();
    let whole = World::new();
    run(&whole, seed);
    let counts = whole.mem.counts();
    assert!(counts.of(Op::Rename) >= 2, "the history rolls: {counts}");
    let operations: u64 = Op::CHANGES.iter().map(|&op| counts.of(op)).sum();
    for nth in 1..=operations {
        let world = World::new();
        world.disk.cut_power_at(nth);
        let (acknowledged, underway) = run(&world, seed);
        assert!(world.disk.is_off(), "operation {nth} of {operations}");
        let (acknowledged, underway) = (acknowledged.as_ref(), underway.as_ref());
        let case = format!("operation {nth}, everything unsynced lost");
        check(world.mem.crash_losing_unsynced(), acknowledged, underway, &case);
        check(world.mem.kill(), acknowledged, underway, &format!("operation {nth}, killed"));
        for fate in 0..4 {
            let fate = seed.wrapping_mul(1000).wrapping_add(fate);
            let case = format!("operation {nth}, crash {fate}");
            check(world.mem.crash(fate), acknowledged, underway, &case);
        }
    }
}

#[test]
fn a_torn_edit_of_any_length_is_dropped() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    manifest.append(&created(keyspace(1, "a", 1))).unwrap();
    let (number, end) = (manifest.number(), manifest.bytes() as usize);
    manifest.append(&flushed(1, 10, 5)).unwrap();
    drop(manifest);
    let path = flagstone_env::names::path(
        Path::new(DIR),
        flagstone_env::names::FileKind::Manifest,
        number,
    );
    let bytes = world.mem.content(&path).unwrap();
    for len in end..bytes.len() {
        let left = world.mem.kill();
        left.put_content(&path, &bytes[..len]);
        let loaded = World::on(left.clone()).load().unwrap().unwrap();
        assert_eq!((loaded.valid_end, loaded.torn_bytes), (end as u64, (len - end) as u64));
        assert_eq!(loaded.state.live_tables().count(), 0);
        let world = World::on(left);
        let manifest = world.open().unwrap();
        assert_ne!(manifest.number(), number, "a new file is begun");
        assert!(!world.mem.exists(&path).unwrap());
    }
}
