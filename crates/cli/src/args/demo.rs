//! Arguments of demo.

use clap::Args;
use std::path::PathBuf;

/// Show what flagstone does on this machine: load comments, reopen, verify, get, update, scan,
/// compact
///
/// Every result is checked. The database is removed at the end, unless --keep is
/// given.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("an answer was wrong"))]
pub(crate) struct DemoArgs {
    /// The number of comments
    #[arg(
        long,
        value_name = "N",
        default_value_t = 300_000,
        value_parser = clap::value_parser!(u64).range(1..=1 << 32)
    )]
    pub(crate) count: u64,
    /// The directory of the database; must not exist or be empty [default: ./flagstone-demo,
    /// where what a killed demo has left is removed]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Keep the database
    #[arg(long)]
    pub(crate) keep: bool,
}
