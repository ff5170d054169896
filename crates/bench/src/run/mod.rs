//! The harness: threads in a closed loop, a row an interval, a summary at the end.
//!
//! ```text
//! Worker::step --Meter--> Ledger (one a thread) --taken every interval--> row --> file, watcher
//!                                                        ^
//!                      process, disk, gauges, events ----+
//! ```
//! A workload makes a [`Recorder`], lets it [`run`](Recorder::run) its [`Worker`]s, once or in several
//! phases, adds figures of its own, and [finishes](Recorder::finish) it. A thread reads the clock
//! twice an operation and shares no cache line with others, but for the moment in which its ledger
//! is taken.

mod crew;
mod ledger;
mod meter;
mod pace;
mod recorder;
mod rows;
mod show;
mod steadiness;
mod store;

pub use crew::{Interval, Probe, Worked, work};
pub use ledger::{Ledger, latency};
pub use meter::{Meter, Tally, Worker};
pub use pace::{Length, Pace};
pub use recorder::{Plan, Recorder, Watch};
pub use show::{show_row, show_summary, show_tails};
pub use steadiness::{median, worst_hundredth};
pub use store::StoreDir;
