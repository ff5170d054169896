//! Documents into a file of Parquet or Arrow.
//!
//! All documents are read once for the types of the columns, and once to be written. A Parquet file
//! gets a new group of rows when one has grown to 64 MiB, so memory stays bounded.

use super::super::export::packing_of;
use super::super::query::{self, Asked};
use super::super::{open, target};
use super::ColumnarFormat;
use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::units::counted;
use crate::{interrupt, output};
use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};
use flagstone::Find;
use flagstone::internal::sharded;
use flagstone_arrow::{Column, Columns, KeyColumn, Kind, Stream, StreamOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::error::Error;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

/// The rows of a record batch.
const ROWS: usize = 8192;
/// A group of rows of a Parquet file ends when it has this many bytes.
const GROUP_BYTES: usize = 64 << 20;
/// A note names the types of this many columns.
const SHOWN: usize = 20;

/// Writes the documents that the arguments ask for.
pub(in super::super) fn export(args: &ExportArgs, form: ColumnarFormat) -> Result<(), Failure> {
    check(args)?;
    let fields = args.fields().into_iter().map(column);
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let sort = args.sort.as_deref().map(query::check_sort).transpose()?;
    let asked = Asked::open(&args.collection, args.filter.as_deref(), args.memory)?;
    let filter = open::filter(args.filter.as_deref().unwrap_or("{}"))?;
    let Some(collection) = asked.documents.here() else {
        let text = "Parquet and Arrow are written from the directory of a database; from a server, \
                    export JSON or CSV";
        return Err(Failure::Usage(text.to_owned()));
    };
    let find_of = |is_sorted: bool| {
        let find = collection.find(&filter);
        let find = match args.shard {
            Some(shard) => sharded(find, shard),
            None => find,
        };
        let find = match sort.filter(|_| is_sorted) {
            Some(sort) => find.sort(sort),
            None => find,
        };
        match args.limit {
            Some(limit) => find.limit(limit),
            None => find,
        }
    };
    // The order matters to the types if it decides which documents are written.
    let columns = columns(args, fields, &find_of(args.limit.is_some()))?;
    let types: Vec<_> = columns.kinds().map(|(name, kind)| shown(name, &kind)).collect();
    // By one thread, so that a file of the same documents has the same order.
    let options = StreamOptions { rows: ROWS, threads: 1, ..StreamOptions::default() };
    let is_sorted = true;
    let stream = Stream::new(&columns, &find_of(is_sorted), options)?;
    let Some(path) = args.output.as_deref().filter(|path| *path != Path::new("-")) else {
        let name = Path::new("stdout");
        let sink = Sink::of_pipe(form, std::io::stdout(), stream.schema()).map_err(failed(name))?;
        return write(stream, sink, name).map(|_count| ());
    };
    let count = target::write(path, |file, part| {
        let sink = Sink::of_file(form, BufWriter::new(file), stream.schema());
        write(stream, sink.map_err(failed(part))?, part)
    })?;
    let more = if types.len() > SHOWN { ", .." } else { "" };
    output::note(&format!(
        "{} written to {}: {}{more}",
        counted(count, "document"),
        path.display(),
        types[..types.len().min(SHOWN)].join(", ")
    ));
    Ok(())
}

/// Returns a column for a note, without the parts of its type.
fn shown(name: &str, kind: &Kind) -> String {
    match kind {
        Kind::Struct(_) => format!("{name} struct"),
        Kind::List(_) => format!("{name} list"),
        other => format!("{name} {other}"),
    }
}

/// Refuses options that would do nothing, and names that promise another compression.
fn check(args: &ExportArgs) -> Result<(), Failure> {
    if args.project.is_some() {
        let text = "--project is for JSON; the columns of Parquet and Arrow are --fields";
        return Err(Failure::Usage(text.to_owned()));
    }
    if let Some(end) = args.output.as_deref().and_then(packing_of) {
        let text = format!("a Parquet or Arrow file is not compressed as a whole: drop .{end}");
        return Err(Failure::Usage(text));
    }
    Ok(())
}

fn column(path: &str) -> Result<Column, Failure> {
    if path == "$key" {
        return Ok(Column::key(path));
    }
    let name = path.strip_prefix("$.").unwrap_or(path);
    Column::path(name, path).map_err(|error| Failure::Usage(format!("--fields {path}: {error}")))
}

/// Returns the columns with their types.
fn columns(args: &ExportArgs, fields: Vec<Column>, find: &Find<'_>) -> Result<Columns, Failure> {
    let sample = args.sample.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
    if fields.is_empty() {
        let key = args.key.as_deref().map_or(KeyColumn::None, KeyColumn::Named);
        return Ok(Columns::of_fields(find, sample, key)?);
    }
    let key = args.key.as_deref().map(Column::key);
    Ok(Columns::new(key.into_iter().chain(fields))?.inferred(find, sample)?)
}

/// Where record batches go.
enum Sink<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    /// With a list of its batches at the end, so that readers can begin anywhere.
    File(Box<FileWriter<W>>),
    Stream(StreamWriter<W>),
}

impl<W: Write + Send> Sink<W> {
    fn of_file(form: ColumnarFormat, to: W, schema: SchemaRef) -> Result<Self, ParquetError> {
        Ok(match form {
            ColumnarFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(Default::default()))
                    .set_created_by(concat!("flagstone ", env!("CARGO_PKG_VERSION")).to_owned());
                let writer = ArrowWriter::try_new(to, schema, Some(properties.build()))?;
                Self::Parquet(Box::new(writer))
            }
            ColumnarFormat::Arrow => {
                Self::File(Box::new(FileWriter::try_new(to, &schema).map_err(wrapped)?))
            }
        })
    }

    fn of_pipe(form: ColumnarFormat, to: W, schema: SchemaRef) -> Result<Self, ParquetError> {
        match form {
            ColumnarFormat::Parquet => Self::of_file(form, to, schema),
            ColumnarFormat::Arrow => {
                Ok(Self::Stream(StreamWriter::try_new(to, &schema).map_err(wrapped)?))
            }
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        match self {
            Self::Parquet(writer) => {
                writer.write(batch)?;
                if writer.in_progress_size() >= GROUP_BYTES { writer.flush() } else { Ok(()) }
            }
            Self::File(writer) => writer.write(batch).map_err(wrapped),
            Self::Stream(writer) => writer.write(batch).map_err(wrapped),
        }
    }

    fn end(self) -> Result<(), ParquetError> {
        let mut to = match self {
            // `into_inner` turns an error of the output into text; `finish` keeps it.
            Self::Parquet(mut writer) => return writer.finish().map(drop),
            Self::File(writer) => writer.into_inner().map_err(wrapped)?,
            Self::Stream(writer) => writer.into_inner().map_err(wrapped)?,
        };
        Ok(to.flush()?)
    }
}

/// Writes all batches. Returns how many documents there are.
fn write<W: Write + Send>(stream: Stream, mut sink: Sink<W>, name: &Path) -> Result<u64, Failure> {
    let mut count = 0;
    for batch in stream {
        interrupt::check()?;
        let batch = batch?;
        count += batch.num_rows() as u64;
        sink.write(&batch).map_err(failed(name))?;
    }
    sink.end().map_err(failed(name))?;
    Ok(count)
}

fn wrapped(error: ArrowError) -> ParquetError {
    match error {
        ArrowError::IoError(_, error) => ParquetError::External(Box::new(error)),
        other => ParquetError::External(Box::new(other)),
    }
}

/// Returns what makes a failure of an error of writing `name`.
fn failed(name: &Path) -> impl Fn(ParquetError) -> Failure + '_ {
    move |error| match &error {
        ParquetError::External(inner) => match io_error(&**inner) {
            Some(error) if error.kind() == ErrorKind::BrokenPipe => Failure::OutputClosed,
            Some(error) => Failure::io("write", name, error),
            None => Failure::Io(format!("cannot write {}: {inner}", name.display())),
        },
        other => Failure::Io(format!("cannot write {}: {other}", name.display())),
    }
}

fn io_error<'a>(error: &'a (dyn Error + Send + Sync + 'static)) -> Option<&'a std::io::Error> {
    error.downcast_ref()
}
