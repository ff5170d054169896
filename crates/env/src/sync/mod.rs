//! Locks, atomics and shared pointers of the engine: the real ones, or those of a model.
//!
//! ```text
//! feature "shuttle" off:  parking_lot, std, arc-swap, re-exported as they are: nothing is wrapped
//! feature "shuttle" on:   stand-ins over the crate shuttle, whose scheduler decides at each of them which
//!                         thread goes on; a schedule that fails is run again from its seed
//! ```
//!
//! The models are `crates/flagstone/tests/models`; `cargo xtask shuttle` runs them. Every lock that is
//! held across another of these must come from here, or a model blocks for ever on a real one. Outside
//! stay: the memtable's store and arena, whose atomics lie in raw memory (loom models them:
//! `crates/tree/tests/it/models`), the block cache (quick_cache) and the disks of the tests, whose locks
//! are held for lines that take none of these.

#[cfg(not(feature = "shuttle"))]
mod barrier;
#[cfg(feature = "shuttle")]
mod model;
#[cfg(not(feature = "shuttle"))]
mod real;

#[cfg(feature = "shuttle")]
pub use model::*;
#[cfg(not(feature = "shuttle"))]
pub use real::*;
