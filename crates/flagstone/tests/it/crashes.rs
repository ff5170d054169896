//! Does a crash lose what was promised? A run is cut off at every k-th change of the disk, for each
//! Durability, by the death of the process or by a power cut; then the database is opened again and
//! compared with what was acknowledged.

use crate::support::{folding, hashed, small_with};
use flagstone::internal::env::Op;
use flagstone::{Durability, KeyspaceOptions, Options, Routing, Space};
use flagstone_testkit::workload::{Step, Workload};
use flagstone_testkit::{History, Promise, World, rounds, seed};
use std::time::Duration;

/// Tables of the tests are about as large.
const SPLIT_BYTES: u64 = 1 << 10;

const FOLDS: [Option<&str>; 3] = [None, Some("add-i64/1"), Some("append/1")];

fn keyspaces() -> Vec<KeyspaceOptions> {
    let bounds = vec![b"k030".to_vec(), vec![0xFF]];
    let ranged = hashed(1).routing(Routing::Range(bounds));
    vec![hashed(4), folding(2, "add-i64/1"), ranged.fold("append/1")]
}

/// How many changes of the disk a whole run makes.
fn changes_of(seed: u64, options: &Options, steps: &[Step]) -> u64 {
    let world = World::new(seed);
    let mut history = History::new(&keyspaces());
    let (_, session) = history.run(&world, options, &keyspaces(), steps);
    let session = session.unwrap();
    history.check_live(&session.db);
    let stats = session.db.stats();
    let partitions = stats.keyspaces[2].partitions;
    assert!(options.split_bytes > SPLIT_BYTES || stats.splits > 0 || partitions > 3, "{stats:?}");
    eprintln!("{} splits, {} merges", stats.splits, stats.merges);
    let counts = world.mem.counts();
    Op::CHANGES.iter().map(|op| counts.of(*op)).sum()
}

fn crash_everywhere(name: &str, durability: Durability, promises: &[Promise]) {
    crash_everywhere_with(name, &small_with(durability), promises);
}

/// The same with partitions that split and merge all the time.
fn crash_splits(name: &str, durability: Durability) {
    crash_everywhere_with(name, &small_with(durability).split_bytes(SPLIT_BYTES), &BOTH);
}

fn crash_everywhere_with(name: &str, options: &Options, promises: &[Promise]) {
    let seed = seed(name, 3);
    for round in 0..rounds(2, 40) {
        let seed = seed + round;
        let mut workload = Workload::new(seed, &FOLDS, 60);
        let steps = workload.write_steps(140);
        let total = changes_of(seed, options, &steps);
        // A different offset each round, so that rounds together hit every one.
        let stride = (total / rounds(45, 400)).max(1);
        let mut at = 1 + round % stride;
        while at <= total + 1 {
            for promise in promises {
                crash_once(seed, at, *promise, options, &steps);
            }
            at += stride;
        }
    }
}

fn crash_once(seed: u64, at: u64, promise: Promise, options: &Options, steps: &[Step]) {
    let (world, keyspaces) = (World::new(seed), keyspaces());
    let mut history = History::new(&keyspaces);
    world.disk.cut_power_at(at);
    eprintln!("seed {seed}, {:?}, {promise:?} at change {at}", options.durability);
    let (_, session) = history.run(&world, options, &keyspaces, steps);
    let mut world = crash(&world, promise, seed ^ at);
    drop(session);
    if at.is_multiple_of(3) {
        // The recovery is cut off as well, somewhere.
        world.disk.cut_power_at(1 + at / 3 % 25);
        drop(world.open(options));
        world = crash(&world, promise, seed ^ at ^ 0xFF);
    }
    let session = world.open(options).unwrap();
    history.check_recovered(&session.db, promise);
    session.db.verify().unwrap();
    drop(session);
    // It goes on as if nothing had happened.
    let more = Workload::new(seed ^ at, &FOLDS, 60).write_steps(12);
    let (_, session) = history.run(&world, options, &keyspaces, &more);
    history.check_live(&session.unwrap().db);
}

fn crash(world: &World, promise: Promise, luck: u64) -> World {
    match promise {
        Promise::Kill => world.after_kill(luck),
        Promise::PowerCut => world.after_power_cut(luck),
    }
}

const BOTH: [Promise; 2] = [Promise::Kill, Promise::PowerCut];

#[test]
fn without_a_log_a_crash_keeps_a_whole_cut_at_or_behind_the_last_flush() {
    let name = "without_a_log_a_crash_keeps_a_whole_cut_at_or_behind_the_last_flush";
    crash_everywhere(name, Durability::None, &BOTH);
}

#[test]
fn buffered_commits_survive_the_process_and_a_power_cut_leaves_a_prefix() {
    let name = "buffered_commits_survive_the_process_and_a_power_cut_leaves_a_prefix";
    crash_everywhere(name, Durability::Buffered, &BOTH);
}

#[test]
fn interval_commits_survive_the_process_and_a_power_cut_leaves_a_prefix() {
    let name = "interval_commits_survive_the_process_and_a_power_cut_leaves_a_prefix";
    let durability = Durability::Interval(Duration::from_millis(10));
    crash_everywhere(name, durability, &BOTH);
}

#[test]
fn group_commits_survive_a_power_cut() {
    crash_everywhere("group_commits_survive_a_power_cut", Durability::Group, &BOTH);
}

#[test]
fn each_commit_survives_a_power_cut() {
    crash_everywhere("each_commit_survives_a_power_cut", Durability::Each, &BOTH);
}

#[test]
fn splits_and_merges_lose_nothing_buffered_in_a_crash() {
    let name = "splits_and_merges_lose_nothing_buffered_in_a_crash";
    crash_splits(name, Durability::Buffered);
}

#[test]
fn splits_and_merges_lose_nothing_synced_in_a_crash() {
    crash_splits("splits_and_merges_lose_nothing_synced_in_a_crash", Durability::Group);
}

#[test]
fn splits_and_merges_keep_a_whole_cut_of_unlogged_writes_in_a_crash() {
    let name = "splits_and_merges_keep_a_whole_cut_of_unlogged_writes_in_a_crash";
    crash_splits(name, Durability::None);
}

#[test]
fn a_crash_again_and_again_in_one_history_loses_nothing_promised() {
    let seed = seed("a_crash_again_and_again_in_one_history_loses_nothing_promised", 11);
    for round in 0..rounds(6, 200) {
        let seed = seed + round;
        let durabilities = [Durability::None, Durability::Buffered, Durability::Group];
        let options = small_with(durabilities[round as usize % 3]);
        let keyspaces = keyspaces();
        let mut history = History::new(&keyspaces);
        let mut world = World::new(seed);
        let mut workload = Workload::new(seed, &FOLDS, 60);
        for life in 0..12 {
            world.disk.cut_power_at(5 + (seed.wrapping_mul(life + 7)) % 150);
            let (_, session) = history.run(&world, &options, &keyspaces, &workload.write_steps(60));
            // Unsynced bytes that one kill has spared may be lost to a power cut after it, so the
            // lives of one history end alike.
            let promise = BOTH[(seed % 2) as usize];
            world = crash(&world, promise, seed ^ life);
            drop(session);
            let session = world.open(&options).unwrap();
            history.check_recovered(&session.db, promise);
        }
    }
}

#[test]
fn a_timed_sync_makes_commits_survive_a_power_cut() {
    let durability = Durability::Interval(Duration::from_millis(10));
    let (world, options) = (World::new(5), small_with(durability));
    let session = world.open(&options).unwrap();
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    world.clock.advance(Duration::from_secs(1));
    for _ in 0..20 {
        flagstone::internal::env::Executor::assist(&*session.executor);
    }
    let after = World::on(world.mem.crash_losing_unsynced(), 6);
    let again = after.open(&options).unwrap();
    let kv = again.db.space("kv").options(hashed(2)).keyspace().unwrap();
    assert_eq!(kv.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
}
