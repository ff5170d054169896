//! Arguments of load.

use super::CollectionArgs;
use clap::{Args, ValueEnum};
use flagstone::{Durability, parse_bytes};
use std::path::PathBuf;

/// Load documents from files of JSON lines or a JSON array, plain or compressed by zstd or gzip
///
/// A document replaces the one with its key. If a key is in the input more than once, the last
/// document is certain to win only with one reader, one parser and one writer. Without --bad-lines
/// the load stops at the first document that cannot be loaded; documents that were acknowledged
/// before stay.
#[derive(Args, Debug)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// Files, or - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The dotted path of the primary key in each document
    #[arg(long, value_name = "PATH", default_value = "id")]
    pub(crate) key: String,
    /// Hash partitions of the collection, 1 to 256, if this creates it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) partitions: Option<u16>,
    /// Threads that read; a plain file is split between them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads())]
    pub(crate) readers: u16,
    /// Threads that parse [default: the processor's cores]
    #[arg(long, value_name = "N", value_parser = threads())]
    pub(crate) parsers: Option<u16>,
    /// Threads that commit
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = threads())]
    pub(crate) writers: u16,
    /// What an acknowledged document survives: none, buffered, interval:100ms, group or each
    #[arg(long, value_name = "WHAT", default_value = "buffered")]
    pub(crate) durability: Durability,
    /// The memory budget, as in 512MiB [default: a quarter of the machine's, 64 MiB to 4 GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Copy documents that cannot be loaded to this file, each after a line
    /// `# file:line:column: reason`, and continue
    #[arg(long, value_name = "FILE")]
    pub(crate) bad_lines: Option<PathBuf>,
    /// Progress as one line of JSON a second on stdout; otherwise a bar when stderr is a terminal
    #[arg(long, value_name = "FORM")]
    pub(crate) progress: Option<ProgressForm>,
}

fn threads() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=64)
}

/// The form of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressForm {
    /// One line of JSON a second on stdout.
    Json,
    /// A bar on stderr.
    Bar,
    /// No progress.
    None,
}
