//! Arguments of generate.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Make realistic data
#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    pub(crate) what: Generate,
}

/// What to make.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    Comments(CommentsArgs),
}

/// Comments as of a large forum, about 1,240 bytes each, one JSON document a line
///
/// Document i depends on the seed and i alone; ids are unique and ascend.
#[derive(Args, Debug)]
pub(crate) struct CommentsArgs {
    /// How many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub(crate) count: u64,
    /// Which comments
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where to write them; stdout when it is not given
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Threads that make comments [default: the processor's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
}
