//! Pipelines from the outside: expressions, stages, limits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod expressions;
mod limits;
mod stages;
