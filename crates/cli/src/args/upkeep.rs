//! Arguments of the commands on a whole database: checkpoint, compact, stats, verify, repair,
//! inspect.

use clap::{Args, ValueHint};
use flagstone::parse_bytes;
use std::path::PathBuf;

/// Make an independent copy of a database in milliseconds, by hard links of its tables
///
/// The copy may be read, written, compacted and removed like any other database. To another file
/// system its tables are copied.
#[derive(Args, Debug)]
pub(crate) struct CheckpointArgs {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// The directory of the copy, which must be missing or empty
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) copy: PathBuf,
    /// If tables must be copied, copy at most this many bytes a second (20MiB, say)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) rate: Option<u64>,
}

/// Merge every tree down to its deepest level: overwritten and deleted data are removed
#[derive(Args, Debug)]
pub(crate) struct CompactArgs {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// The memory budget, as in 512MiB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
}

/// Show levels, sizes, amplification and cache hits
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Read everything and check every checksum, order and bound
///
/// Checks the manifest, every record of the log, every block of every table, and that newer levels
/// hold newer writes. Stops at the first error, with exit code 1.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// Check manifest, log and both ends of every table, without reading blocks
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Create a database from what can still be read of a damaged one, and report what is lost
///
/// The original is not changed: the repaired database goes to another directory, with hard links to
/// undamaged tables. The report goes to stdout. The exit code is 1 if anything is lost.
#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    /// The directory of the damaged database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// The directory of the repaired database, which must be missing or empty [default:
    /// DB.repaired]
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    pub(crate) to: Option<PathBuf>,
    /// Repair in place; files that are not needed any more are renamed to NAME.aside, none is
    /// removed
    #[arg(long)]
    pub(crate) in_place: bool,
    /// The fold of a keyspace whose catalog entry is lost, as in 3=add-i64/1
    #[arg(long = "fold", value_name = "KEYSPACE=NAME", value_parser = fold)]
    pub(crate) folds: Vec<(u32, String)>,
}

fn fold(text: &str) -> Result<(u32, String), String> {
    let expected =
        || "expected the number of a keyspace and the name of a fold, as in 3=add-i64/1".to_owned();
    let (keyspace, name) = text.split_once('=').ok_or_else(expected)?;
    Ok((keyspace.parse().map_err(|_no_number| expected())?, name.to_owned()))
}

/// Print the contents of any file of a database, damaged or not
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// A file in the directory of a database
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}
