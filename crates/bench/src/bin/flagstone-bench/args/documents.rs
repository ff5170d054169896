//! Arguments of the workloads on documents.

use super::shared::{PaceArgs, PlaceArgs, partition_count, thread_count};
use crate::units;
use clap::{Args, ValueEnum};
use flagstone::Durability;
use std::path::PathBuf;
use std::time::Duration;

/// Documents from JSON to stored, to the end of flushing; then, apart, compacted
///
/// Without files, comments are generated while they are loaded, which takes time of the same cores.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchLoadArgs {
    /// Files of JSON lines or a JSON array, plain or compressed by zstd or gzip
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Without files: how many comments
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) comments: u64,
    /// Without files: which comments
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The dotted path of the primary key in each document
    #[arg(long, value_name = "PATH", default_value = "id")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) threads: LoadThreads,
    /// Leave it as it was flushed
    #[arg(long)]
    pub(crate) no_compact: bool,
    /// Seconds of a row
    #[arg(long, value_name = "S", default_value = "1", value_parser = units::seconds)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// How documents are loaded.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Loading")]
pub(crate) struct LoadThreads {
    /// Hash partitions
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = partition_count())]
    pub(crate) partitions: u16,
    /// Threads that read
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) readers: u16,
    /// Threads that parse [default: the processor's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) parsers: Option<u16>,
    /// Threads that commit
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) writers: u16,
    /// What an acknowledged document survives: none, buffered, interval:100ms, group or each
    #[arg(long, value_name = "WHAT", default_value = "buffered", value_parser = units::durability)]
    pub(crate) durability: Durability,
    /// The memory budget
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = units::bytes)]
    pub(crate) memory: u64,
    /// Bytes of a block of a table before compression [default: the engine's]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    pub(crate) block_bytes: Option<u64>,
}

/// Which documents, and which of their keys.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Documents")]
pub(crate) struct SourceArgs {
    /// A loaded, compacted database; it is not changed: the trial works on a checkpoint
    #[arg(long, value_name = "DB", requires = "keys")]
    pub(crate) db: Option<PathBuf>,
    /// Its collection
    #[arg(long, value_name = "NAME", default_value = "comments")]
    pub(crate) collection: String,
    /// Keys, one a line, as `flagstone keys DB COLLECTION --sample N` writes them; each must be there
    #[arg(long, value_name = "FILE", requires = "db")]
    pub(crate) keys: Option<PathBuf>,
    /// The keys are JSON
    #[arg(long, requires = "keys")]
    pub(crate) json_key: bool,
    /// Without --db: load so many generated comments first
    #[arg(long, value_name = "N", default_value_t = 300_000, conflicts_with = "db", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) comments: u64,
    /// Without --db: hash partitions
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "db", value_parser = partition_count())]
    pub(crate) partitions: u16,
    /// Without --db: how many keys, drawn at random
    #[arg(long, value_name = "N", default_value_t = 100_000, conflicts_with = "db", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: u32,
    /// The memory budget
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = units::bytes)]
    pub(crate) memory: u64,
    /// Empty the page cache of the checkpoint first; otherwise every key is read once
    #[arg(long)]
    pub(crate) cold: bool,
}

/// What gets and updates of documents have in common.
#[derive(Args, Clone, Debug)]
pub(crate) struct DocumentTrialArgs {
    /// Threads, each in a closed loop; several numbers, parted by commas, are one trial each
    #[arg(long, value_name = "N,..", default_value = "2", value_delimiter = ',', value_parser = thread_count())]
    pub(crate) threads: Vec<u16>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Gets of documents by keys of a sample, on a checkpoint of a loaded, compacted database
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchGetArgs {
    /// Read what stands at this dotted path, without decoding the rest
    #[arg(long, value_name = "PATH", conflicts_with = "decode")]
    pub(crate) path: Option<String>,
    /// Decode the whole document to a value in memory
    #[arg(long)]
    pub(crate) decode: bool,
    #[command(flatten)]
    pub(crate) trials: DocumentTrialArgs,
}

/// Counts up the score of documents by keys of a sample, on a checkpoint of a loaded, compacted database
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchUpdateArgs {
    /// How; several, parted by commas, are one trial each
    #[arg(
        long,
        value_name = "HOW,..",
        value_enum,
        default_value = "get-put",
        value_delimiter = ','
    )]
    pub(crate) how: Vec<How>,
    #[command(flatten)]
    pub(crate) trials: DocumentTrialArgs,
}

/// How a document is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum How {
    /// A get, then a put: of two at the same time one is lost.
    GetPut,
    /// An atomic read-modify-write.
    Update,
    /// The same by a patch on the document's bytes.
    ApplyPatch,
    /// A patch as a merge operand, without reading.
    Merge,
    /// A put of a document read before: what the others are compared with.
    Put,
}

/// One workload on documents over many partitions and threads, unattended, a result file each
///
/// A cell that fails is told at the end and the others still run. Give --out a directory.
#[derive(Args, Clone, Debug)]
pub(crate) struct DocumentMatrixArgs {
    /// Which workload
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) workload: DocumentWorkload,
    /// Pass over cells measured by this program, so at its commit, with the same options
    #[arg(long)]
    pub(crate) resume: bool,
    /// Hash partitions, parted by commas [default: load 1,2,4,8; get 4,8; update 2,4,8]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = partition_count())]
    pub(crate) partitions: Vec<u16>,
    /// Of get and update: threads, parted by commas [default: 1,4,16,32,64,96]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = thread_count())]
    pub(crate) threads: Vec<u16>,
    /// Of load: threads that read, parted by commas [default: 1,2]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) readers: Vec<u16>,
    /// Of load: threads that parse, parted by commas [default: 1,2,4]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) parsers: Vec<u16>,
    /// Of load: the file; without it comments are generated while they are loaded
    #[arg(long, value_name = "FILE", conflicts_with = "comments")]
    pub(crate) file: Option<PathBuf>,
    /// How many comments are generated
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) comments: u64,
    /// Of get and update: how many keys, drawn at random [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: Option<u32>,
    /// Of update: how [default: get-put]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) how: Option<How>,
    /// The memory budget
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = units::bytes)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Workloads on documents that a matrix can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentWorkload {
    Load,
    Get,
    Update,
}
