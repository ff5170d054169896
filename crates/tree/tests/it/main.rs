//! Trees against a model, over a disk in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod bench_tree;
mod model;
mod random;
mod stories;
