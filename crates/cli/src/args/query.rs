//! Arguments of the commands that ask: find, distinct, export.

use super::{CollectionArgs, JsonArgs, MemoryArgs};
use clap::{Args, ValueEnum, ValueHint};
use flagstone::internal::{Shard, split_paths};
use std::path::PathBuf;

/// Print the documents that match a filter
///
/// A filter is JSON in the manner of MongoDB: '{"subreddit":"rust","score":{"$gte":10}}'. Paths are
/// dotted (author.name) or begin with $. In a pipe each document is a line of JSON; on a terminal
/// they are a table of the columns that fit.
#[derive(Args, Clone, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct FindArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The filter [default: all documents]
    pub(crate) filter: Option<String>,
    /// Sort by these paths, as in -score,created: a minus sorts from the highest to the lowest. The
    /// primary key is $key
    #[arg(long, value_name = "PATHS", allow_hyphen_values = true)]
    pub(crate) sort: Option<String>,
    /// Leave out the first N documents
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0,
        value_parser = crate::units::count::<u64>)]
    pub(crate) skip: u64,
    /// At most N documents
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::count::<u64>)]
    pub(crate) limit: Option<u64>,
    /// Print only these paths, as in id,author.name, or all but these, as in -body
    #[arg(long, value_name = "PATHS", allow_hyphen_values = true)]
    pub(crate) project: Option<String>,
    /// Print {"key":..,"document":..}
    #[arg(long, conflicts_with = "group")]
    pub(crate) keys: bool,
    /// Print groups instead of documents: paths, then what to compute of each group, as in
    /// 'subreddit: count, sum(score), min(score), max(score), avg(score) as mean'. --sort, --skip
    /// and --limit are those of the groups
    #[arg(long, value_name = "GROUP", conflicts_with = "project")]
    pub(crate) group: Option<String>,
    /// Print a page of N documents, and how to get the next one on stderr
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        conflicts_with_all = ["skip", "limit", "group"],
        value_parser = crate::units::count::<u64>)]
    pub(crate) page: Option<u64>,
    /// Begin after the position that the page before printed
    #[arg(long, value_name = "TOKEN", conflicts_with = "group")]
    pub(crate) after: Option<String>,
    #[command(flatten)]
    pub(crate) hint: HintArgs,
    /// Print how the documents would be found, and why, instead of the documents
    #[arg(long, conflicts_with_all = ["keys", "page"])]
    pub(crate) explain: bool,
    /// As --explain, and find them: print what was read, too
    #[arg(long, conflicts_with_all = ["explain", "keys", "page"])]
    pub(crate) analyze: bool,
    /// The form of the output [default: table on a terminal, else json]
    #[arg(long, value_name = "FORM")]
    pub(crate) format: Option<FormArg>,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// A shell prints this many, and the others on demand.
    #[arg(skip)]
    pub(crate) part: Option<u64>,
}

/// How documents are found, whatever the planner would choose.
#[derive(Args, Clone, Debug)]
pub(crate) struct HintArgs {
    /// Use this index
    #[arg(long, value_name = "NAME", conflicts_with = "scan")]
    pub(crate) index: Option<String>,
    /// Use no index
    #[arg(long)]
    pub(crate) scan: bool,
}

/// The form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    /// A line of JSON for each.
    Json,
    /// Comma-separated values, quotes as in RFC 4180. The columns are the paths of --project, or
    /// all fields that there are, for which the documents are read twice.
    Csv,
    /// A table, for people.
    Table,
}

/// Run an aggregation pipeline over the documents and print its rows
///
/// A pipeline is an array of stages in the manner of MongoDB:
/// '[{"$match":{"score":{"$gte":10}}},{"$group":{"_id":"$subreddit","n":{"$sum":1}}}]'. Rows have
/// the primary key as field _id.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct AggregateArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The pipeline, or - for one on stdin
    pub(crate) pipeline: String,
    /// The form of the output [default: table on a terminal, else json]
    #[arg(long, value_name = "FORM")]
    pub(crate) format: Option<FormArg>,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Print the distinct values at a path of the documents that match a filter, in order
///
/// An element of an array counts as a value.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct DistinctArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The path, as in author.name
    pub(crate) path: String,
    /// The filter, as that of find [default: all documents]
    pub(crate) filter: Option<String>,
    /// At most N values
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::count::<u64>)]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Write documents to a file: JSON lines, or paths of them as CSV, TSV, Parquet or Arrow
///
/// The file appears when it is complete: an export that fails or is stopped leaves none. A name
/// that ends in .zst is compressed by zstd, one in .gz by gzip. Without a filter all documents are
/// written.
///
/// The columns of Parquet and Arrow have types, which are inferred from all documents before the
/// first is written. Values of different types are a column of JSON text.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The filter, as that of find [default: all documents]
    pub(crate) filter: Option<String>,
    /// The file, or - for stdout [default: -]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, alias = "out")]
    pub(crate) output: Option<PathBuf>,
    /// The format [default: csv, tsv, parquet or arrow for a file whose name ends in it, else json]
    #[arg(long = "type", value_name = "TYPE", visible_alias = "format")]
    pub(crate) format: Option<super::FormatArg>,
    /// Write only one part of the documents, such as 1/4, chosen by their keys: 1/4 to 4/4 are all.
    /// Of a cluster, each reads its own buckets if the number of parts is a power of two, but all
    /// of them if they have ranges of keys
    #[arg(long, value_name = "I/N", value_parser = crate::units::shard)]
    pub(crate) shard: Option<Shard>,
    /// The paths that are the columns of CSV or TSV, as in id,author.name,score; the first line has
    /// their names. Of Parquet and Arrow they are all fields by default
    #[arg(long, value_name = "PATHS")]
    fields: Vec<String>,
    /// Of JSON, only these paths, or all but these, as in -body
    #[arg(long, value_name = "PATHS", allow_hyphen_values = true, conflicts_with = "fields")]
    pub(crate) project: Option<String>,
    /// Of Parquet and Arrow, begin with a column of this name, of the primary keys
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,
    /// Of Parquet and Arrow, infer the types from the first N documents alone, which saves reading
    /// all of them twice: a value that does not fit ends the export then, and no file appears
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::at_least_one::<u64>)]
    pub(crate) sample: Option<u64>,
    /// Sort by these paths, as find does [default: any order, which is faster]
    #[arg(long, value_name = "PATHS", allow_hyphen_values = true)]
    pub(crate) sort: Option<String>,
    /// At most N documents
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::count::<u64>)]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

impl ExportArgs {
    /// Returns the paths that are columns.
    pub(crate) fn fields(&self) -> Vec<&str> {
        self.fields.iter().flat_map(|text| split_paths(text)).map(str::trim).collect()
    }
}
