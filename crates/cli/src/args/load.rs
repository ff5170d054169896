//! Arguments of load.

use super::{CollectionArgs, JsonArgs};
use crate::units::{self, Expiry};
use clap::{Args, ValueEnum, ValueHint};
use flagstone::Durability;
use flagstone::admin::parse_bytes;
use flagstone::internal::Shard;
use flagstone_load::FieldType;
use std::path::PathBuf;

/// Load documents from files of JSON, as lines or an array, or of a table, plain or compressed by
/// zstd or gzip
///
/// A document replaces the one with its key; --mode says what else to do. If several documents
/// share a key, the last one in the input wins, whatever the number of threads. Without --bad-lines
/// the load stops at the first document that cannot be loaded: everything before it is loaded,
/// nothing after it. Index violations surface at write time, so later documents may already be
/// loaded.
///
/// In a table, --type csv or tsv, the first record names the fields; a dot leads into a map, as in
/// author.name. A field without quotes that is a number in JSON (12, -1.10, 1e400) is that number
/// exactly; all others are text, such as 007, "12", true and empty fields. A first column without a
/// name, as pandas writes its index, is named index; names that are there twice are refused.
///
/// Of Parquet and Arrow files the columns are the fields of the documents, and values are exact.
/// One thread reads and writes; a row that cannot be loaded ends the load, unless --bad-lines is
/// given, and all rows before it are loaded.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!(
    "another document has the value of a unique index, or the key with --mode insert and \
     --stop-on-error"
))]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// Files, or - for stdin
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// The dotted path of the primary key in each document; or several with commas between them,
    /// for a key that is the array of their values (title,year); or auto, for a new key that
    /// ascends with time
    #[arg(long, value_name = "PATH", default_value = "id", alias = "upsertFields")]
    pub(crate) key: String,
    /// What to do with a document whose key may exist
    #[arg(long, value_name = "MODE", default_value = "upsert")]
    pub(crate) mode: ModeArg,
    /// Load only one part of the documents, such as 1/4, chosen by their keys: four commands on
    /// four machines, 1/4 to 4/4, load all of them, of the same files. Into a cluster, numbers of
    /// parts that are powers of two are faster: no two of them write to one bucket by hash
    #[arg(long, value_name = "I/N", value_parser = units::shard, conflicts_with = "drop")]
    pub(crate) shard: Option<Shard>,
    /// The format of the files [default: csv, tsv, parquet or arrow for names that end in it, else
    /// json]
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) format: Option<FormatArg>,
    /// The names of a table's fields, as in id,author.name,score: its first record is data then. Of
    /// Parquet and Arrow, the columns that become fields; others are not read
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    /// Load only rows of Parquet and Arrow that match, as in '{"score":{"$gte":10}}': a filter of
    /// the documents that their columns make
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// The character between the fields of a table, or tab [default: a comma, for tsv a tab]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// The types of columns of a table, as in zip=text,n=int,price=number,ok=bool,tags=json. A
    /// field that is not of its type is a bad document; one without text is left out, but of text
    #[arg(long, value_name = "NAME=TYPE", value_delimiter = ',', value_parser = field_type)]
    pub(crate) types: Vec<(String, FieldType)>,
    /// Every field of a table stays text, but of columns with --types
    #[arg(long)]
    pub(crate) all_text: bool,
    /// Leave out empty fields of a table without quotes, and nulls of Parquet and Arrow
    #[arg(long, alias = "ignoreBlanks")]
    pub(crate) ignore_blanks: bool,
    /// Take timestamps of Parquet and Arrow that have no time zone as UTC; they are refused
    /// otherwise, for they are often local times
    #[arg(long)]
    pub(crate) naive_utc: bool,
    /// When the documents expire: after a duration (90s, 2h, 7d) or at a time
    /// (2026-12-31T00:00:00Z)
    #[arg(long, value_name = "WHEN", value_parser = units::expiry)]
    pub(crate) expires: Option<Expiry>,
    /// Drop the collection and its indexes first. Nothing is dropped if the header or the first
    /// document of a file would be refused, which --bad-lines copies
    #[arg(long)]
    pub(crate) drop: bool,
    /// With --mode insert, stop at the first document whose key exists
    #[arg(long, conflicts_with = "bad_lines")]
    pub(crate) stop_on_error: bool,
    /// Continue a load of the same files that was stopped or killed and had --resume, too: each
    /// document is loaded once. How far a load came is kept in the database until its documents are
    /// gone: dropped, cleared or removed by a filter. What it had read is read again first; if that
    /// has changed, nothing is loaded. After a load that was complete, what the last file has grown
    /// by is loaded; if what was read has changed, all files are loaded again
    #[arg(long, conflicts_with = "drop")]
    pub(crate) resume: bool,
    /// Allow zstd to use windows of up to 2^LOG bytes, which takes as much memory: 31, which is 2
    /// GiB, for files that `zstd --long=31` made [default: 27]
    #[arg(long, value_name = "LOG", value_parser = clap::value_parser!(u32).range(10..=31))]
    pub(crate) long: Option<u32>,
    /// Hash partitions of the collection, 1 to 256, if this creates it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) partitions: Option<u16>,
    /// Threads that read; a plain file of JSON lines is split between them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads())]
    pub(crate) readers: u16,
    /// Threads that parse [default: the processor's cores]
    #[arg(long, value_name = "N", value_parser = threads())]
    pub(crate) parsers: Option<u16>,
    /// Threads that commit
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = threads(),
        alias = "numInsertionWorkers")]
    pub(crate) writers: u16,
    /// What an acknowledged document survives: none, buffered, interval:100ms, group or each
    #[arg(long, value_name = "WHAT", default_value = "buffered")]
    pub(crate) durability: Durability,
    /// The memory budget, as in 512MiB [default: a quarter of the machine's, 64 MiB to 4 GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Copy documents that cannot be loaded to this file, each after a line
    /// `# file:line:column: reason`, of Parquet and Arrow `# file: row N: reason`, and continue
    #[arg(long, value_name = "FILE")]
    pub(crate) bad_lines: Option<PathBuf>,
    /// Progress as one line of JSON a second on stdout; otherwise a bar when stderr is a terminal
    #[arg(long, value_name = "FORM")]
    pub(crate) progress: Option<ProgressForm>,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    #[command(flatten)]
    pub(crate) mongoimport: Mongoimport,
}

/// Options of mongoimport that ask for what is done anyway.
#[derive(Args, Debug)]
pub(crate) struct Mongoimport {
    /// The first record of a table names the fields
    #[arg(long = "headerline", hide = true, conflicts_with = "fields")]
    _headerline: bool,
    /// A file may be one JSON array
    #[arg(long = "jsonArray", hide = true)]
    _json_array: bool,
    /// With --mode insert, --stop-on-error; other modes stop at bad documents anyway
    #[arg(id = "stopOnError", long = "stopOnError", hide = true, conflicts_with = "bad_lines")]
    pub(crate) stop_on_error: bool,
    /// The last document of a key wins
    #[arg(long = "maintainInsertionOrder", hide = true)]
    _maintain_insertion_order: bool,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => Err("expected one ASCII character, no quote or line end, or tab".to_owned()),
    }
}

fn field_type(text: &str) -> Result<(String, FieldType), String> {
    let expected = "expected NAME=TYPE with the type text, int, number, bool or json";
    let (name, kind) = text.rsplit_once('=').ok_or(expected)?;
    Ok((name.to_owned(), FieldType::parse(kind).ok_or(expected)?))
}

fn threads() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=64)
}

/// What a load does with a document whose key may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// The document replaces the one of its key.
    Upsert,
    /// A document whose key exists is not loaded, but counted.
    Insert,
    /// Its fields replace those of the stored document: a JSON Merge Patch (RFC 7396).
    Merge,
}

/// The format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// JSON lines, one JSON array, or documents on several lines each.
    #[value(alias = "jsonl")]
    Json,
    /// Comma-separated values, quotes as in RFC 4180.
    Csv,
    /// Tab-separated values, without quotes.
    Tsv,
    /// Apache Parquet, in a build with the feature parquet.
    Parquet,
    /// Arrow IPC, as a file (Feather) or as a stream, in a build with the feature parquet.
    Arrow,
}

/// The form of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressForm {
    /// One line of JSON a second on stdout.
    Json,
    /// A bar on stderr.
    Bar,
    /// No progress.
    None,
}
