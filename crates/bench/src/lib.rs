//! The comment generator and the workloads of flagstone.
//!
//! Modules stand from the ground up; a module uses only modules listed above it.

pub mod comments;

pub use comments::{Comments, Key};
