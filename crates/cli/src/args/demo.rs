//! Arguments of demo.

use clap::Args;
use std::path::PathBuf;

/// Show what flagstone does on this machine: load comments, reopen, verify, get, update, scan, compact
///
/// Every answer is compared with what must come out; the exit code is 1 if any is wrong.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// How many comments
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) count: u64,
    /// Where the database will lie; must not exist or be empty [default: ./flagstone-demo, made anew]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Leave the database there
    #[arg(long)]
    pub(crate) keep: bool,
}
