//! Arguments of generate.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Generate realistic data
#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    pub(crate) what: Generate,
}

/// What to generate.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    Comments(CommentsArgs),
}

/// Comments like those of a large forum, about 1,240 bytes each, one JSON document a line
///
/// Document i depends on the seed and i alone; ids are unique and ascend.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct CommentsArgs {
    /// The number of comments
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub(crate) count: u64,
    /// The seed: another seed gives other comments
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The file to write, or - for stdout [default: -]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Threads that generate comments [default: the processor's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
}
