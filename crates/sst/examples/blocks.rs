//! Finding a key inside a block: a column of fingerprints, or restarts and a walk.
//!
//! `cargo run --release -p flagstone-sst --example blocks [-- rounds]`
//!
//! `fingerprints` is `src/block` as it is; `restarts` is this example's own, laid out as LevelDB and RocksDB do. Blocks
//! of 16 KiB that hold the same entries, 64 MiB of them, asked in random order: nanoseconds a get of a key that is
//! there, of one that is not (the filter before it said so wrongly), and a seek; and bytes an entry besides its value.

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

/// The same entries in both forms.
struct Pair {
    fingerprints: Block,
    restarts: Vec<u8>,
    keys: Vec<Vec<u8>>,
}

/// A key, and one that is not there and would stand beside it.
type KeyOf = fn(u64) -> Vec<u8>;

fn random_key(n: u64) -> Vec<u8> {
    [remix(n).to_be_bytes(), remix(!n).to_be_bytes()].concat()
}

fn named_key(n: u64) -> Vec<u8> {
    format!("user/{:012}", n * 37).into_bytes()
}

fn absent(key: &[u8]) -> Vec<u8> {
    [key, b"!"].concat()
}

fn hash(key: &[u8]) -> u64 {
    remix(key_hash(key, 0))
}

fn pairs(key_of: KeyOf, value_bytes: usize) -> Vec<Pair> {
    let value = vec![b'v'; value_bytes];
    let count = ALL_BYTES / (value_bytes + 20);
    let mut keys: Vec<_> = (0..count as u64).map(key_of).collect();
    keys.sort_unstable();
    let mut pairs = Vec::new();
    let mut keys = keys.into_iter().peekable();
    let mut builder = BlockBuilder::default();
    while keys.peek().is_some() {
        let (mut restarts, mut held) = (neighbours::Builder::default(), Vec::new());
        builder.clear();
        while builder.bytes_estimated() < BLOCK_BYTES
            && let Some(key) = keys.next()
        {
            let seqno = SeqNo::new(remix(hash(&key)) % 1_000_000);
            let entry = EntryRef::new(&key, seqno, Kind::Put, &value);
            builder.add(entry, hash(&key));
            restarts.add(entry);
            held.push(key);
        }
        let raw = builder.finish().to_vec();
        pairs.push(Pair {
            fingerprints: Block::new(raw.into(), None).unwrap(),
            restarts: restarts.finish(),
            keys: held,
        });
    }
    pairs
}

/// Nanoseconds a call with a block and a key of it, both by chance.
fn timed(pairs: &[Pair], mut call: impl FnMut(&Pair, &[u8]) -> bool, expected: bool) -> f64 {
    let start = Instant::now();
    let mut agreed = 0;
    for n in 0..CALLS {
        let random = remix(n);
        let pair = &pairs[(random >> 32) as usize % pairs.len()];
        let key = &pair.keys[random as u32 as usize % pair.keys.len()];
        agreed += u64::from(call(pair, key) == expected);
    }
    assert_eq!(agreed, CALLS);
    start.elapsed().as_nanos() as f64 / CALLS as f64
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
    let pairs = pairs(key_of, value_bytes);
    let entries: usize = pairs.iter().map(|pair| pair.keys.len()).sum();
    let besides = |bytes: usize| (bytes / entries) as f64 - value_bytes as f64;
    let columns = besides(pairs.iter().map(|pair| pair.fingerprints.bytes().len()).sum());
    let walked = besides(pairs.iter().map(|pair| pair.restarts.len()).sum());
    let mut scratch = Vec::new();
    let mut restarts = |pair: &Pair, key: &[u8]| {
        let found = neighbours::first_from(&pair.restarts, key, &mut scratch).unwrap();
        found.is_some_and(|found| {
            black_box(pair.restarts[found.value].len());
            found.is_same
        })
    };
    for _round in 0..rounds {
        let found = timed(&pairs, |pair, key| get(&pair.fingerprints, key), true);
        let missed = timed(&pairs, |pair, key| get(&pair.fingerprints, &absent(key)), false);
        let sought = timed(
            &pairs,
            |pair, key| {
                let at = pair.fingerprints.lower_bound(key, SeqNo::MAX).unwrap();
                pair.fingerprints.parse(at).is_ok()
            },
            true,
        );
        println!(
            "{name:<8} {value_bytes:>5}  fingerprints {found:>7.0} {missed:>7.0} {sought:>7.0} {columns:>7.0}"
        );
        let found = timed(&pairs, &mut restarts, true);
        let missed = timed(&pairs, |pair, key| restarts(pair, &absent(key)), false);
        println!(
            "{name:<8} {value_bytes:>5}  restarts     {found:>7.0} {missed:>7.0} {found:>7.0} {walked:>7.0}"
        );
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(3, |rounds| rounds.parse().unwrap());
    println!("keys     value                   found  absent    seek  besides");
    for (name, key_of) in [("random", random_key as KeyOf), ("named", named_key)] {
        for value_bytes in [16, 100, 1000] {
            measure(name, key_of, value_bytes, rounds);
        }
    }
}
