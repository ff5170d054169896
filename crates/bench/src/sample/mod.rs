//! What the operating system says about this process, its machine, and the store's directory.
//!
//! It is read from `/proc`. Where there is none, as outside Linux, counters stay at zero, the share
//! of the device's time is absent, and the machine is `unknown`.

mod commit;
mod directory;
mod machine;
mod process;
mod program;
mod time;

pub use commit::commit;
pub use directory::{DirectoryBytes, directory_bytes, sync_files};
pub use machine::machine;
pub use process::{DiskClock, PeakMemory, ProcessSample};
pub use program::program;
pub use time::utc_now;
