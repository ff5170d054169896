//! The workloads of flagstone and their reports, for the binary `flagstone-bench` and for `peers/`.
//!
//! ```text
//!             engine   record      what is measured, what is written
//!               \    /  |
//!                \  / sample       the process, the machine, the store's directory
//!                 run              threads in a closed loop, a row an interval, a summary
//!                  |
//!               workload           what the threads do
//! ```
//! `report` draws what stands in result files, and needs `record` alone. A module uses only modules above it.

pub mod engine;
pub mod record;
pub mod report;
pub mod run;
pub mod sample;
pub mod workload;
