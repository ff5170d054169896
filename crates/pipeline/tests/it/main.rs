//! Pipelines, updates and projections from the outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod expressions;
mod limits;
mod projections;
mod random;
mod stages;
mod updates;
mod windows;
