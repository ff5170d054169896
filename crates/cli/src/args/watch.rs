//! Arguments of watch.

use super::{JsonArgs, MemoryArgs};
use crate::units;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Print what was committed, in order: one JSON line a change, with the token to continue after it
///
/// The database must keep changes: --keep makes it do so, from then on, and ends.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!(
    "there is no such collection or keyspace, or the changes after TOKEN are not kept any more"
))]
pub(crate) struct WatchArgs {
    /// The directory of the database, or the URL of the server that has it open:
    /// mongodb://USER@HOST:PORT/DATABASE
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// The collection or keyspace [default: all]
    #[arg(value_name = "COLLECTION")]
    pub(crate) name: Option<String>,
    /// Where to begin: start, now, or the token of an earlier change
    #[arg(long, value_name = "TOKEN", default_value = "start")]
    pub(crate) from: String,
    /// End after this number of commits
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::count::<u64>)]
    pub(crate) limit: Option<u64>,
    /// Keep waiting for new changes while others write. The database is opened for each look
    #[arg(long)]
    pub(crate) follow: bool,
    /// With --follow: end when nothing has changed for this long
    #[arg(long, value_name = "TIME", value_parser = units::duration_of, requires = "follow")]
    pub(crate) timeout: Option<Duration>,
    /// Keep this many bytes of changes from now on, such as 1GiB; 0: none
    #[arg(long, value_name = "SIZE", value_parser = flagstone::admin::parse_bytes,
          conflicts_with_all = ["name", "from", "limit", "follow"])]
    pub(crate) keep: Option<u64>,
    /// With --keep: keep changes for at most this long
    #[arg(long, value_name = "TIME", value_parser = units::duration_of, requires = "keep")]
    pub(crate) keep_for: Option<Duration>,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}
