//! What a tree costs: inserts, gets and scans, flushes and compactions.
//!
//! `cargo bench -p flagstone-tree [-- FILTER]`. The tree has 100,000 entries of 16 + 100 bytes, and
//! its disk is in memory. An iteration of `get` and `get_absent` is one call; one of the others
//! goes through all the entries, whose rate is then the figure to read.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::Bencher;
use divan::counter::ItemsCount;
use flagstone_base::hash::{HashedKey, key_hash, remix};
use flagstone_base::{
    Compression, DatabaseId, EntryRef, FileNumber, KeyRange, Kind, Moment, SeqNo, TreeId,
};
use flagstone_env::{Disk, MemDisk, OpenFiles, SeededRandom};
use flagstone_sst::{BlockCache, TableOptions};
use flagstone_tree::{
    ChunkPool, Compaction, Damages, Direction, Flush, FullPass, Obsolete, OutputCheck, ScanOptions,
    Scans, Tree, TreeContext, TreeEdit, TreeOptions, Unfinished, Version,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn main() {
    divan::main();
}

const ENTRIES: u64 = 100_000;
const CALLS: u32 = 10_000;

fn context() -> Arc<TreeContext> {
    let (disk, dir): (Arc<dyn Disk>, _) = (Arc::new(MemDisk::default()), Path::new("/db"));
    disk.create_dir(dir).unwrap();
    let next = AtomicU64::new(1);
    Arc::new(TreeContext {
        files: OpenFiles::new(Arc::clone(&disk), 1000),
        disk,
        dir: dir.to_owned(),
        database: DatabaseId([7; 16]),
        random: Arc::new(SeededRandom::new(7)),
        cache: BlockCache::new(2 << 30),
        next_file: Arc::new(move || FileNumber(next.fetch_add(1, Ordering::SeqCst))),
        direct_reads: false,
        entry_checks: true,
        memtable_bytes: Arc::default(),
        chunks: ChunkPool::new(512 << 20),
        obsolete: Obsolete::default(),
        unfinished: Unfinished::default(),
        damages: Damages::default(),
        scans: Scans::default(),
        sampled: Arc::default(),
    })
}

fn empty_tree(context: Arc<TreeContext>, check: OutputCheck) -> Arc<Tree> {
    let none = Compression::None;
    let tables =
        TableOptions { compression: none, bottom_compression: none, ..TableOptions::default() };
    let options = TreeOptions { tables, check, ..TreeOptions::default() };
    Tree::new(TreeId(1), context, options, Version::empty())
}

fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&remix(n).to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Puts every key with a SeqNo above `base`.
fn fill(tree: &Tree, base: u64) {
    for n in 0..ENTRIES {
        let (key, seqno) = (key(n), SeqNo::new(base + n + 1));
        let memtable = tree.reserve(seqno);
        let entry = EntryRef::new(&key, seqno, Kind::Put, &[b'v'; 100]);
        memtable.insert(entry, key_hash(&key, 0)).unwrap();
    }
}

fn flush_all(tree: &Arc<Tree>, last: SeqNo) -> TreeEdit {
    let mut flush = Flush::start(tree, last, &[], last, &[]).unwrap();
    loop {
        if let Some(edit) = flush.step().unwrap() {
            return edit;
        }
    }
}

/// Returns a tree with one run of L0 for each of `rounds`; each holds every key.
fn flushed_tree(rounds: u64) -> Arc<Tree> {
    let tree = empty_tree(context(), OutputCheck::Stored);
    for round in 0..rounds {
        fill(&tree, round * ENTRIES);
        let last = SeqNo::new((round + 1) * ENTRIES);
        tree.seal(last);
        tree.install(&flush_all(&tree, last)).unwrap();
    }
    tree
}

/// The part of a tree that has the entries.
#[derive(Clone, Copy, Debug)]
enum Part {
    Memtable,
    CachedTables,
}

const PARTS: [Part; 2] = [Part::Memtable, Part::CachedTables];

fn full_tree(part: Part) -> Arc<Tree> {
    match part {
        Part::Memtable => {
            let tree = empty_tree(context(), OutputCheck::Stored);
            fill(&tree, 0);
            tree
        }
        Part::CachedTables => flushed_tree(1),
    }
}

/// The memory that a memtable is written into.
#[derive(Clone, Copy, Debug)]
enum Memory {
    Fresh,
    Recycled,
}

#[divan::bench(args = [Memory::Fresh, Memory::Recycled], sample_size = 1, sample_count = 20)]
fn insert(bencher: Bencher<'_, '_>, memory: Memory) {
    let shared = context();
    let context = || match memory {
        Memory::Fresh => context(),
        Memory::Recycled => Arc::clone(&shared),
    };
    bencher
        .counter(ItemsCount::new(ENTRIES))
        .with_inputs(|| empty_tree(context(), OutputCheck::Stored))
        .bench_local_values(|tree| {
            fill(&tree, 0);
            tree
        });
}

/// Gets keys from `first` on in random order, after a pass that fills the cache.
fn get_each(bencher: Bencher<'_, '_>, tree: &Tree, first: u64, is_present: bool) {
    let mut numbers = (0..ENTRIES).map(|n| first + remix(n + 77) % ENTRIES).cycle();
    let mut get = || {
        let key = key(numbers.next().unwrap_or_default());
        let view = tree.view();
        let sought = HashedKey { key: &key, hash: key_hash(&key, 0) };
        let found = tree.get(&view, sought, SeqNo::MAX, &|| Moment::ZERO).unwrap();
        assert_eq!(found.value.is_some(), is_present);
    };
    (0..ENTRIES).for_each(|_| get());
    bencher.bench_local(get);
}

#[divan::bench(args = PARTS, sample_size = CALLS)]
fn get(bencher: Bencher<'_, '_>, part: Part) {
    get_each(bencher, &full_tree(part), 0, true);
}

#[divan::bench(args = PARTS, sample_size = CALLS)]
fn get_absent(bencher: Bencher<'_, '_>, part: Part) {
    get_each(bencher, &full_tree(part), ENTRIES, false);
}

#[divan::bench(args = PARTS, sample_size = 1)]
fn scan(bencher: Bencher<'_, '_>, part: Part) {
    let tree = full_tree(part);
    bencher.counter(ItemsCount::new(ENTRIES)).bench_local(|| {
        let options = ScanOptions::default();
        let mut scan = tree.scan(KeyRange::ALL, SeqNo::MAX, Direction::Forward, options);
        let mut count = 0;
        while scan.advance().unwrap() {
            count += 1;
        }
        assert_eq!(count, ENTRIES);
    });
}

const CHECKS: [OutputCheck; 2] = [OutputCheck::Stored, OutputCheck::Entries];

#[divan::bench(args = CHECKS, sample_size = 1, sample_count = 20)]
fn flush(bencher: Bencher<'_, '_>, check: OutputCheck) {
    let last = SeqNo::new(ENTRIES);
    let sealed = || {
        let tree = empty_tree(context(), check);
        fill(&tree, 0);
        tree.seal(last);
        tree
    };
    bencher
        .counter(ItemsCount::new(ENTRIES))
        .with_inputs(sealed)
        .bench_local_refs(|tree| flush_all(tree, last));
}

/// Two runs, of which the older one is overwritten in whole.
#[divan::bench(sample_size = 1, sample_count = 20)]
fn compaction(bencher: Bencher<'_, '_>) {
    let last = SeqNo::new(2 * ENTRIES);
    bencher.counter(ItemsCount::new(2 * ENTRIES)).with_inputs(|| flushed_tree(2)).bench_local_refs(
        |tree| {
            let view = tree.view();
            let job = FullPass::new(view.version()).next(view.version(), tree.options()).unwrap();
            let mut compaction = Compaction::start(tree, job, &[], last).unwrap();
            while compaction.step().unwrap().is_none() {}
        },
    );
}
