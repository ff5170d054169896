//! Locks, atomics and shared pointers of the engine: the real ones, or stand-ins for models.
//!
//! ```text
//! feature "shuttle" off:  parking_lot, std and arc-swap, re-exported without wrappers
//! feature "shuttle" on:   stand-ins over the crate shuttle; at each operation its scheduler
//!                         decides which thread runs next; a failed schedule can be repeated
//!                         from its seed
//! ```
//!
//! The models are `crates/flagstone/tests/models`; `cargo xtask shuttle` runs them. A lock that is
//! held while another lock of this module is taken must come from this module, too; otherwise a
//! model blocks forever on a real lock. These do not use this module: the memtable's store and
//! arena, whose atomics are in raw memory (loom models them: `crates/tree/tests/it/models`), the
//! block cache (quick_cache), and the disks of the tests, which take no lock of this module while
//! they hold their own.

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
