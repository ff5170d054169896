//! Hostile bytes. Each format has a body, which feeds any bytes to the public reader and asserts
//! what must hold. A mutator creates such bytes from real ones, and a loop runs both (`cargo xtask
//! fuzz TARGET`).
//!
//! ```text
//! seeds: real encoders ---------\              a new place in the code: kept, mutated further
//! corpus: fuzz/corpus/TARGET ----> mutate --> body --> a panic: minimized, written to a file
//! ```
//!
//! Formats with checksums are tried twice: as they are, and with every checksum accepted, so that
//! damage reaches the code after the checks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it runs only in tests, which fail by a panic"
)]

mod targets;

pub use targets::{
    Failure, Limits, Mutator, Report, TARGETS, Target, corpus, fuzz, run_once, target,
};
