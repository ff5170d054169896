//! Arguments of `backup` and `restore`.

use super::MemoryArgs;
use clap::Args;
use flagstone::admin::parse_bytes;
use std::path::PathBuf;

/// Add a generation to the backups of a database; list, check or drop generations
///
/// Tables that an earlier generation has are not copied again. The database must not be open
/// elsewhere; a program that has it open calls `Database::backup` itself, and a server that was
/// started with --backups adds a generation there if DB is its URL, alone. With --list, --verify,
/// or --keep and no database, only the directory of backups is read. A backup that fails or is
/// stopped adds no generation, and the next one reuses what it has copied.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
#[command(override_usage = "flagstone backup DB DIR [--keep N] [--rate BYTES]\n       \
                      flagstone backup URL [--keep N]\n       \
                      flagstone backup DIR [--list] [--verify] [--keep N]")]
pub(crate) struct BackupArgs {
    /// The directory of the database, and that of its backups, which is created if it is missing;
    /// or the URL of a server
    #[arg(value_names = ["DB", "DIR"], num_args = 1..=2, required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// List the generations
    #[arg(long)]
    pub(crate) list: bool,
    /// Read all generations and the tables they need, and check their checksums; the exit code is 4
    /// if one is damaged
    #[arg(long)]
    pub(crate) verify: bool,
    /// Drop all generations but the N newest
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::at_least_one::<u64>)]
    pub(crate) keep: Option<u64>,
    /// Copy at most this many bytes a second (20MiB, say); they are read back at the same rate
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) rate: Option<u64>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Create a new database from a generation of backups
///
/// The target must be missing or empty. A restore that fails or is stopped leaves it empty.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct RestoreArgs {
    /// The directory of the backups
    #[arg(value_name = "DIR")]
    pub(crate) backups: PathBuf,
    /// The generation [default: the newest]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::count::<u64>)]
    pub(crate) generation: Option<u64>,
    /// The directory of the new database, which must be missing or empty
    #[arg(value_name = "TARGET")]
    pub(crate) target: PathBuf,
}
