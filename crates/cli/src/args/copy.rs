//! Arguments of copy.

use super::{MemoryArgs, ProgressForm};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Copy collections between directories and clusters: documents with their keys, kinds of values
/// and expiries, then their indexes
///
/// Of a directory one moment is copied, whatever is written meanwhile; of a cluster each document
/// as it is when it is read. The collections of TO must be new or empty. A copy that was stopped
/// goes on behind its last mark when it is run again, if a directory FROM has not changed since;
/// one that was complete is not done again until its documents are dropped.
///
/// A cluster keeps no unique index, nor one by which documents expire. A copy of all collections
/// refuses them before anything is copied; where COLLECTIONS name theirs, plain indexes with their
/// fields take their place. Keyspaces of a program are not copied: see checkpoint.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!(
    "there is no such collection, or with --verify documents differ"
))]
pub(crate) struct CopyArgs {
    /// The directory of a database that is read, or cql://HOST/KEYSPACE
    #[arg(value_name = "FROM", value_hint = ValueHint::DirPath)]
    pub(crate) from: PathBuf,
    /// The directory or the cluster that gets the collections; what is missing is created
    #[arg(value_name = "TO", value_hint = ValueHint::DirPath)]
    pub(crate) to: PathBuf,
    /// The collections [default: all]
    #[arg(value_name = "COLLECTIONS")]
    pub(crate) collections: Vec<String>,
    /// Then read both, and compare what was copied with what TO has, as verify --against does
    #[arg(long)]
    pub(crate) verify: bool,
    /// Progress as one line of JSON a second on stdout; otherwise a bar when stderr is a terminal
    #[arg(long, value_name = "FORM")]
    pub(crate) progress: Option<ProgressForm>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}
