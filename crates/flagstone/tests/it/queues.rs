//! The cost of a take from a queue, in dead keys that are walked over: it does not grow with the
//! number of jobs. Times would say the same on a quiet machine alone.

use crate::support::threaded;
use flagstone::internal::dead_keys;
use flagstone::query::Returning;
use flagstone::{Database, Index, Options, Space, doc};
use flagstone_testkit::World;

fn opened(jobs: u64) -> (World, Database) {
    let world = World::new(jobs);
    let db = threaded(&world, Options::new().memory_budget(32 << 20));
    (world, db)
}

/// Takes all jobs by an index over texts that begin with `shared`, some of them beside a snapshot.
/// Returns how many dead keys each take has walked over on average.
fn by_index(jobs: u64, shared: &str, is_held: bool) -> u64 {
    let (_world, db) = opened(jobs);
    let queue = db.collection("jobs").unwrap();
    queue.create_index("by_at", Index::on("at")).unwrap();
    let at = |n: u64| format!("{shared}{n:06}");
    for n in 0..jobs {
        // In another order than that of the keys.
        queue.put(n * 7919 % jobs, doc!({ "at": (at(n)) })).unwrap();
    }
    let held = is_held.then(|| db.snapshot());
    let before = dead_keys(&db);
    let first = queue.delete_many("{}").sort("at").one().returning(Returning::Old);
    for n in 0..jobs {
        let taken = first.run().unwrap().documents;
        assert_eq!(taken[0].1.str("at").unwrap(), at(n));
    }
    let walked = dead_keys(&db) - before;
    assert!(first.run().unwrap().documents.is_empty());
    if let Some(held) = held {
        assert_eq!(held.scan(&queue, ..).count() as u64, jobs);
        assert_eq!(queue.count().unwrap(), 0);
    }
    walked / jobs
}

/// As [`by_index`], by the first or the last keys of a keyspace.
fn by_key(jobs: u64, is_back: bool, is_held: bool) -> u64 {
    let (_world, db) = opened(jobs);
    let queue = db.keyspace("jobs").unwrap();
    for n in 0..jobs {
        queue.put(n.to_be_bytes(), "job").unwrap();
    }
    let held = is_held.then(|| db.snapshot());
    let before = dead_keys(&db);
    for n in 0..jobs {
        let mut scan = queue.scan(..);
        if is_back {
            scan = scan.rev();
        }
        assert!(scan.advance().unwrap());
        let expected = if is_back { jobs - 1 - n } else { n };
        assert_eq!(scan.key(), expected.to_be_bytes());
        assert!(queue.remove(scan.key()).unwrap());
    }
    let walked = dead_keys(&db) - before;
    if let Some(held) = held {
        assert_eq!(held.scan(&queue, ..).count() as u64, jobs);
    }
    walked / jobs
}

#[track_caller]
fn assert_flat(what: &str, take_all: impl Fn(u64) -> u64) {
    let (few, many) = (take_all(200), take_all(4000));
    assert!(many <= 2 * few.max(4) && many < 40, "{what}: {few} of 200, {many} of 4,000");
}

#[test]
fn a_take_by_an_index_walks_over_few_dead_keys() {
    assert_flat("short", |jobs| by_index(jobs, "", false));
    assert_flat("long", |jobs| by_index(jobs, &"x".repeat(900), false));
}

/// A snapshot keeps what was taken; only its own scans walk over that.
#[test]
fn a_take_beside_a_snapshot_walks_over_few_dead_keys() {
    assert_flat("index", |jobs| by_index(jobs, "", true));
    for is_back in [false, true] {
        assert_flat("key", |jobs| by_key(jobs, is_back, true));
    }
}
