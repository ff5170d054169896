//! Tests of the protocol over a store in memory, and of stores.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod builds;
mod commits;
#[cfg(feature = "cql")]
mod connections;
#[cfg(feature = "cql")]
mod failures;
mod generations;
mod linear;
mod many;
mod model;
#[cfg(feature = "cql")]
mod nodes;
mod outcomes;
mod plans;
mod ranges;
mod rebalances;
mod scans;
mod shards;
mod sizes;
mod stores;
mod support;
mod unique_rebalances;
mod uniques;
mod verbs;
