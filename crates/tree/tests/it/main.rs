//! Tests of trees against a model, over a disk in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests fail by panicking"
)]

mod bench_tree;
#[cfg(debug_assertions)]
mod checks;
mod compression;
mod concurrent;
mod dead_ranges;
mod expiry;
mod faults;
mod folds;
mod ingest;
mod model;
mod models;
mod picks;
mod random;
mod ranges;
mod replace;
mod space;
mod split_key;
mod stories;
mod traces;

/// Counts what each thread allocates.
#[global_allocator]
static COUNTING: flagstone_testkit::memory::Counting = flagstone_testkit::memory::Counting;
