//! Measures the speed of a tree: memtable insert and get, flush, compaction, get and scan of cached
//! tables.
//!
//! `cargo run --release -p flagstone-tree --example tree_speed -- [entries] [value bytes] [new
//! directory]`; without a directory the disk is in memory.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{
    Compression, DatabaseId, EntryRef, FileNumber, KeyRange, Kind, SeqNo, TreeId,
};
use flagstone_env::{Disk, MemDisk, OpenFiles, OsDisk, SeededRandom};
use flagstone_sst::{BlockCache, TableOptions};
use flagstone_tree::{
    ChunkPool, Compaction, Damages, Direction, Flush, FullPass, Obsolete, OutputCheck, ScanOptions,
    Scans, Tree, TreeContext, TreeOptions, Unfinished, Version,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&remix(n).to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn measure<T>(what: &str, operations: u64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let nanos = start.elapsed().as_nanos() as f64;
    println!(
        "{what:<34} {:>9.1} ns an operation {:>9.3} s",
        nanos / operations as f64,
        nanos / 1e9
    );
    result
}

fn context(dir: Option<String>) -> Arc<TreeContext> {
    let (disk, dir): (Arc<dyn Disk>, _) = match dir {
        Some(dir) => (Arc::new(OsDisk), PathBuf::from(dir)),
        None => (Arc::new(MemDisk::default()), PathBuf::from("/db")),
    };
    disk.create_dir(&dir).unwrap();
    let next = AtomicU64::new(1);
    Arc::new(TreeContext {
        files: OpenFiles::new(Arc::clone(&disk), 1000),
        disk,
        dir,
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

fn fill(tree: &Tree, entries: u64, value: &[u8], base: u64) {
    for n in 0..entries {
        let key = key(n);
        let seqno = SeqNo::new(base + n + 1);
        let memtable = tree.reserve(seqno);
        memtable.insert(EntryRef::new(&key, seqno, Kind::Put, value), key_hash(&key, 0)).unwrap();
    }
}

fn read(tree: &Tree, entries: u64, offset: u64) -> u64 {
    let mut found = 0;
    for n in 0..entries {
        let n = remix(n + 77) % entries;
        let key = key(n + offset);
        let view = tree.view();
        let got = tree.get(&view, &key, key_hash(&key, 0), SeqNo::MAX).unwrap();
        found += u64::from(got.value.is_some());
    }
    found
}

/// Flushes the same entries with each setting of how their tables are checked.
fn checks(context: &Arc<TreeContext>, entries: u64, value: &[u8], compression: Compression) {
    let last = SeqNo::new(entries);
    for check in [OutputCheck::Tail, OutputCheck::Stored, OutputCheck::Entries] {
        let tables = TableOptions { compression, ..TableOptions::default() };
        let options = TreeOptions { check, tables, ..options() };
        let tree = Tree::new(TreeId(2), Arc::clone(context), options, Version::empty());
        fill(&tree, entries, value, 0);
        tree.seal(last);
        measure(&format!("flush, {compression}, checks {check:?}"), entries, || {
            let mut flush = Flush::start(&tree, last, &[], last, &[]).unwrap();
            while flush.step().unwrap().is_none() {}
        });
        drop(tree);
        for number in context.obsolete.take() {
            context.disk.remove(&context.table_path(number)).unwrap();
        }
    }
}

fn options() -> TreeOptions {
    let none = Compression::None;
    let tables =
        TableOptions { compression: none, bottom_compression: none, ..TableOptions::default() };
    TreeOptions { tables, ..TreeOptions::default() }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let entries = arguments.next().map_or(1_000_000, |a| a.parse::<u64>().unwrap());
    let value = vec![b'v'; arguments.next().map_or(100, |a| a.parse().unwrap())];
    let context = context(arguments.next());
    let tree = Tree::new(TreeId(1), Arc::clone(&context), options(), Version::empty());
    measure("insert, fresh memory", entries, || fill(&tree, entries, &value, 0));
    println!("memtable: {} bytes an entry", tree.active_bytes() / entries);
    measure("get from the memtable", entries, || assert_eq!(read(&tree, entries, 0), entries));
    measure("get of absent keys", entries, || assert_eq!(read(&tree, entries, entries), 0));
    let scan = |what: &str| {
        measure(what, entries, || {
            let options = ScanOptions::default();
            let mut scan = tree.scan(KeyRange::ALL, SeqNo::MAX, Direction::Forward, options);
            let mut count = 0;
            while scan.advance().unwrap() {
                count += 1;
            }
            assert_eq!(count, entries);
        });
    };
    scan("scan of the memtable");
    let last = SeqNo::new(entries);
    tree.seal(last);
    let edit = measure("flush, a key", entries, || {
        let mut flush = Flush::start(&tree, last, &[], last, &[]).unwrap();
        loop {
            if let Some(edit) = flush.step().unwrap() {
                break edit;
            }
        }
    });
    tree.install(&edit).unwrap();
    let job =
        FullPass::new(tree.view().version()).next(tree.view().version(), tree.options()).unwrap();
    let edit = measure("compaction, a key", entries, || {
        let mut compaction = Compaction::start(&tree, job, &[], last).unwrap();
        loop {
            if let Some(edit) = compaction.step().unwrap() {
                break edit;
            }
        }
    });
    tree.install(&edit).unwrap();
    read(&tree, entries, 0);
    measure("get from cached tables", entries, || assert_eq!(read(&tree, entries, 0), entries));
    measure("get of absent keys", entries, || assert_eq!(read(&tree, entries, entries), 0));
    scan("scan of cached tables");
    measure("insert, recycled memory", entries, || fill(&tree, entries, &value, entries));
    for _round in 0..3 {
        checks(&context, entries, &value, Compression::None);
        checks(&context, entries, &value, Compression::Lz4);
    }
}
