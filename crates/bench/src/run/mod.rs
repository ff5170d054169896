//! The harness: threads in a closed loop, a row per interval, a summary at the end.
//!
//! ```text
//! a Worker's step --Meter--> Ledger (one a thread) --taken every interval--> row --> file, watcher
//!                                                        ^
//!                      process, disk, gauges, events ----+
//! ```
//! A workload creates a [`Recorder`], lets it [`run`](Recorder::run) its [`Worker`]s, once or in
//! several phases, adds figures of its own, and [finishes](Recorder::finish) it. A thread reads the
//! clock twice an operation and shares no cache line with others, except in the moment in which its
//! ledger is taken.

mod meter;

mod crew;
mod show;

mod rows;

mod recorder;

pub use crew::{Crew, Interval, Probe, Worked, Worker, crew, work};
pub use meter::{Ledger, Meter, Tally, latency};
pub use recorder::{Recorder, Watch};
pub use show::{show_row, show_summary};
