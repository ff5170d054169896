//! Keys, values and threads of all cases.

use crate::rng::Rng;
use flagstone::{Database, Keyspace, KeyspaceOptions, Options, Routing, Space};
use flagstone_base::hash::remix;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The budget of a case that does not set its own.
pub(super) const BUDGET: u64 = 64 << 20;
/// The length of most values.
pub(super) const VALUE: usize = 1000;

/// The directory of a child and the amount of its work.
pub(super) struct ChildPlace {
    /// The directory of the child.
    pub dir: PathBuf,
    /// The scale of the data. 1 gives the sizes for which the bound is promised.
    pub scale: f64,
    /// The memory budget.
    pub budget: u64,
}

impl ChildPlace {
    pub(super) fn open(&self) -> Database {
        self.builder().open().expect("an open database")
    }

    pub(super) fn builder(&self) -> flagstone::Builder {
        let options = Options::new().memory_budget(self.budget);
        Database::builder(&self.dir).options(options)
    }

    /// Returns `full` at scale 1, scaled otherwise, but at least `least`.
    pub(super) fn sized(&self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(least)
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }
}

pub(super) fn hashed(db: &Database, name: &str, partitions: u16) -> Keyspace {
    let routing = Routing::Hash(partitions);
    let options = KeyspaceOptions::new().routing(routing);
    db.space(name).options(options).keyspace().expect("a keyspace")
}

/// Returns the key of a number. Keys have the order of their numbers.
pub(super) fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key-----........";
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Returns the number of a key.
pub(super) fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[8..16].try_into().expect("a key"))
}

/// Fills `value` with bytes that depend on `n` and `version` and do not compress.
pub(super) fn noise(value: &mut [u8], n: u64, version: u64) {
    let mut word = remix(n ^ version << 48) | 1;
    for bytes in value.chunks_mut(8) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}

/// Reads a scan to its end.
pub(super) fn entries<T>(scan: impl Iterator<Item = flagstone::Result<T>>) -> u64 {
    let mut count = 0;
    for entry in scan {
        drop(entry.expect("an entry"));
        count += 1;
    }
    count
}

/// Puts the keys of `numbers`.
pub(super) fn put_all(kv: &Keyspace, numbers: impl Iterator<Item = u64>, version: u64) {
    let mut value = vec![0; VALUE];
    for n in numbers {
        noise(&mut value, n, version);
        kv.put(key(n), &value).expect("a put");
    }
}

/// Divides the numbers below `count` among threads, each with a generator of its own.
pub(super) fn share(threads: u64, count: u64, work: impl Fn(u64, &mut Rng) + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                let mut rng = Rng::new(thread + 1);
                loop {
                    let first = next.fetch_add(256, Ordering::Relaxed);
                    if first >= count {
                        return;
                    }
                    (first..count.min(first + 256)).for_each(|n| work(n, &mut rng));
                }
            });
        }
    });
}

/// Gets random keys below `count` from four threads. One key in eight was never put.
pub(super) fn get_some(kv: &Keyspace, gets: u64, count: u64) {
    share(4, gets, |n, rng| {
        let wanted = rng.below(count);
        match n % 8 {
            0 => assert!(kv.get(key(wanted + (1 << 40))).expect("a get").is_none()),
            _ => assert!(kv.get(key(wanted)).expect("a get").is_some()),
        }
    });
}
