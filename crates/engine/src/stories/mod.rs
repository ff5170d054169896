//! Regression tests for bugs that were found by reading the code. Each tells the story of its bug.

pub(crate) mod world;

mod log;
mod tables;
mod threads;
