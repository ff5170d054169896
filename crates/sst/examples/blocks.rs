//! Compares two ways to find a key inside a block: a column of fingerprints, or restarts and a
//! walk.
//!
//! `cargo run --release -p flagstone-sst --example blocks [-- rounds]`
//!
//! `fingerprints` is `src/block`; `restarts` is implemented in this example, with the layout of
//! LevelDB and RocksDB. Both have 64 MiB in blocks of 16 KiB with the same entries, accessed in
//! random order. Output: nanoseconds of a get of a present key, of a get of an absent key of the
//! same length (a false positive of the filter), and of a seek, each less the cost of choosing a
//! key; and bytes an entry besides its value. With restarts a get is a seek.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    unused_imports,
    reason = "a measuring program, with modules of the crate"
)]

#[path = "../src/block/mod.rs"]
mod block;
#[path = "blocks/neighbours.rs"]
mod neighbours;
#[path = "../src/prefetch.rs"]
mod prefetch;

use block::{Block, BlockBuilder};
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{EntryRef, Kind, SeqNo};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

const BLOCK_BYTES: usize = 16 << 10;
const ALL_BYTES: usize = 64 << 20;
const CALLS: u64 = 1_000_000;

const KEY_BYTES: usize = 16;

type Key = [u8; KEY_BYTES];

/// The same entries in both layouts.
struct Entries {
    /// The keys in order, each with the number of its block.
    keys: Vec<(Key, u32)>,
    blocks: Vec<(Block, Vec<u8>)>,
}

/// Returns the key of a number. A key with its last bit flipped belongs to no number.
type KeyOf = fn(u64) -> Key;

fn random_key(n: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&remix(n).to_be_bytes());
    key[8..].copy_from_slice(&remix(!n).to_be_bytes());
    key
}

fn named_key(n: u64) -> Key {
    format!("user/{:011}", n * 37).into_bytes().try_into().unwrap()
}

fn absent(mut key: Key) -> Key {
    key[KEY_BYTES - 1] ^= 1;
    key
}

fn hash(key: &[u8]) -> u64 {
    remix(key_hash(key, 0))
}

fn entries(key_of: KeyOf, value_bytes: usize) -> Entries {
    let value = vec![b'v'; value_bytes];
    let count = ALL_BYTES / (value_bytes + 20);
    let mut sorted: Vec<_> = (0..count as u64).map(key_of).collect();
    sorted.sort_unstable();
    let mut entries = Entries { keys: Vec::new(), blocks: Vec::new() };
    let mut sorted = sorted.into_iter().peekable();
    let mut builder = BlockBuilder::default();
    while sorted.peek().is_some() {
        let mut restarts = neighbours::Builder::default();
        builder.clear();
        while builder.bytes_estimated() < BLOCK_BYTES
            && let Some(key) = sorted.next()
        {
            let seqno = SeqNo::new(remix(hash(&key)) % 1_000_000);
            let entry = EntryRef::new(&key, seqno, Kind::Put, &value);
            builder.add(entry, hash(&key));
            restarts.add(entry);
            entries.keys.push((key, entries.blocks.len() as u32));
        }
        let raw = builder.finish().to_vec();
        entries.blocks.push((Block::new(raw.into(), None).unwrap(), restarts.finish()));
    }
    entries
}

impl Entries {
    /// Returns the nanoseconds of a call with a random key and the number of its block. `expected`
    /// calls must return true.
    fn timed(&self, expected: u64, mut call: impl FnMut(Key, usize) -> bool) -> f64 {
        let start = Instant::now();
        let mut found = 0;
        for n in 0..CALLS {
            let (key, block) = self.keys[remix(n) as usize % self.keys.len()];
            found += u64::from(call(key, block as usize));
        }
        assert_eq!(found, expected);
        start.elapsed().as_nanos() as f64 / CALLS as f64
    }
}

fn get(block: &Block, key: &[u8]) -> bool {
    let mut is_found = false;
    let visited = block.visit(key, hash(key), SeqNo::MAX, &mut |_, value| {
        black_box(value.len());
        is_found = true;
        ControlFlow::Break(())
    });
    visited.unwrap();
    is_found
}

fn measure(name: &str, key_of: KeyOf, value_bytes: usize, rounds: usize) {
    let all = entries(key_of, value_bytes);
    let besides = |bytes: usize| bytes as f64 / all.keys.len() as f64 - value_bytes as f64;
    let of_fingerprints = besides(all.blocks.iter().map(|(block, _)| block.bytes().len()).sum());
    let of_restarts = besides(all.blocks.iter().map(|(_, restarts)| restarts.len()).sum());
    let mut scratch = Vec::new();
    let mut walk = |key: Key, block: usize| {
        let restarts = &all.blocks[block].1;
        let found = neighbours::first_from(restarts, &key, &mut scratch).unwrap();
        found.is_some_and(|found| {
            black_box(restarts[found.value].len());
            found.is_same
        })
    };
    let seek = |key: Key, block: usize| {
        let block = &all.blocks[block].0;
        let at = block.lower_bound(&key, SeqNo::MAX).unwrap();
        black_box(block.parse(at).unwrap().value().len());
        true
    };
    for _round in 0..rounds {
        let choice = all.timed(CALLS, |key, block| black_box((key, block)).1 == block);
        let figures = [
            all.timed(CALLS, |key, block| get(&all.blocks[block].0, &key)),
            all.timed(0, |key, block| get(&all.blocks[block].0, &absent(key))),
            all.timed(CALLS, seek),
            all.timed(CALLS, &mut walk),
            all.timed(0, |key, block| walk(absent(key), block)),
        ];
        let [found, missed, sought, walked, walked_past] = figures.map(|ns| ns - choice);
        let of = format!("{name:<8} {value_bytes:>5}");
        println!(
            "{of}  fingerprints {found:>7.0} {missed:>7.0} {sought:>7.0} {of_fingerprints:>8.1}"
        );
        println!(
            "{of}  restarts     {walked:>7.0} {walked_past:>7.0} {walked:>7.0} {of_restarts:>8.1}"
        );
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(3, |rounds| rounds.parse().unwrap());
    println!("keys     value                   found  absent    seek   besides");
    for (name, key_of) in [("random", random_key as KeyOf), ("named", named_key)] {
        for value_bytes in [16, 100, 1000] {
            measure(name, key_of, value_bytes, rounds);
        }
    }
}
