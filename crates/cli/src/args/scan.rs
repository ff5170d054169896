//! Arguments of the commands on many documents: scan, count, keys, describe; on collections as a
//! whole: collections, alter, rename, drop.

use clap::{Args, ValueHint};
use flagstone::Compression;
use flagstone::admin::parse_bytes;
use flagstone::doc::JsonMode;
use std::path::PathBuf;

/// Which collection.
#[derive(Args, Clone, Debug)]
pub(crate) struct CollectionArgs {
    /// The directory of the database, or the URL of the server that has it open:
    /// mongodb://USER@HOST:PORT/DATABASE
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// The collection
    #[arg(value_name = "COLLECTION")]
    pub(crate) name: String,
}

/// Which JSON.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct JsonArgs {
    /// JSON is Extended JSON of MongoDB, version 2, where it is read and where it is printed:
    /// {"$date":"2026-12-31T00:00:00Z"}, {"$uuid":".."}, {"$oid":".."}, {"$numberDouble":"NaN"} and
    /// {"$binary":{"base64":"..","subType":"00"}} are values, not maps
    #[arg(long)]
    pub(crate) extended_json: bool,
}

impl JsonArgs {
    pub(crate) const fn mode(self) -> JsonMode {
        if self.extended_json { JsonMode::Extended } else { JsonMode::Plain }
    }
}

/// How much memory.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct MemoryArgs {
    /// The memory budget, as in 512MiB [default: a quarter of the machine's, 64 MiB to 4 GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
}

/// Print the documents of a range of keys, one a line, in the order of the keys
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The first key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// The key to stop before
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Only keys that are text with this beginning
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<String>,
    /// At most this many documents
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::count::<usize>)]
    pub(crate) limit: Option<usize>,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Print {"key":..,"document":..}
    #[arg(long)]
    pub(crate) keys: bool,
    /// The keys of --from and --to are JSON values
    #[arg(long)]
    pub(crate) json_key: bool,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// List the collections, with the number of their documents and their size
///
/// Counts come from counters, without reading documents. One that is only an estimate, because
/// documents were replaced or removed and not compacted yet, begins with ~; the command count
/// counts exactly. Sizes are the bytes of tables, compressed, and of memtables.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct CollectionsArgs {
    /// The directory of the database, or the URL of the server that has it open:
    /// mongodb://USER@HOST:PORT/DATABASE
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// Print the names alone, one a line
    #[arg(long, conflicts_with = "json")]
    pub(crate) names: bool,
    /// Print JSON, a collection a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Show the fields of a collection: their types, the share of documents that have them, examples
///
/// Fields of maps have dotted paths, elements of arrays have the path of their array and []. A
/// sample is half the first and half the last documents in the order of keys.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct DescribeArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The number of documents that are looked at
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1000,
        value_parser = crate::units::at_least_one::<u64>)]
    pub(crate) sample: u64,
    /// Look at all documents
    #[arg(long, conflicts_with = "sample")]
    pub(crate) all: bool,
    /// Print JSON, a field a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Give a collection another name, with its documents and indexes
///
/// This takes a moment, however many documents there are. A name that is taken is refused.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct RenameArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The new name
    #[arg(value_name = "NEW_NAME")]
    pub(crate) new: String,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Remove a collection with all its documents and indexes
///
/// This takes a moment, however many documents there are; delete --where {} removes them one by one
/// and keeps the indexes. On a terminal the command asks first.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection, or the answer was not yes"))]
pub(crate) struct DropArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Change how the tables of a collection are written from now on
///
/// Existing tables change when they are compacted. The command compact rewrites those whose
/// compression differs. Indexes do not change. A compression is none, lz4, or zstd and a level of 1
/// to 19: "zstd 3".
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
#[group(required = true, multiple = true, args = [
    "compression",
    "bottom_compression",
    "bottom_dictionary",
    "block_bytes",
    "filter_bits",
])]
pub(crate) struct AlterArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The compression of all levels but the deepest [default of new collections: lz4]
    #[arg(long)]
    pub(crate) compression: Option<Compression>,
    /// The compression of the deepest level, which holds most of the data [default of new
    /// collections: zstd 1]
    #[arg(long, value_name = "COMPRESSION")]
    pub(crate) bottom_compression: Option<Compression>,
    /// Whether tables of the deepest level have a dictionary for zstd [default of new collections:
    /// true]
    #[arg(long, value_name = "BOOL")]
    pub(crate) bottom_dictionary: Option<bool>,
    /// The bytes of a block before compression, 1KiB to 1MiB [default of new collections: 16KiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) block_bytes: Option<u64>,
    /// The bits of filter for each key, 0 to 20 [default of new collections: 10]
    #[arg(long, value_name = "BITS")]
    pub(crate) filter_bits: Option<u8>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Count the documents, or those that match a filter
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The filter, as that of find [default: all documents]
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Print keys, one a line: all in order, or a random sample in random order
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// Only this many keys, each as likely as any other
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::at_least_one::<u32>)]
    pub(crate) sample: Option<u32>,
    /// The same seed and data give the same sample
    #[arg(long, value_name = "S", default_value_t = 1, requires = "sample")]
    pub(crate) seed: u64,
    /// Print every key as JSON, text too
    #[arg(long)]
    pub(crate) json_key: bool,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}
