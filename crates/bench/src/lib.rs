//! The benchmarks of flagstone: the program `flagstone-bench`, and its workloads for `peers/`.
//!
//! ```text
//!    record  options          what is written, what is chosen
//!       |  \     |
//!       | sample engine       the process and the machine, what is measured
//!       |      \  |
//!       |       run           threads in a closed loop, a row per interval, a summary
//!       |        |
//!    report   workload        what the threads do
//!         \    |
//!          command            the command line
//! ```
//! `report` draws what result files hold, and needs `record` alone. A module uses only modules
//! above it.

#![allow(missing_docs, reason = "no API for users: a name that says it all needs no comment")]

pub mod record;
pub mod stats;

pub mod options;
pub mod sample;

pub mod engine;

pub mod report;
pub mod run;

pub mod workload;

pub mod command;
