//! Arguments of the commands on a whole database: checkpoint, compact, stats, verify, inspect.

use crate::units;
use clap::Args;
use std::path::PathBuf;

/// Make an independent copy of a database in milliseconds, by hard links of its tables
///
/// The copy may be read, written, compacted and removed like any other. To another file system its
/// tables are copied.
#[derive(Args, Debug)]
pub(crate) struct CheckpointArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The directory of the copy, which must be missing or empty
    #[arg(value_name = "DIR")]
    pub(crate) copy: PathBuf,
}

/// Merge every tree down to its deepest level: what was overwritten or deleted goes
#[derive(Args, Debug)]
pub(crate) struct CompactArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The memory budget, as in 512MiB
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    pub(crate) memory: Option<u64>,
}

/// Show levels, sizes, amplification and cache hits
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Read everything and check every checksum, order and bound
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
}

/// Print any file of a database for people, damaged ones too
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// A file in the directory of a database
    pub(crate) file: PathBuf,
}
