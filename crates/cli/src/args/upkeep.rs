//! Arguments of the commands on a whole database: checkpoint, compact, stats, verify, scrub,
//! repair, inspect.

use super::MemoryArgs;
use clap::{Args, ValueHint};
use flagstone::admin::parse_bytes;
use std::path::PathBuf;

/// Make an independent copy of a database in milliseconds, by hard links of its tables
///
/// The copy may be read, written, compacted and removed like any other database. Tables are copied
/// only when the target is on another file system. A checkpoint that fails or is stopped leaves an
/// empty directory.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
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
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Merge every tree down to its deepest level: overwritten and deleted data is removed
///
/// Ctrl-C stops; what was done stays.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct CompactArgs {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Show levels, sizes, amplification and cache hits
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct StatsArgs {
    /// The directory of the database, or the URL of the server that has it open:
    /// mongodb://USER@HOST:PORT/DATABASE
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Read everything and check every checksum, order and bound
///
/// Checks the manifest, every record of the log, every block of every table, that newer levels hold
/// newer writes, and that indexes and documents agree. Stops at the first damage, with exit code 4,
/// and names file and offset; scrub names every damaged table.
///
/// With --against, nothing of this is checked: the documents of both are read, each with its key,
/// its kinds of values and its expiry, and the first keys that differ are named. Counts and
/// checksums are taken of 4,096 ranges of keys by their hash, so that a few differences are found
/// in little time. Of a directory one moment is read; do not write to a cluster meanwhile.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("with --against, documents differ, or there is no collection"))]
pub(crate) struct VerifyArgs {
    /// The directory of the database; with --against, or cql://HOST/KEYSPACE
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// With --against, the collections that are compared [default: all of DB]
    #[arg(value_name = "COLLECTIONS", requires = "against")]
    pub(crate) collections: Vec<String>,
    /// Compare the collections with those of another directory or cluster
    #[arg(long, value_name = "OTHER", value_hint = ValueHint::DirPath, conflicts_with = "quick")]
    pub(crate) against: Option<PathBuf>,
    /// Check manifest, log and both ends of every table, without reading blocks, and no index
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Read every table once past all caches, and name every one that is damaged
///
/// Compares each table with the checksum in the manifest, and continues after damage; verify checks
/// more, and stops at the first. The exit code is 4 if a table is damaged.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct ScrubArgs {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// Read at most this many bytes a second (20MiB, say), which leaves the disk to others
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) rate: Option<u64>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Create a database from what can still be read of a damaged one, and report what is lost
///
/// The original is not changed: the repaired database goes to another directory, with hard links to
/// undamaged tables. The report goes to stdout. The exit code is 4 if anything is lost.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
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

/// Print the contents of a file of a database, damaged or not
///
/// A table, a segment of the log or of changes, a manifest or CURRENT. Damage is shown in its place
/// and leaves the exit code 0: verify is what judges.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct InspectArgs {
    /// A file in the directory of a database
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}
