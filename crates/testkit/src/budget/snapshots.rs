//! 1,000 snapshots, and 1,000 scans in both directions that pause in the middle, over 16 partitions
//! during writes.

use super::meter::Meter;
use super::work::{ChildPlace, VALUE, get_some, hashed, key, noise, number, put_all, share};
use flagstone::{Keyspace, Scan, Snapshot};

/// A paused scan and its last key.
struct Waiting {
    scan: Scan<'static, Keyspace>,
    at: u64,
    version: u64,
    is_back: bool,
}

/// The number of entries that a scan reads before it pauses, and after.
const STEPS: u64 = 10;
/// The number of puts between the starts of two scans.
const PUTS: u64 = 1_000;

pub(super) fn snapshots(place: &ChildPlace, meter: &mut Meter) {
    let keys = place.sized(1_000_000, 20_000);
    let scans = place.sized(1_000, 20);
    let db = place.open();
    let kv = hashed(&db, "kv", 16);
    meter.phase("load", || share(2, keys, |n, _| put_all(&kv, n..n + 1, 0)));
    let mut held: Vec<Snapshot> = Vec::new();
    let mut waiting: Vec<Waiting> = Vec::new();
    meter.phase("begin them while others write", || {
        for version in 1..=scans {
            let snapshot = db.snapshot();
            waiting.push(begin(&kv, &snapshot, version - 1, keys));
            held.push(snapshot);
            // Every round writes the same keys, so the result of a scan is known.
            put_all(&kv, (0..PUTS).map(|n| slot(n, keys)), version);
        }
    });
    meter.phase("gets while they wait", || get_some(&kv, place.sized(400_000, 10_000), keys));
    meter.phase("puts while they wait", || {
        share(4, keys / 4, |n, _| put_all(&kv, n..n + 1, scans + 1));
    });
    meter.phase("all continue", || waiting.iter_mut().for_each(|waiting| go_on(waiting, keys)));
    meter.phase("all continue again", || {
        waiting.iter_mut().for_each(|waiting| go_on(waiting, keys))
    });
    meter.phase("compact while they wait", || db.compact().expect("a compaction"));
    meter.phase("all continue at last", || waiting.iter_mut().for_each(|w| go_on(w, keys)));
    drop(waiting);
    drop(held);
    meter.phase("compact without them", || db.compact().expect("a compaction"));
    drop(kv);
    meter.phase("close", || db.close().expect("a close"));
}

/// Returns the key of the n-th put of a round.
const fn slot(n: u64, keys: u64) -> u64 {
    n * (keys / PUTS)
}

fn begin(kv: &Keyspace, snapshot: &Snapshot, version: u64, keys: u64) -> Waiting {
    let is_back = version % 2 == 1;
    let at = flagstone_base::hash::remix(version) % (keys / 2) + keys / 4;
    let scan =
        if is_back { snapshot.scan(kv, ..key(at)).rev() } else { snapshot.scan(kv, key(at + 1)..) };
    let mut waiting = Waiting { scan, at, version, is_back };
    go_on(&mut waiting, keys);
    waiting
}

fn go_on(waiting: &mut Waiting, keys: u64) {
    let mut value = [0; VALUE];
    for _ in 0..STEPS {
        assert!(waiting.scan.advance().expect("a scan"));
        waiting.at = if waiting.is_back { waiting.at - 1 } else { waiting.at + 1 };
        assert_eq!(number(waiting.scan.key()), waiting.at);
        let is_slot = waiting.at.is_multiple_of(keys / PUTS) && waiting.at / (keys / PUTS) < PUTS;
        noise(&mut value, waiting.at, if is_slot { waiting.version } else { 0 });
        assert_eq!(waiting.scan.value_bytes(), value);
    }
}
