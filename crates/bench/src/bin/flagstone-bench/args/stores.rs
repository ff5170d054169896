//! Arguments of the workloads that fill a store first, and of the device.

use super::shared::{PlaceArgs, StoreArgs, TrialArgs, partition_count, thread_count};
use crate::units;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of gets over a filled store.
#[derive(Args, Clone, Debug)]
pub(crate) struct GetsArgs {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = thread_count())]
    pub(crate) threads: u16,
    /// Records put, compacted and read once before the clock starts; a million of 1 KiB are twice as much
    /// as the default memory, of which 350,000 fit the cache
    #[arg(long, value_name = "N", default_value_t = 350_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
    /// Starts the clock behind the last put: nothing is flushed, compacted or read before
    #[arg(long)]
    pub(crate) as_written: bool,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// Gets over a store larger than its memory, the page cache kept out, beside what the device can do
///
/// Every file is synced and dropped from the page cache before a trial and every 50 ms during it. What
/// the memory's own cache serves is not compared: `miss/dev` is the blocks that were not in it by the reads
/// of the device, a second, in blocks of the mean stored size; `B/miss` tells that they came from there.
#[derive(Args, Clone, Debug)]
pub(crate) struct LargerArgs {
    /// Threads of each trial, parted by commas
    #[arg(long, value_name = "N,..", default_value = "1,32", value_delimiter = ',', value_parser = thread_count())]
    pub(crate) threads: Vec<u16>,
    /// Bytes of a block, one store each, parted by commas
    #[arg(long, value_name = "BYTES,..", default_value = "4KiB,16KiB", value_delimiter = ',', value_parser = units::bytes)]
    pub(crate) blocks: Vec<u64>,
    /// Bytes of keys and values as a multiple of the memory
    #[arg(long, value_name = "X", default_value_t = 4.0)]
    pub(crate) times: f64,
    /// Seconds for which the device itself is measured before each trial
    #[arg(long, value_name = "S", default_value = "5", value_parser = units::seconds)]
    pub(crate) device_seconds: Duration,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// Rates of puts and gets over stores of several sizes
#[derive(Args, Clone, Debug)]
pub(crate) struct SizesArgs {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = thread_count())]
    pub(crate) threads: u16,
    /// Bytes of keys and values, one store each, parted by commas
    #[arg(long, value_name = "BYTES,..", default_value = "1GB,4GB,16GB", value_delimiter = ',', value_parser = units::bytes)]
    pub(crate) sizes: Vec<u64>,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// Scans of a whole store of small entries: an operation is an entry
#[derive(Args, Clone, Debug)]
pub(crate) struct FullScanArgs {
    /// Threads, each of which scans everything
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = thread_count())]
    pub(crate) threads: u16,
    /// Entries put and compacted before the clock starts
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
    /// Scans of each thread, which is how long a trial takes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// Scans of 50 entries and inserts, half and half
#[derive(Args, Clone, Debug)]
pub(crate) struct ShortScanArgs {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = thread_count())]
    pub(crate) threads: u16,
    /// Entries put and compacted before the clock starts
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
    /// Entries of a scan
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Starts the clock behind the last put: nothing is flushed, compacted or read before
    #[arg(long)]
    pub(crate) as_written: bool,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// Records that are replaced again and again, and the room that the store takes for what is alive
#[derive(Args, Clone, Debug)]
pub(crate) struct OverwriteArgs {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = thread_count())]
    pub(crate) threads: u16,
    /// Records put and compacted before the clock starts, and alive all the time
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
    /// What becomes garbage
    #[arg(long, value_name = "HOW", value_enum, default_value_t = OverwritePattern::Random)]
    pub(crate) pattern: OverwritePattern,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// What becomes garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverwritePattern {
    /// Records drawn at random are replaced.
    Random,
    /// New records are put, and the oldest are deleted.
    Queue,
}

/// A million small puts in the order of a counter, random gets, a compaction, random gets: one thread
///
/// Closes and reopens between puts and gets, and checks every value. Memtables have 4 MiB unless
/// --memtable-bytes says otherwise.
#[derive(Args, Clone, Debug)]
pub(crate) struct SequentialArgs {
    /// What the values are made of, one trial each, parted by commas
    #[arg(
        long,
        value_name = "KIND,..",
        value_enum,
        default_value = "zero,random",
        value_delimiter = ','
    )]
    pub(crate) values: Vec<SequentialBytes>,
    /// Puts, under key_0, key_1, ...
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) puts: u64,
    /// Random gets, before the compaction and again behind it
    #[arg(long, value_name = "N", default_value_t = 250_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) gets: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value = "128", value_parser = units::bytes)]
    pub(crate) value_size: u64,
    /// The same seed gives the same values and gets
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Hash partitions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = partition_count())]
    pub(crate) partitions: u16,
    /// Seconds of a row
    #[arg(long, value_name = "S", default_value = "1", value_parser = units::seconds)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// What the values of the sequential benchmark are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SequentialBytes {
    /// Zeros.
    Zero,
    /// Bytes that do not compress.
    Random,
}

/// What the device can do: random reads past the page cache, sequential writes, syncs
///
/// Makes its files in --dir and removes them. Needs a file system that takes O_DIRECT.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeviceArgs {
    /// A directory on the device [default: that of the result]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Bytes of the file that is written and read
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = units::bytes)]
    pub(crate) file_bytes: u64,
    /// Bytes of a read, rounded up to pages of 4 KiB, parted by commas
    #[arg(long, value_name = "BYTES,..", default_value = "4KiB,16KiB", value_delimiter = ',', value_parser = units::bytes)]
    pub(crate) block_bytes: Vec<u64>,
    /// Threads that read, parted by commas
    #[arg(long, value_name = "N,..", default_value = "1,32", value_delimiter = ',', value_parser = thread_count())]
    pub(crate) threads: Vec<u16>,
    /// Seconds of a phase
    #[arg(long, value_name = "S", default_value = "5", value_parser = units::seconds)]
    pub(crate) seconds: Duration,
    /// Seconds of a row
    #[arg(long, value_name = "S", default_value = "1", value_parser = units::seconds)]
    pub(crate) interval: Duration,
    /// The result: a file that ends in .jsonl, or a directory
    #[arg(long, value_name = "DIR_OR_FILE", default_value = "bench-results")]
    pub(crate) out: PathBuf,
    /// A line an interval on stderr
    #[arg(long)]
    pub(crate) progress: bool,
}
