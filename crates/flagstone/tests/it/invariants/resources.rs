//! Resources: filters in one of many partitions, memory; and writes that are refused, not blocked.

use crate::support::{hashed, open, small, threaded};
use flagstone::admin::TryCommit;
use flagstone::{Database, ErrorKind, Space};
use flagstone_testkit::{Rng, World};

/// One hash per key: inside a partition the high bits of the hash are constant; a filter that used
/// them would use one part in 256 of itself. So: hardly a get of an absent key reads a block.
#[test]
fn filters_work_in_one_of_256_partitions() {
    let world = World::new(1);
    let session = open(&world, &small().memory_budget(64 << 20));
    let kv = session.db.space("kv").options(hashed(256)).keyspace().unwrap();
    for start in (0..100_000_u32).step_by(1000) {
        let mut batch = session.db.batch();
        (start..start + 1000).for_each(|n| batch.put(&kv, n.to_be_bytes(), "v").unwrap());
        session.db.commit(batch).unwrap();
    }
    session.db.flush().unwrap();
    let looked_at = |world: &World| {
        let cache = session.db.stats().cache;
        (cache.hits + cache.misses, world.mem.counts().of(flagstone::internal::env::Op::Read))
    };
    let before = looked_at(&world);
    let absent = 20_000;
    for n in 0..absent {
        assert_eq!(kv.get([b"absent", &(n as u32).to_be_bytes()[..]].concat()).unwrap(), None);
    }
    let blocks = looked_at(&world).0 - before.0;
    assert!(blocks < absent / 33, "{blocks} blocks looked at for {absent} absent keys");
    for n in (0..100_000_u32).step_by(97) {
        assert!(kv.get(n.to_be_bytes()).unwrap().is_some());
    }
}

/// Resources are bounded: an empty tree costs next to nothing.
#[test]
fn a_thousand_empty_trees_take_little_memory() {
    let world = World::new(2);
    let session = open(&world, &small());
    for n in 0..64 {
        session.db.space(&format!("ks{n}")).options(hashed(16)).keyspace().unwrap();
    }
    let used = session.db.stats().memtable_bytes;
    assert!(used < 200_000, "{used} bytes for 1,024 empty trees");
}

/// Resources are bounded: memtables and cache stay within their parts of the budget whatever is
/// written and read.
#[test]
fn memtables_and_cache_stay_within_the_budget() {
    let world = World::new(3);
    let budget = 2 << 20;
    let db = threaded(&world, small().memory_budget(budget));
    let kv = db.space("kv").options(hashed(4)).keyspace().unwrap();
    let mut rng = Rng::new(3);
    for n in 0..8000_u64 {
        let len = if n % 500 == 0 { 200_000 } else { 800 };
        kv.put(rng.below(4000).to_be_bytes(), rng.bytes(len)).unwrap();
        kv.get(rng.below(4000).to_be_bytes()).unwrap();
        if n % 100 == 0 {
            let stats = db.stats();
            let memory = stats.memtable_bytes + stats.cache.used_bytes;
            assert!(memory <= budget + budget / 4, "{memory} bytes: {stats:?}");
            assert!(stats.cache.used_bytes <= stats.cache.capacity_bytes);
        }
    }
    assert!(db.stats().flushes > 4);
}

/// `try_commit` says when to come back where a commit would stop, and works again when memtables
/// were flushed.
#[test]
fn try_commit_says_when_to_come_back_instead_of_waiting() {
    let world = World::new(4);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    let mut refused = None;
    for n in 0..5000_u32 {
        let mut batch = session.db.batch();
        batch.put(&kv, n.to_be_bytes(), [7; 1000]).unwrap();
        if let TryCommit::RetryAfter(_) = session.db.try_commit(&batch).unwrap() {
            refused = Some((n, batch));
            break;
        }
    }
    let (n, batch) = refused.expect("without background work the memtables fill up");
    assert_eq!(kv.count().unwrap(), u64::from(n), "the refused batch left nothing");
    session.settle();
    let again = session.db.try_commit(&batch).unwrap();
    assert!(matches!(again, TryCommit::Started { .. }));
    assert_eq!(kv.count().unwrap(), u64::from(n) + 1);
}

/// Resources are bounded: what is replayed for reading only stays in memory, so a log that does not
/// fit is refused, and the text names the budget that is enough.
#[test]
fn a_log_that_does_not_fit_into_memory_is_refused_for_reading_only() {
    let world = World::new(4);
    let large = small().memory_budget(512 << 20);
    let session = open(&world, &large);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    for n in 0..80_u32 {
        kv.put(n.to_be_bytes(), vec![7; 1 << 20]).unwrap();
    }
    let read_only = |budget: u64| {
        let after = world.after_kill(1);
        Database::builder(World::dir())
            .options(small().memory_budget(budget))
            .environment(after.environment().0)
            .open_read_only()
    };
    let refused = read_only(1 << 20).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let text = refused.to_string();
    let named = text.split("at least ").nth(1).and_then(|rest| rest.split(',').next());
    let enough: u64 = named.unwrap().parse().unwrap();
    let db = read_only(enough).unwrap();
    assert_eq!(db.keyspace("kv").unwrap().count().unwrap(), 80);
    assert!(read_only(enough - 2).is_err());
}
