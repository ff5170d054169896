//! The comments as a whole: their distributions, and that each is a function of (seed, i) alone.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

mod distributions;
mod documents;
