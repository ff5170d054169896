//! The crate from outside: comments as a whole, reports of result files, workloads on small stores.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

mod distributions;
mod documents;
mod recorder;
mod report;
mod workloads;
