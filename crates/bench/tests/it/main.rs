//! The crate from outside: comments as a whole, and reports of result files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

mod distributions;
mod documents;
mod report;
