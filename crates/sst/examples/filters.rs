//! Compares filters: split-block Bloom (which tables have) and binary fuse (8 bits, 3-wise).
//!
//! `cargo run --release -p flagstone-sst --example filters`
//!
//! One row for each kind and number of keys: bits a key, measured false positives, nanoseconds to
//! build and to probe. "near" probes one filter again and again; "far" probes up to 512 filters in
//! turn, like gets of a database larger than the processor's cache.

#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code, reason = "a measuring program")]

#[path = "../src/filter.rs"]
mod bloom;
#[path = "filters/fuse.rs"]
mod fuse;

use bloom::Filter;
use flagstone_base::hash::remix;
use fuse::Fuse;
use std::hint::black_box;
use std::time::Instant;

const PROBES: u64 = 4_000_000;

trait Probe {
    fn probe(&self, hash: u64) -> bool;
    fn size(&self) -> u64;
}

impl Probe for Filter {
    fn probe(&self, hash: u64) -> bool {
        self.may_contain(hash)
    }
    fn size(&self) -> u64 {
        self.bytes()
    }
}

impl Probe for Fuse {
    fn probe(&self, hash: u64) -> bool {
        self.may_contain(hash)
    }
    fn size(&self) -> u64 {
        self.bytes()
    }
}

/// The hashes of the keys of filter `number`. Those from `keys` on belong to absent keys.
fn hash(number: u64, key: u64) -> u64 {
    remix((number << 40) + key)
}

fn measure<P: Probe>(what: &str, keys: u64, build: impl Fn(&[u64]) -> P) {
    let filters = ((16 << 20) / keys).clamp(1, 512);
    let all: Vec<Vec<u64>> =
        (0..filters).map(|number| (0..keys).map(|key| hash(number, key)).collect()).collect();
    let clock = Instant::now();
    let built: Vec<P> = all.iter().map(|hashes| build(hashes)).collect();
    let build_nanos = clock.elapsed().as_nanos() as f64 / (keys * filters) as f64;
    for (filter, hashes) in built.iter().zip(&all) {
        assert!(hashes.iter().all(|&hash| filter.probe(hash)), "a key that is denied");
    }
    let bits = built.iter().map(Probe::size).sum::<u64>() as f64 * 8.0 / (keys * filters) as f64;
    let clock = Instant::now();
    let wrong = (0..PROBES).filter(|&n| built[0].probe(hash(0, keys + n))).count();
    let near = clock.elapsed().as_nanos() as f64 / PROBES as f64;
    let clock = Instant::now();
    let mut number = 0;
    let far = (0..PROBES).filter(|&n| {
        number = if number + 1 == filters { 0 } else { number + 1 };
        built[number as usize].probe(hash(number, keys + n))
    });
    black_box(far.count());
    let far = clock.elapsed().as_nanos() as f64 / PROBES as f64;
    // Present keys: every probe runs to its end.
    let clock = Instant::now();
    let found = (0..PROBES).filter(|&n| built[0].probe(hash(0, n % keys))).count();
    assert_eq!(found as u64, PROBES);
    let hit = clock.elapsed().as_nanos() as f64 / PROBES as f64;
    println!(
        "{what:<12} {keys:>9} {bits:>8.2} {:>9.3}% {build_nanos:>9.1} {near:>7.1} {hit:>7.1} {far:>7.1}",
        wrong as f64 * 100.0 / PROBES as f64
    );
}

fn main() {
    println!("filter            keys bits/key  wrong yes     build    near present     far");
    for keys in [4_000, 32_000, 250_000, 1_000_000] {
        for bits in [8, 10, 12, 14] {
            measure(&format!("bloom {bits}"), keys, |hashes| Filter::build(hashes, bits));
        }
        measure("fuse 8", keys, |hashes| Fuse::build(hashes).unwrap());
    }
}
