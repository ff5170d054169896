//! Compares policies of what a block cache admits and keeps: hits and time on traces of block
//! accesses.
//!
//! `cargo run --release -p flagstone-sst --example admission [-- accesses]`
//!
//! `cache` is `src/cache.rs`, with blocks that all share one buffer. `LRU` and `TinyLFU` are
//! implemented in this example, for one thread and without locks: compare their hits, not their
//! time. `2nd` is the cache with a doorkeeper: a block is admitted at its second miss. `static` is
//! the best fixed set of blocks, chosen with knowledge of the future. `hot N` is quick_cache with N
//! percent of its bytes for hot blocks, `ghosts N` with memory of N evicted blocks for each hundred
//! cached ones (the cache itself has 97 and 50).
//!
//! The first half of a trace warms the cache and is not counted. The second table shows the hits of
//! the cache after its capacity moved up and down.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "a measuring program"
)]

#[path = "../src/allowance.rs"]
mod allowance;
#[path = "../src/buffers.rs"]
mod buffers;
#[path = "../src/cache.rs"]
mod cache;
#[path = "admission/policies.rs"]
mod policies;
#[path = "admission/traces.rs"]
mod traces;

/// Replaces the module of the crate.
mod format {
    pub(crate) const BLOCK_TRAILER_BYTES: usize = 9;
}

/// Replaces the blocks of the crate.
mod block {
    use flagstone_base::Slice;

    #[derive(Clone)]
    pub(crate) struct Block(pub(crate) Slice);

    impl Block {
        pub(crate) fn bytes(&self) -> &[u8] {
            &self.0
        }
    }
}

/// Replaces the indexes of the crate, which no trace has.
mod index {
    pub(crate) struct Index;

    impl Index {
        pub(crate) fn bytes(&self) -> u64 {
            0
        }
    }
}

use block::Block;
use cache::{BlockCache, BlockKey};
use flagstone_base::Slice;
use flagstone_base::hash::remix;
use policies::{Doorkeeper, Lru, Policy, TinyLfu};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::sync::Arc;
use std::time::Instant;
use traces::{FORGET, SCAN, Trace};

/// The capacity of the caches: that of a budget of 512 MiB while nothing is written. A block takes
/// about 16.5 KiB.
const LIMIT: u64 = 448 << 20;
const CACHE_BLOCKS: u32 = (LIMIT / (16 << 10)) as u32;
const TURNS: usize = 3;

/// The weight of a block: its bytes, 16 KiB and up to an entry, and its slot.
fn weight(block: u32) -> u64 {
    bytes_of(block) as u64 + 160
}

fn bytes_of(block: u32) -> usize {
    (16 << 10) + (remix(u64::from(block)) % 1024) as usize
}

/// Returns a block of the right size.
fn read(buffer: &Slice, block: u32) -> Block {
    Block(buffer.slice(..bytes_of(block)))
}

fn buffer() -> Slice {
    Slice::from(vec![0; 17 << 10])
}

/// A table of 32 MiB has about 2,048 blocks.
fn key(block: u32) -> BlockKey {
    BlockKey { table: u64::from(block / 2048), block: block % 2048 }
}

/// The block cache of the crate, with or without a doorkeeper.
struct Present {
    cache: Arc<BlockCache>,
    buffer: Slice,
    door: Option<Doorkeeper>,
}

impl Present {
    fn new(door: Option<Doorkeeper>) -> Self {
        Self { cache: BlockCache::new(LIMIT), buffer: buffer(), door }
    }
}

impl Policy for Present {
    fn access(&mut self, block: u32) -> bool {
        let key = key(block);
        if self.cache.get(key).is_some() {
            return true;
        }
        if self.door.as_mut().is_none_or(|door| door.admits(block)) {
            self.cache.insert(key, read(&self.buffer, block));
        }
        false
    }

    fn forget(&mut self, block: u32) {
        self.cache.remove(key(block));
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<u32, Block> for ByBytes {
    fn weight(&self, &block: &u32, _: &Block) -> u64 {
        weight(block)
    }
}

/// quick_cache with other settings.
struct Quick {
    cache: Cache<u32, Block, ByBytes>,
    buffer: Slice,
}

impl Quick {
    fn new(hot: u32, ghosts: u32) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(CACHE_BLOCKS as usize)
            .weight_capacity(LIMIT)
            .hot_allocation(f64::from(hot) / 100.0)
            .ghost_allocation(f64::from(ghosts) / 100.0)
            .build()
            .unwrap();
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let cache = Cache::with_options(options, ByBytes, hasher, lifecycle);
        Self { cache, buffer: buffer() }
    }
}

impl Policy for Quick {
    fn access(&mut self, block: u32) -> bool {
        let held = self.cache.get(&block).is_some();
        if !held {
            self.cache.insert(block, read(&self.buffer, block));
        }
        held
    }

    fn forget(&mut self, block: u32) {
        self.cache.remove(&block);
    }
}

/// Returns the percentage of gets that hit. Scans are not counted.
fn hits(policy: &mut dyn Policy, accesses: &[u32]) -> f64 {
    let (mut hits, mut gets) = (0_u64, 0_u64);
    for &access in accesses {
        if access & FORGET != 0 {
            policy.forget(access & !FORGET);
            continue;
        }
        let hit = policy.access(access & !SCAN);
        gets += u64::from(access & SCAN == 0);
        hits += u64::from(hit && access & SCAN == 0);
    }
    hits as f64 * 100.0 / gets as f64
}

/// Returns the hits of the second half, and the median nanoseconds of an access in it over several
/// runs.
fn measure(trace: &Trace, make: &dyn Fn() -> Box<dyn Policy>) -> (f64, f64) {
    let (warm, counted) = trace.accesses.split_at(trace.accesses.len() / 2);
    let mut found = 0.0;
    let mut nanos: Vec<f64> = (0..TURNS)
        .map(|_| {
            let mut policy = make();
            hits(&mut *policy, warm);
            let clock = Instant::now();
            found = hits(&mut *policy, counted);
            clock.elapsed().as_nanos() as f64 / counted.len() as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    (found, nanos[TURNS / 2])
}

/// Returns the hits of the second half if the blocks with the most hits a byte are held all the
/// time.
fn best_static(trace: &Trace) -> f64 {
    let counted = &trace.accesses[trace.accesses.len() / 2..];
    let mut gets = vec![0_u64; trace.blocks as usize];
    for &access in counted.iter().filter(|&&access| access & (SCAN | FORGET) == 0) {
        gets[access as usize] += 1;
    }
    let mut order: Vec<u32> = (0..trace.blocks).collect();
    let worth = |block: u32| gets[block as usize] as f64 / weight(block) as f64;
    order.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)));
    let mut room = LIMIT;
    let held = order.iter().take_while(|&&block| {
        let fits = room >= weight(block);
        room = room.saturating_sub(weight(block));
        fits
    });
    let hits: u64 = held.map(|&block| gets[block as usize]).sum();
    hits as f64 * 100.0 / gets.iter().sum::<u64>() as f64
}

type Make<'a> = (&'a str, Box<dyn Fn() -> Box<dyn Policy> + 'a>);

fn candidates<'a>(blocks: u32) -> Vec<Make<'a>> {
    let door = || Some(Doorkeeper::new(CACHE_BLOCKS));
    let quick = |hot, ghosts| move || Box::new(Quick::new(hot, ghosts)) as Box<dyn Policy>;
    vec![
        ("cache", Box::new(|| Box::new(Present::new(None)))),
        ("LRU", Box::new(move || Box::new(Lru::new(blocks, LIMIT)))),
        ("TinyLFU", Box::new(move || Box::new(TinyLfu::new(blocks, CACHE_BLOCKS, LIMIT)))),
        ("2nd", Box::new(move || Box::new(Present::new(door())))),
        ("hot 99", Box::new(quick(99, 50))),
        ("hot 90", Box::new(quick(90, 50))),
        ("hot 75", Box::new(quick(75, 50))),
        ("ghosts 0", Box::new(quick(97, 0))),
        ("ghosts 100", Box::new(quick(97, 100))),
        ("90, 100", Box::new(quick(90, 100))),
    ]
}

fn compare(traces: &[Trace]) {
    print!("{:<20}{:>12}", "hits %, ns", "static");
    candidates(0).iter().for_each(|(name, _)| print!("{name:>12}"));
    println!();
    for trace in traces {
        print!("{:<20}{:>12.1}", trace.what, best_static(trace));
        for (_, make) in candidates(trace.blocks) {
            let (hits, nanos) = measure(trace, &*make);
            print!("{:>12}", format!("{hits:.1} {nanos:>5.0}"));
        }
        println!();
    }
}

/// Returns the hits of the second half after the capacity moved `moves` times by up to a sixteenth
/// in the first half.
fn moved(trace: &Trace, moves: usize) -> f64 {
    let (warm, counted) = trace.accesses.split_at(trace.accesses.len() / 2);
    let mut policy = Present::new(None);
    for (number, part) in warm.chunks(warm.len().div_ceil(moves + 1)).enumerate() {
        if number > 0 {
            let off = remix(number as u64) % (LIMIT / 16);
            policy.cache.set_capacity(LIMIT - off);
        }
        hits(&mut policy, part);
    }
    policy.cache.set_capacity(LIMIT);
    hits(&mut policy, counted)
}

fn main() {
    let count = std::env::args().nth(1).map_or(4_000_000, |count| count.parse().unwrap());
    let traces = traces::all(CACHE_BLOCKS, count);
    compare(&traces);
    let moves = [0, 100, 1_000, 10_000, 100_000];
    print!("\n{:<20}", "hits %, moves");
    moves.iter().for_each(|moves| print!("{moves:>12}"));
    println!();
    for trace in &traces {
        print!("{:<20}", trace.what);
        moves.iter().for_each(|&moves| print!("{:>12.1}", moved(trace, moves)));
        println!();
    }
}
