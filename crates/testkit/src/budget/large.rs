//! Much data under a small budget: one writer or two, or 32 over 16 partitions; many deleted
//! ranges; many keyspaces; a transaction of many writes.

use super::meter::Meter;
use super::work::{
    ChildPlace, VALUE, entries, get_some, hashed, key, noise, number, put_all, share,
};
use flagstone::{Keyspace, Space};

/// 20 GB of 1 KB values are loaded, read, scanned, overwritten, compacted and opened again.
pub(super) fn large(place: &ChildPlace, meter: &mut Meter) {
    let count = place.sized(20_000_000, 20_000);
    let db = place.open();
    let kv = hashed(&db, "kv", 4);
    let put = |n: u64, version: u64| {
        let mut value = [0; VALUE];
        noise(&mut value, n, version);
        kv.put(key(n), value).expect("a put");
    };
    meter.phase("load by two threads", || share(2, count, |n, _| put(n, 1)));
    meter.phase("flush", || db.flush().expect("a flush"));
    meter.phase("gets by four threads", || get_some(&kv, place.sized(400_000, 10_000), count));
    meter.phase("long scans by two threads", || long_scans(&kv, count));
    meter.phase("short scans by eight threads", || {
        share(8, place.sized(40_000, 2_000), |_, rng| scan(&kv, rng.below(count), 50));
    });
    meter.phase("overwrites of a twentieth", || {
        share(2, count / 20, |_, rng| put(rng.below(count), 2));
    });
    meter.phase("compact", || db.compact().expect("a compaction"));
    let tables = db.stats().tables();
    println!("note {tables} tables, {} MB", db.stats().table_bytes() / 1_000_000);
    drop(kv);
    meter.phase("close", || db.close().expect("a close"));
    let db = meter.phase("open again", || place.open());
    let kv = hashed(&db, "kv", 4);
    meter.phase("gets again", || get_some(&kv, place.sized(400_000, 10_000), count));
    meter.phase("count", || assert_eq!(kv.count().expect("a count"), count));
}

/// Runs two scans of a tenth of all entries, one forwards and one backwards.
fn long_scans(kv: &Keyspace, count: u64) {
    std::thread::scope(|scope| {
        scope.spawn(|| scan(kv, count / 2, count / 10));
        scope.spawn(|| {
            let mut scan = kv.scan(..key(count / 2)).rev();
            (0..count / 10).for_each(|_| assert!(scan.advance().expect("a scan")));
        });
    });
}

fn scan(kv: &Keyspace, from: u64, entries: u64) {
    let mut scan = kv.scan(key(from)..);
    for n in 0..entries {
        if !scan.advance().expect("a scan") {
            return;
        }
        assert_eq!(number(scan.key()), from + n);
        assert_eq!(scan.value_bytes().len(), VALUE);
    }
}

/// 32 threads put into 16 partitions; one operation in ten is a get.
pub(super) fn writers(place: &ChildPlace, meter: &mut Meter) {
    let count = place.sized(4_000_000, 20_000);
    let db = place.open();
    let kv = hashed(&db, "kv", 16);
    let work = || {
        share(32, count, |_, rng| {
            let n = rng.below(count);
            if rng.percent(10) {
                kv.get(key(n)).expect("a get");
            } else {
                put_all(&kv, n..n + 1, rng.number());
            }
        });
    };
    meter.phase("32 threads, 16 partitions", work);
    meter.phase("the same again", work);
    meter.phase("compact", || db.compact().expect("a compaction"));
    meter.phase("gets", || share(32, count / 10, |_, rng| drop(kv.get(key(rng.below(count))))));
    drop(kv);
    meter.phase("close", || db.close().expect("a close"));
}

/// 100,000 ranges are deleted among the keys.
pub(super) fn ranges(place: &ChildPlace, meter: &mut Meter) {
    let ranges = place.sized(100_000, 1_000);
    let db = place.open();
    let kv = hashed(&db, "kv", 4);
    let keys = ranges * 8;
    meter.phase("load", || put_all(&kv, 0..keys, 1));
    db.compact().expect("a compaction");
    // A snapshot pins the old entries, so that none may be dropped.
    let before = db.snapshot();
    meter.phase("delete ranges", || {
        share(2, ranges, |n, _| {
            kv.delete_range(key(n * 8)..key(n * 8 + 4)).expect("a deleted range");
        });
    });
    meter.phase("gets among them", || {
        share(4, ranges, |_, rng| {
            let n = rng.below(keys);
            assert_eq!(kv.get(key(n)).expect("a get").is_some(), n % 8 >= 4);
        });
    });
    meter.phase("count", || assert_eq!(kv.count().expect("a count"), ranges * 4));
    meter.phase("flush", || db.flush().expect("a flush"));
    meter.phase("count of tables", || assert_eq!(kv.count().expect("a count"), ranges * 4));
    meter.phase("overwrites", || put_all(&kv, (0..keys).step_by(16), 2));
    meter.phase("compact with a snapshot", || db.compact().expect("a compaction"));
    let scanned = meter.phase("count of the snapshot", || entries(before.scan(&kv, ..)));
    assert_eq!(scanned, keys);
    drop(before);
    meter.phase("compact", || db.compact().expect("a compaction"));
    drop(kv);
    meter.phase("close", || db.close().expect("a close"));
    let db = meter.phase("open again", || place.open());
    let kv = hashed(&db, "kv", 4);
    meter.phase("count again", || assert!(kv.count().expect("a count") >= ranges * 4));
}

/// 1,000 keyspaces of four partitions each have some entries in tables.
pub(super) fn keyspaces(place: &ChildPlace, meter: &mut Meter) {
    let count = place.sized(1_000, 20);
    let db = place.open();
    let name = |n: u64| format!("keyspace{n:05}");
    let open = |db: &flagstone::Database| {
        (0..count).map(|n| hashed(db, &name(n), 4)).collect::<Vec<Keyspace>>()
    };
    let all = meter.phase("make them", || open(&db));
    meter.phase("put into all", || {
        for kv in &all {
            put_all(kv, 0..100, 1);
        }
    });
    meter.phase("flush", || db.flush().expect("a flush"));
    drop(all);
    meter.phase("close", || db.close().expect("a close"));
    let db = meter.phase("open again", || place.open());
    let all = open(&db);
    meter.phase("read all", || {
        all.iter().for_each(|kv| assert_eq!(kv.count().expect("a count"), 100));
    });
}

/// What a transaction holds for each of its smallest writes.
const BYTES_PER_WRITE: u64 = 180;

/// A transaction takes as many writes as it can, and commits them.
pub(super) fn transaction(place: &ChildPlace, meter: &mut Meter) {
    let db = place.open();
    let kv = hashed(&db, "kv", 4);
    // A quarter of the budget, in which each counts as 32 bytes and its key.
    let expected = place.budget / 4 / 35;
    let mut transaction = db.begin().expect("a transaction");
    let mut writes: u64 = 0;
    meter.hold(expected * BYTES_PER_WRITE);
    meter.phase("write", || {
        while transaction.put(&kv, &writes.to_be_bytes()[5..], "").is_ok() {
            writes += 1;
        }
    });
    println!("note {writes} writes");
    assert!(writes > expected / 2 && writes <= expected, "{writes} of {expected}");
    meter.phase("commit", || transaction.commit().expect("a commit"));
    meter.hold(0);
    meter.phase("count", || assert_eq!(kv.count().expect("a count"), writes));
    drop(kv);
    meter.phase("close", || db.close().expect("a close"));
}
