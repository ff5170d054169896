//! A process is killed while its log is full. The database is then opened for reading only, and for
//! writing.

use super::meter::Meter;
use super::work::{ChildPlace, get_some, hashed, put_all, share};
use flagstone::Space;
use std::io::Write;

/// The file in the directory with the number of keys that certainly were put.
const DONE: &str = "put-for-certain";

/// Fills the log up to its bound, reports it, and continues until it is killed.
pub(super) fn fill(place: &ChildPlace, _: &mut Meter) {
    let db = place.open();
    let small = hashed(&db, "small", 1);
    let kv = hashed(&db, "kv", 16);
    // Its memtable is never the largest, so it pins the log from the first record on.
    small.put("pin", "1").expect("a put");
    let bound = place.budget;
    let mut first = 0;
    let mut fullest = 0;
    loop {
        share(4, 256, |n, _| put_all(&kv, first + n..first + n + 1, 0));
        first += 256;
        let bytes = db.stats().wal_bytes;
        fullest = fullest.max(bytes);
        // At four fifths of the bound the tree that pins the log is flushed.
        if bytes >= bound / 100 * 78 || first > 4 * bound / 1000 {
            break;
        }
    }
    std::fs::write(place.path().with_extension(DONE), first.to_string()).expect("a marker");
    println!("note log of {} MB, {first} keys", fullest >> 20);
    println!("full");
    std::io::stdout().flush().expect("stdout");
    share(4, u64::MAX, |n, _| {
        let n = first + n;
        put_all(&kv, n..n + 1, 0);
        if n > first + 4_000 {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    });
}

fn certain(place: &ChildPlace) -> u64 {
    let text = std::fs::read_to_string(place.path().with_extension(DONE)).expect("a marker");
    text.parse().expect("a number")
}

/// Opens the database of the killed process without changing it.
pub(super) fn read_only(place: &ChildPlace, meter: &mut Meter) {
    let count = certain(place);
    let db = meter.phase("open for reading only", || {
        place.builder().open_read_only().expect("an open database")
    });
    println!("note {} MB in memtables", db.stats().memtable_bytes >> 20);
    let kv = db.keyspace("kv").expect("a keyspace");
    meter.phase("gets", || get_some(&kv, 200_000, count));
    meter.phase("count", || assert!(kv.count().expect("a count") >= count));
}

/// Opens the database of the killed process and writes again.
pub(super) fn write(place: &ChildPlace, meter: &mut Meter) {
    let count = certain(place);
    let db = meter.phase("open for writing", || place.open());
    let kv = hashed(&db, "kv", 16);
    meter.phase("count", || assert!(kv.count().expect("a count") >= count));
    meter.phase("puts", || share(4, count, |n, _| put_all(&kv, n..n + 1, 1)));
    drop(kv);
    meter.phase("close", || db.close().expect("a close"));
}
