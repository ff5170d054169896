//! Tests of updates and projections.

mod projections;
mod updates;
