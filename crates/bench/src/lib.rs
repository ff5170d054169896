//! The comment generator, the workloads of flagstone, and their reports.
//!
//! Modules stand from the ground up; a module uses only modules listed above it.

pub mod comments;
pub mod engine;
pub mod record;
pub mod report;

pub use comments::{Comments, Key};
