//! Tests of the public API of the crate.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod streams;
mod types;
