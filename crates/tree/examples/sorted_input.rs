//! Measures the cost of sorted input: through memtables, flushes and compactions as they are
//! picked, compared with tables built directly, and with the same keys in random order. Output:
//! bytes of tables written for each byte put, tables moved, and processor time.
//!
//! `cargo run --release -p flagstone-tree --example sorted_input -- [entries] [value bytes] [new
//! directory]`
//!
//! The log is not included: it adds the bytes put, once.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{Compression, DatabaseId, EntryRef, FileNumber, Kind, SeqNo, TreeId};
use flagstone_env::{Disk, MemDisk, OpenFiles, OsDisk, SeededRandom};
use flagstone_sst::{BlockCache, TableBuilder, TableIdent, TableOptions};
use flagstone_tree::{
    ChunkPool, Compaction, Damages, Flush, Obsolete, Policy, Scans, Tree, TreeContext, TreeOptions,
    Unfinished, Version, pick,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size at which a memtable is flushed.
const MEMTABLE_BYTES: u64 = 32 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Sorted,
    /// Sorted, but each key is up to 1,000 places off: ids from many writers that rise with time.
    Nearly,
    Random,
}

fn key(order: Order, n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    let number = match order {
        Order::Sorted => n,
        Order::Nearly => n + remix(n) % 1000,
        Order::Random => remix(n),
    };
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// The processor time of this thread, in seconds.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn context(disk: Arc<dyn Disk>, dir: &Path) -> Arc<TreeContext> {
    disk.create_dir(dir).unwrap();
    let next = AtomicU64::new(1);
    Arc::new(TreeContext {
        files: OpenFiles::new(Arc::clone(&disk), 1000),
        disk,
        dir: dir.to_owned(),
        database: DatabaseId([7; 16]),
        random: Arc::new(SeededRandom::new(7)),
        cache: BlockCache::new(64 << 20),
        next_file: Arc::new(move || FileNumber(next.fetch_add(1, Ordering::SeqCst))),
        direct_reads: false,
        entry_checks: true,
        memtable_bytes: Arc::default(),
        chunks: ChunkPool::new(256 << 20),
        obsolete: Obsolete::default(),
        unfinished: Unfinished::default(),
        damages: Damages::default(),
        scans: Scans::default(),
        sampled: Arc::default(),
    })
}

fn options() -> TreeOptions {
    TreeOptions {
        upper_compression: Compression::None,
        bottom_compression: Compression::None,
        ..TreeOptions::default()
    }
}

fn remove_obsolete(context: &TreeContext) {
    for number in context.obsolete.take() {
        context.disk.remove(&context.table_path(number)).unwrap();
    }
}

fn flush(tree: &Arc<Tree>, last: SeqNo) {
    tree.seal(last);
    let mut flush = Flush::start(tree, last, &[], last, &[]).unwrap();
    let edit = loop {
        if let Some(edit) = flush.step().unwrap() {
            break edit;
        }
    };
    tree.install(&edit).unwrap();
}

fn compact(tree: &Arc<Tree>, last: SeqNo, policy: Policy) {
    while let Some(job) = pick(tree.view().version(), tree.options(), policy) {
        let mut compaction = Compaction::start(tree, job, &[], last).unwrap();
        let edit = loop {
            if let Some(edit) = compaction.step().unwrap() {
                break edit;
            }
        };
        tree.install(&edit).unwrap();
        drop(compaction);
        remove_obsolete(tree.context());
    }
}

fn through_tree(what: &str, order: Order, entries: u64, value: &[u8], context: &Arc<TreeContext>) {
    let tree = Tree::new(TreeId(1), Arc::clone(context), options(), Version::empty());
    let start = processor_seconds();
    for n in 0..entries {
        let (key, seqno) = (key(order, n), SeqNo::new(n + 1));
        let memtable = tree.reserve(seqno);
        memtable.insert(EntryRef::new(&key, seqno, Kind::Put, value), key_hash(&key, 0)).unwrap();
        drop(memtable);
        if tree.active_bytes() >= MEMTABLE_BYTES {
            flush(&tree, seqno);
            compact(&tree, seqno, Policy::Tiering);
        }
    }
    let last = SeqNo::new(entries);
    flush(&tree, last);
    compact(&tree, last, Policy::Leveling);
    let took = processor_seconds() - start;
    let work = tree.stats().counters;
    let put = (entries * (16 + value.len() as u64)) as f64;
    println!(
        "{what:<22} flushed {:>5.2}  compacted {:>5.2}  tables moved {:>5}  {:>7.0} ns an entry",
        work.flush_bytes_written as f64 / put,
        work.compaction_bytes_written as f64 / put,
        work.tables_moved,
        took * 1e9 / entries as f64,
    );
}

fn directly(entries: u64, value: &[u8], context: &TreeContext) {
    let start = processor_seconds();
    let (mut builder, mut bytes) = (None, 0);
    for n in 0..entries {
        let (key, seqno) = (key(Order::Sorted, n), SeqNo::new(n + 1));
        let table = builder.get_or_insert_with(|| {
            let number = (context.next_file)();
            let file = context.disk.create(&context.table_path(number)).unwrap();
            let ident = TableIdent { database: context.database, number, salt: 1 };
            TableBuilder::new(file, ident, TableOptions::default()).unwrap()
        });
        table.add(EntryRef::new(&key, seqno, Kind::Put, value)).unwrap();
        if table.bytes_estimated() >= 32 << 20 || n + 1 == entries {
            bytes += builder.take().unwrap().finish().unwrap().bytes;
        }
    }
    let took = processor_seconds() - start;
    println!(
        "{:<22} written {:>5.2}                                        {:>7.0} ns an entry",
        "sorted, tables built",
        bytes as f64 / (entries * (16 + value.len() as u64)) as f64,
        took * 1e9 / entries as f64,
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let entries = arguments.next().map_or(1_000_000, |a| a.parse::<u64>().unwrap());
    let value: Vec<u8> = (0..arguments.next().map_or(1000, |a| a.parse().unwrap()))
        .map(|n: u64| remix(n) as u8)
        .collect();
    let place = arguments.next().map(PathBuf::from);
    let fresh = |name: &str| {
        let disk: Arc<dyn Disk> = match place {
            Some(_) => Arc::new(OsDisk),
            None => Arc::new(MemDisk::default()),
        };
        context(disk, &place.clone().unwrap_or_else(|| PathBuf::from("/db")).join(name))
    };
    through_tree("sorted", Order::Sorted, entries, &value, &fresh("sorted"));
    through_tree("nearly sorted", Order::Nearly, entries, &value, &fresh("nearly"));
    directly(entries, &value, &fresh("tables"));
    through_tree("random", Order::Random, entries, &value, &fresh("random"));
}
