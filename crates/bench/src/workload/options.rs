//! The options of workloads. Each is declared once, here or in [`crate::options`]: as an argument,
//! as what code sets, and as what the header of a result file shows. A
//! [`Workload`](super::Workload) names those that it takes.

use super::{KeyOrder, Keys, ValueKind, Values};
use crate::options::{
    Isolation, Pace, StoreOptions, defaults, positive, seconds, share, size, within,
};
use clap::{Args, ValueEnum};
use flagstone::admin::parse_bytes;
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use std::time::Duration;

/// The options of all workloads.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// Records put before the clock starts
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = positive())]
    pub records: u64,
    /// Starts the clock after the last put: nothing is flushed, compacted or read before
    #[arg(long)]
    pub as_written: bool,
    /// The share of gets and deletes that use a key put before, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    pub known_keys: f64,
    /// Deletes report whether the key was there, at the cost of a get
    #[arg(long)]
    pub telling_deletes: bool,
    /// Scans of each thread, which is how long a trial takes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive())]
    pub rounds: u64,
    /// Entries of a scan
    #[arg(long, value_name = "N", default_value = "50", value_parser = within::<usize>(1, 1 << 32))]
    pub limit: usize,
    /// What becomes garbage
    #[arg(long, value_name = "HOW", value_enum, default_value = "random")]
    pub pattern: Pattern,
    /// Which entry is taken
    #[arg(long, value_name = "WHICH", value_enum, default_value = "first")]
    pub take: Take,
    /// A snapshot of all records is held meanwhile
    #[arg(long)]
    pub snapshot: bool,
    /// What transactions promise beside each other
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "snapshot")]
    pub isolation: Isolation,
    /// Which records transactions read and write
    #[arg(long, value_name = "HOW", value_enum, default_value = "uniform")]
    pub distribution: Distribution,
    /// Entries of an ingest
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = positive())]
    pub ingest_records: u64,
    /// Bytes of keys and values as a multiple of the memory
    #[arg(long, value_name = "X", default_value_t = 4.0)]
    pub times: f64,
    /// Seconds for which the device itself is measured before each trial
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    #[serde(skip)]
    pub device_seconds: Duration,
    /// Bytes of keys and values
    #[arg(long, value_name = "BYTES", default_value = "1GB", value_parser = parse_bytes)]
    pub size: u64,
    /// Puts, under key_0, key_1, ...
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = positive())]
    pub puts: u64,
    /// Random gets, before the compaction and again after it
    #[arg(long, value_name = "N", default_value_t = 250_000, value_parser = positive())]
    pub gets: u64,
    #[command(flatten)]
    #[serde(flatten)]
    pub documents: DocumentOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub store: StoreOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub pace: Pace,
}

/// Which keys and values.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "Keys and values")]
#[serde(rename_all = "kebab-case")]
pub struct DataOptions {
    /// The number of different keys [default: 100000000]
    #[arg(long, value_name = "N", value_parser = positive())]
    #[serde(serialize_with = "all_keys")]
    pub key_space: Option<u64>,
    /// Bytes of a key, 8 to 1024
    #[arg(long = "key-size", default_value = "16", value_parser = within::<usize>(8, 1024))]
    #[serde(rename = "key-size")]
    pub key_bytes: usize,
    /// The order of the keys of records 0, 1, ..
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    pub key_order: KeyOrder,
    /// Bytes of a value
    #[arg(long = "value-size", value_name = "BYTES", default_value = "1024", value_parser = size)]
    #[serde(rename = "value-size")]
    pub value_bytes: usize,
    /// What values are made of
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    pub values: ValueKind,
    /// The same seed gives the same data and the same operations of each thread
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// Which documents, and how they are loaded, read and changed.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "Documents")]
#[serde(rename_all = "kebab-case")]
pub struct DocumentOptions {
    /// Files of JSON lines or a JSON array, plain or compressed by zstd or gzip; without them
    /// comments are generated
    #[arg(value_name = "FILE", conflicts_with = "seed")]
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// The number of comments that are generated
    #[arg(
        long,
        value_name = "N",
        default_value_t = 300_000,
        conflicts_with_all = ["files", "db"],
        value_parser = positive()
    )]
    pub comments: u64,
    /// The dotted path of the primary key in each document
    #[arg(long, value_name = "PATH", default_value = "id")]
    pub key: String,
    /// Leave the store as it was flushed
    #[arg(long = "no-compact", action = clap::ArgAction::SetFalse)]
    #[serde(skip)]
    pub compact: bool,
    /// Threads that read
    #[arg(long, value_name = "N", default_value = "1", value_parser = within::<u16>(1, 64))]
    pub readers: u16,
    /// Threads that parse; as many as the processor has cores, unless told
    #[arg(long, value_name = "N", default_value_t = cores(), value_parser = within::<u16>(1, 64))]
    pub parsers: u16,
    /// Threads that commit
    #[arg(long, value_name = "N", default_value = "2", value_parser = within::<u16>(1, 64))]
    pub writers: u16,
    /// A loaded, compacted database instead of comments; it is not changed: the trial works on a
    /// checkpoint
    #[arg(
        long,
        value_name = "DB",
        requires = "keys",
        conflicts_with_all = ["partitions", "routing"]
    )]
    #[serde(skip)]
    pub db: Option<PathBuf>,
    /// The collection
    #[arg(long, value_name = "NAME", default_value = "comments")]
    pub collection: String,
    /// Keys, one a line, as `flagstone keys DB COLLECTION --sample N` writes them; each must be
    /// there
    #[arg(long, value_name = "FILE", requires = "db")]
    #[serde(skip)]
    pub keys: Option<PathBuf>,
    /// The keys are JSON
    #[arg(long, requires = "keys")]
    #[serde(skip)]
    pub json_key: bool,
    /// Without --db: the number of keys, drawn at random
    #[arg(
        long,
        value_name = "N",
        default_value = "100000",
        conflicts_with = "db",
        value_parser = within::<usize>(1, 1 << 32)
    )]
    pub sample: usize,
    /// Empty the page cache of the checkpoint first; otherwise every key is read once
    #[arg(long)]
    pub cold: bool,
    /// Read the value at this dotted path, without decoding the rest
    #[arg(long, value_name = "PATH", conflicts_with = "decode")]
    #[serde(skip)]
    pub path: Option<String>,
    /// Decode the whole document to a value in memory
    #[arg(long)]
    #[serde(skip)]
    pub decode: bool,
    /// How documents are updated
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    #[serde(skip)]
    pub how: UpdateHow,
    /// What is asked
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub question: Asks,
    /// The number of indexes: by author, by subreddit and score, by time, by thread
    #[arg(long, value_name = "N", default_value = "1", value_parser = within::<usize>(0, 4))]
    pub indexes: usize,
    /// What the ids of comments are kept by
    #[arg(long, value_name = "FIELD", value_enum, default_value = "author")]
    pub by: PostedBy,
    /// Replace comments that are there, drawn at random, instead of inserting new ones
    #[arg(long)]
    pub replace: bool,
}

/// What is asked about comments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asks {
    /// The comment of a key
    Key,
    /// All comments of an author who wrote at most ten
    #[default]
    Rare,
    /// All comments of one of the most popular subreddits
    Popular,
    /// Subreddit and score of these comments, which the index has
    Covered,
    /// The best ten comments of a popular subreddit within a time: two conditions, order and limit
    Best,
    /// For each subreddit the number of comments and the sum of their scores
    Groups,
}

/// What the ids of comments are kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PostedBy {
    /// Most authors have a few
    Author,
    /// Few subreddits, some with a large part of all
    Subreddit,
}

/// What becomes garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Records drawn at random are replaced
    Random,
    /// Each thread puts a new record and deletes its oldest one, by turns
    Queue,
}

/// Which entry of a queue is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// That with the least key
    First,
    /// That with the greatest key
    Last,
    /// Of documents the one with the least value, by an index
    Index,
}

/// Which records are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All with the same probability
    Uniform,
    /// A few of them often, as Zipf's law has it, with the exponent of YCSB
    Zipfian,
}

/// How a document is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UpdateHow {
    /// A get, then a put, as the origin did: of two at the same time one can be lost
    #[default]
    GetPut,
    /// An atomic read-modify-write
    Update,
    /// An atomic read-modify-write by a patch on the document's bytes
    ApplyPatch,
    /// A patch as a merge operand, without reading
    Merge,
    /// A put of one of 4,096 documents of the sample that were read before the clock started, under
    /// any key of the sample: the others are compared with this
    Put,
}

fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(64) as u16)
}

/// Keys, unless an option says otherwise.
const KEY_SPACE: u64 = 100_000_000;

fn all_keys<S: Serializer>(number: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(number.unwrap_or(KEY_SPACE))
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

impl DataOptions {
    pub const fn keys(&self) -> Keys {
        let space = match self.key_space {
            Some(space) => space,
            None => KEY_SPACE,
        };
        Keys::new(self.seed, space, self.key_bytes, self.key_order)
    }

    pub fn make_values(&self) -> Values {
        Values::new(self.seed, self.value_bytes, self.values)
    }

    /// Bytes of a key and its value.
    pub const fn entry_bytes(&self) -> u64 {
        (self.key_bytes + self.value_bytes) as u64
    }
}
