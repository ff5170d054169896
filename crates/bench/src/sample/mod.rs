//! The operating system's figures of this process, its machine, and the store's directory.
//!
//! All of it is read from `/proc`. Without `/proc`, as outside Linux, counters stay at zero, the
//! share of the device's time is absent, and the machine is `unknown`.

mod machine;
mod process;

pub use machine::{commit, machine, program, utc_now};
pub use process::{DirectoryBytes, DiskClock, PeakMemory, ProcessSample, each_file, sync_files};
