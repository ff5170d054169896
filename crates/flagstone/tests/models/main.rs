//! Models of concurrency: the real code, under a scheduler that decides at every lock, atomic and
//! condition variable which thread goes on.
//!
//! `cargo xtask shuttle --seconds N --seed S` runs them. Each schedule comes from one seed; a
//! schedule that fails prints it, and `--seed` with `--seconds 0` runs that schedule alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod commits;
mod explore;
mod feed;
mod flushes;
mod holds;
mod indexes;
mod ingests;
mod log;
mod scans;
mod splits;
mod transactions;
mod waits;
