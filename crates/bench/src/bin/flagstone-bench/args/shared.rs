//! Arguments that the workloads share.

use crate::units;
use clap::{Args, ValueEnum};
use flagstone::Durability;
use std::path::PathBuf;
use std::time::Duration;

/// Which engine, where it works, where results go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Places")]
pub(crate) struct PlaceArgs {
    /// The result: a file that ends in .jsonl, or a directory in which files are named by workload and
    /// options
    #[arg(long, value_name = "DIR_OR_FILE", default_value = "bench-results")]
    pub(crate) out: PathBuf,
    /// The directory of the store: absent, empty, or left by an earlier benchmark, which is removed
    /// [default: store, beside the results]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Keep the store; it is removed otherwise
    #[arg(long)]
    pub(crate) keep: bool,
    /// A line an interval on stderr, even if that is no terminal
    #[arg(long)]
    pub(crate) progress: bool,
    /// What is measured
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t = EngineName::Flagstone)]
    pub(crate) engine: EngineName,
    /// Nanoseconds of one core that the engine noop burns per call
    #[arg(long, value_name = "NS", default_value_t = 0.0)]
    pub(crate) burn_ns: f64,
}

/// Engines of this binary; others are measured by the program in peers/.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// This one.
    Flagstone,
    /// Keeps nothing, burns CPU: tells what of a latency is the scheduler's.
    Noop,
}

impl EngineName {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Flagstone => "flagstone",
            Self::Noop => "noop",
        }
    }
}

/// How the store is opened, partitions apart.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// The memory budget: memtables, cache and the rest
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = units::bytes)]
    pub(crate) memory: u64,
    /// Seal the memtable of a partition at so many bytes [default: by the memory budget]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    pub(crate) memtable_bytes: Option<u64>,
    /// Bytes of a block of a table before compression [default: the engine's]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    pub(crate) block_bytes: Option<u64>,
    /// Bits of filter a key [default: the engine's]
    #[arg(long, value_name = "BITS")]
    pub(crate) filter_bits: Option<u8>,
    /// Read blocks that are not in the cache past the page cache of the system
    #[arg(long)]
    pub(crate) direct_reads: bool,
    /// How many times what is alive the store may take [default: as the engine has it]
    #[arg(long, value_name = "TIMES")]
    pub(crate) space_amplification_max: Option<f64>,
    /// Entries carry no checks against changes in memory
    #[arg(long)]
    pub(crate) no_entry_checks: bool,
}

/// What all workloads over a store of their own take.
#[derive(Args, Clone, Debug)]
pub(crate) struct SetupArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// What those take that work on one number of partitions. Stands behind the plain arguments of a workload,
/// which would be shown under its last heading.
#[derive(Args, Clone, Debug)]
pub(crate) struct TrialArgs {
    /// Hash partitions
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = partition_count())]
    pub(crate) partitions: u16,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
}

/// What a write promises.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Store")]
pub(crate) struct DurableArgs {
    /// What an acknowledged write survives: none, buffered, interval:100ms, group or each
    #[arg(long, value_name = "WHAT", default_value = "buffered", value_parser = units::durability)]
    pub(crate) durability: Durability,
}

/// Which keys and values.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Keys and values")]
pub(crate) struct DataArgs {
    /// How many different keys there are [default: 100000000]; workloads over filled stores have their records instead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) key_space: Option<u64>,
    /// Bytes of a key, 8 to 1024
    #[arg(long, value_name = "BYTES", default_value_t = 16, value_parser = clap::value_parser!(u16).range(8..=1024))]
    pub(crate) key_size: u16,
    /// Bytes of a value [default: 1024; ycsb: 1000; durable-writers: 128; full-scan: 16]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    pub(crate) value_size: Option<u64>,
    /// What values are made of
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Random)]
    pub(crate) values: Kind,
    /// The same seed gives the same operations of each thread
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What values are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Bytes that do not compress.
    Random,
    /// Bytes that compress to about half.
    Half,
    /// Zeros behind a stamp.
    Zeros,
    /// Pieces of generated comments, as JSON.
    Comments,
}

/// How long, threads apart.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Time")]
pub(crate) struct PaceArgs {
    /// Seconds of a trial [default: 20]
    #[arg(long, value_name = "S", value_parser = units::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Operations of a trial over all threads, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) operations: Option<u64>,
    /// Seconds of a row
    #[arg(long, value_name = "S", default_value = "1", value_parser = units::seconds)]
    pub(crate) interval: Duration,
    /// Sync all files of the store at the end; that time belongs to the trial
    #[arg(long)]
    pub(crate) closing_sync: bool,
}

pub(super) fn thread_count() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=1024)
}

pub(super) fn partition_count() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=256)
}
