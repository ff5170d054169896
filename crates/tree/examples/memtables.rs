//! Compares the memtable with skip lists: inserts, gets, short scans and a full scan, in
//! nanoseconds an entry or call.
//!
//! `cargo run --release -p flagstone-tree --example memtables -- [entries] [value bytes] [rounds]
//! [random|named]`
//!
//! - `memtable` is that of a [`Tree`], accessed through the tree: reservation, lock, view and all.
//! - `arena list` is implemented in this example: nodes, keys and values in one buffer of huge
//!   pages, with the layout of LevelDB and RocksDB. It is for one thread, without a lock or an
//!   atomic link, and therefore faster than a list for many.
//! - `SkipMap` is that of `crossbeam-skiplist`, the memtable of fjall: a node an entry with the key
//!   in it, values on the heap.
//!
//! All hold the same keys of 16 bytes, inserted in random order: random keys differ in their first
//! bytes, named keys (`user/00000000037`) in their last. Gets and scans copy what they find; every
//! result is counted. Memory is reused from round to round.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unsafe_code,
    reason = "a measuring program, with a list in pages of its own"
)]

#[path = "memtables/arena_list.rs"]
mod arena_list;

use arena_list::{ArenaList, Buffer};
use crossbeam_skiplist::SkipMap;
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{DatabaseId, EntryRef, FileNumber, KeyRange, Kind, SeqNo, TreeId};
use flagstone_env::{Disk, MemDisk, OpenFiles, SeededRandom};
use flagstone_sst::BlockCache;
use flagstone_tree::{
    ChunkPool, Damages, Direction, Obsolete, ScanOptions, Scans, Tree, TreeContext, TreeOptions,
    Unfinished, Version,
};
use std::cmp::Reverse;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const KEY_BYTES: usize = 16;
/// The number of entries of a short scan.
const SHORT: usize = 50;

type Key = [u8; KEY_BYTES];

/// Returns the key of a number.
type KeyOf = fn(u64) -> Key;

fn random_key(n: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&remix(n).to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Returns keys in random order for consecutive numbers.
fn named_key(n: u64) -> Key {
    // An odd factor maps different numbers below 2^36 to different keys.
    let scattered = n.wrapping_mul(0x9_E377_79B9) & 0xF_FFFF_FFFF;
    format!("user/{scattered:011}").into_bytes().try_into().unwrap()
}

/// A sorted set of entries.
trait Sorted {
    fn insert(&mut self, key: &Key, seqno: u64, value: &[u8]);
    /// Copies the newest value of the key to `out`. Returns false if there is none.
    fn get(&self, key: &Key, out: &mut Vec<u8>) -> bool;
    /// Returns the number of entries from `from` on, at most `limit`.
    fn scan(&self, from: &Key, limit: usize) -> usize;
}

/// A list that several threads can insert into.
trait Shared: Sync {
    fn insert_shared(&self, key: &Key, seqno: u64, value: &[u8]);
}

impl Shared for Arc<Tree> {
    fn insert_shared(&self, key: &Key, seqno: u64, value: &[u8]) {
        let seqno = SeqNo::new(seqno);
        let memtable = self.reserve(seqno);
        memtable.insert(EntryRef::new(key, seqno, Kind::Put, value), key_hash(key, 0)).unwrap();
    }
}

impl Sorted for Arc<Tree> {
    fn insert(&mut self, key: &Key, seqno: u64, value: &[u8]) {
        self.insert_shared(key, seqno, value);
    }

    fn get(&self, key: &Key, out: &mut Vec<u8>) -> bool {
        let view = self.view();
        let found = Tree::get(self, &view, key, key_hash(key, 0), SeqNo::MAX).unwrap();
        found.value.is_some_and(|value| {
            out.clear();
            out.extend_from_slice(&value);
            true
        })
    }

    fn scan(&self, from: &Key, limit: usize) -> usize {
        let range = KeyRange::of(Bound::Included(from), Bound::Unbounded);
        let options = ScanOptions::default();
        let mut scan = Tree::scan(self, range, SeqNo::MAX, Direction::Forward, options);
        let (mut count, mut out) = (0, Vec::new());
        while count < limit && scan.advance().unwrap() {
            copy(&mut out, scan.key(), &scan.value());
            count += 1;
        }
        count
    }
}

/// The work of a scan for each entry.
fn copy(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.clear();
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    std::hint::black_box(out);
}

type HeapList = SkipMap<(Key, Reverse<u64>), Box<[u8]>>;

impl Shared for HeapList {
    fn insert_shared(&self, key: &Key, seqno: u64, value: &[u8]) {
        Self::insert(self, (*key, Reverse(seqno)), Box::from(value));
    }
}

impl Sorted for HeapList {
    fn insert(&mut self, key: &Key, seqno: u64, value: &[u8]) {
        self.insert_shared(key, seqno, value);
    }

    fn get(&self, key: &Key, out: &mut Vec<u8>) -> bool {
        let from = (*key, Reverse(u64::MAX));
        let entry = self.lower_bound(Bound::Included(&from));
        entry.filter(|entry| entry.key().0 == *key).is_some_and(|entry| {
            out.clear();
            out.extend_from_slice(entry.value());
            true
        })
    }

    fn scan(&self, from: &Key, limit: usize) -> usize {
        let from = (*from, Reverse(u64::MAX));
        let mut out = Vec::new();
        let entries = self.range(from..).take(limit);
        entries.inspect(|entry| copy(&mut out, &entry.key().0, entry.value())).count()
    }
}

/// The context of trees: their memory is reused, as in a database.
fn context(bytes: usize) -> Arc<TreeContext> {
    let next = AtomicU64::new(1);
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    Arc::new(TreeContext {
        files: OpenFiles::new(Arc::clone(&disk), 1000),
        disk,
        dir: PathBuf::from("/db"),
        database: DatabaseId([7; 16]),
        random: Arc::new(SeededRandom::new(7)),
        cache: BlockCache::new(1 << 20),
        next_file: Arc::new(move || FileNumber(next.fetch_add(1, Ordering::SeqCst))),
        direct_reads: false,
        entry_checks: true,
        memtable_bytes: Arc::default(),
        chunks: ChunkPool::new(bytes),
        obsolete: Obsolete::default(),
        unfinished: Unfinished::default(),
        damages: Damages::default(),
        scans: Scans::default(),
        sampled: Arc::default(),
    })
}

fn tree(context: &Arc<TreeContext>) -> Arc<Tree> {
    Tree::new(TreeId(1), Arc::clone(context), TreeOptions::default(), Version::empty())
}

/// Returns the nanoseconds of each of `calls` calls.
fn timed(calls: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// Returns the figures of an empty list, except the last column.
fn one_thread(list: &mut impl Sorted, key: KeyOf, entries: u64, value: &[u8]) -> Vec<f64> {
    let mut out = Vec::new();
    let absent_from = entries;
    let insert = timed(entries, || {
        for n in 0..entries {
            list.insert(&key(n), n + 1, value);
        }
    });
    let short_scans = entries / 10;
    let short = timed(short_scans, || {
        for n in 0..short_scans {
            assert!(list.scan(&key(remix(n) % entries), SHORT) > 0);
        }
    });
    let full =
        timed(entries, || assert_eq!(list.scan(&[0; KEY_BYTES], usize::MAX) as u64, entries));
    let mut get = |offset: u64| {
        timed(entries, || {
            let found = (0..entries)
                .filter(|n| list.get(&key(remix(*n) % entries + offset), &mut out))
                .count();
            assert_eq!(found as u64, if offset == 0 { entries } else { 0 });
        })
    };
    let (found, absent) = (get(0), get(absent_from));
    vec![insert, found, absent, short, full]
}

/// Returns the wall-clock nanoseconds of an entry.
fn two_threads(list: &impl Shared, key: KeyOf, entries: u64, value: &[u8]) -> f64 {
    timed(entries, || {
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    for n in (thread..entries).step_by(2) {
                        list.insert_shared(&key(n), n + 1, value);
                    }
                });
            }
        });
    })
}

fn print(what: &str, figures: &[f64]) {
    print!("{what:<12}");
    for figure in figures {
        print!(" {figure:>11.0}");
    }
    println!();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| arguments.get(at).map_or(or, |a| a.parse().unwrap());
    let (entries, rounds) = (number(0, 100_000), number(2, 3));
    let value = vec![b'v'; number(1, 100)];
    let (name, key) = match arguments.get(3).map(String::as_str) {
        Some("named") => ("named", named_key as KeyOf),
        _ => ("random", random_key as KeyOf),
    };
    println!("{entries} entries, {name} keys, values of {} bytes", value.len());
    print!("{:<12}", "");
    for column in ["insert", "get", "get absent", "scan of 50", "full scan", "2 threads"] {
        print!(" {column:>11}");
    }
    println!();
    let context = context(2 * entries * (value.len() + 100));
    let mut buffer = Buffer::new(entries, value.len());
    let count = entries as u64;
    // The first round takes memory that is new to the process, and is not counted.
    for round in 0..=rounds {
        let mut of_memtable = one_thread(&mut tree(&context), key, count, &value);
        of_memtable.push(two_threads(&tree(&context), key, count, &value));
        let mut list = ArenaList::new(buffer);
        let of_list = one_thread(&mut list, key, count, &value);
        buffer = list.into_buffer();
        let mut of_map = one_thread(&mut HeapList::new(), key, count, &value);
        of_map.push(two_threads(&HeapList::new(), key, count, &value));
        if round > 0 {
            print("memtable", &of_memtable);
            print("arena list", &of_list);
            print("SkipMap", &of_map);
        }
    }
}
