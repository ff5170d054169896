//! The crate from outside: workloads on small stores, reports of result files, the binary as users
//! run it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

mod commands;
mod recorder;
mod report;
mod run;
mod smoke;
mod workloads;
