//! Documents from files of Parquet and Arrow.

use super::super::{load as json, open};
use super::Form;
use crate::args::{LoadArgs, ModeArg};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::progress::{Progress, rates};
use crate::units::{counted, grouped};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use flagstone::{Collection, Database, Filter};
use flagstone_arrow::{LoadMode, LoadOptions, Loaded};
use flagstone_load::{Count, Watcher};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Loads the files, one after another.
pub(in super::super) fn load(args: &LoadArgs) -> Result<(), Failure> {
    // Everything that can be refused is refused before the database is created.
    check(args)?;
    let options = options(args)?;
    let sources = args.files.iter().map(|path| Source::open(path, args, &options));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    for source in &sources {
        flagstone_arrow::check(&source.schema(), &options).map_err(|error| source.at(&error))?;
    }
    let is_new = !args.collection.database.exists();
    let (database, collection) = json::target(args)?;
    interrupt::listen()?;
    let mut run = Run {
        progress: json::progress(args),
        start: Instant::now(),
        count: Count::default(),
        database: &database,
        collection: &collection,
        options: &options,
    };
    run.progress.start(sources.iter().map(|source| source.bytes).sum());
    let ended = sources.into_iter().try_for_each(|source| run.load(source));
    let (took, count) = (run.start.elapsed(), run.count);
    run.progress.end(took, count);
    drop(collection);
    // The database is closed in any case, so that the next command has nothing to replay.
    let closed = open::close(database);
    note(&format!(
        "{} loaded into {} of {}{} in {:.1} s, {}",
        counted(count.documents, "document"),
        args.collection.name,
        args.collection.database.display(),
        if is_new { " (new)" } else { "" },
        took.as_secs_f64(),
        rates(took, count)
    ));
    match count.existing {
        0 => {}
        1 => note("1 document not loaded: its key exists"),
        more => note(&format!("{} documents not loaded: their keys exist", grouped(more))),
    }
    ended.and(closed)
}

/// Refuses options that would do nothing.
fn check(args: &LoadArgs) -> Result<(), Failure> {
    let options = [
        ("--all-text", args.all_text),
        ("--bad-lines", args.bad_lines.is_some()),
        ("--resume", args.resume),
        ("--expires", args.expires.is_some()),
        ("--stop-on-error", args.stop_on_error || args.mongoimport.stop_on_error),
        ("--parsers", args.parsers.is_some()),
    ];
    if let Some((option, _)) = options.iter().find(|(_, is_set)| *is_set) {
        let text = format!("{option} is not for Parquet and Arrow: --type json, csv or tsv");
        return Err(Failure::Usage(text));
    }
    let form = |path: &PathBuf| Form::of(args.format, Some(path));
    if args.files.iter().any(|path| form(path).is_none()) {
        let text = "files of Parquet and Arrow are loaded by a command of their own";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(())
}

fn options(args: &LoadArgs) -> Result<LoadOptions, Failure> {
    let filter = args.filter.as_deref().map(Filter::parse).transpose();
    let fields = args.fields.iter().map(|field| field.trim().to_owned()).collect();
    Ok(LoadOptions {
        mode: match args.mode {
            ModeArg::Upsert => LoadMode::Upsert,
            ModeArg::Insert => LoadMode::Insert,
            ModeArg::Merge => LoadMode::Merge,
        },
        drops_nulls: args.ignore_blanks,
        naive_is_utc: args.naive_utc,
        filter: filter.map_err(|error| Failure::Usage(format!("--filter: {error}")))?,
        fields: (!args.fields.is_empty()).then_some(fields),
        ..LoadOptions::new(args.key.strip_prefix("$.").unwrap_or(&args.key))
    })
}

/// A load that runs.
struct Run<'a> {
    progress: Progress,
    start: Instant,
    /// What was done so far.
    count: Count,
    database: &'a Database,
    collection: &'a Collection,
    options: &'a LoadOptions,
}

impl Run<'_> {
    fn load(&mut self, mut source: Source) -> Result<(), Failure> {
        let before = self.count;
        let (bytes, rows) = (source.bytes.unwrap_or(0), source.rows);
        let (name, schema) = (source.name.clone(), source.schema());
        let mut reader = Named { inner: &mut source, schema };
        let watch = |so_far: Loaded| {
            self.count.documents = before.documents + so_far.documents;
            self.count.existing = before.existing + so_far.existing;
            if let Some(rows) = rows {
                let part = so_far.rows as f64 / rows.max(1) as f64;
                self.count.input_bytes = before.input_bytes + (bytes as f64 * part) as u64;
            }
            self.progress.tick(self.start.elapsed(), self.count);
            if interrupt::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let loaded =
            flagstone_arrow::load(self.database, self.collection, &mut reader, self.options, watch);
        loaded.map_err(|error| Failure::Engine(error.context(name.display().to_string())))?;
        self.count.input_bytes = before.input_bytes + bytes;
        match interrupt::is_asked() {
            true => {
                let text = "stopped before the end; the database is closed";
                Err(Failure::Interrupted(text.to_owned()))
            }
            false => Ok(()),
        }
    }
}

/// A file that is open.
struct Source {
    name: PathBuf,
    reader: Box<dyn RecordBatchReader>,
    /// The number of its rows, if it says so.
    rows: Option<u64>,
    bytes: Option<u64>,
}

impl Source {
    /// Opens a file for the columns that a load with these options reads.
    fn open(path: &Path, args: &LoadArgs, options: &LoadOptions) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::Io(format!("{}: {why}", path.display()));
        let refused =
            |error: flagstone::Error| Failure::Usage(format!("{}: {error}", path.display()));
        let form = Form::of(args.format, Some(path)).unwrap_or(Form::Parquet);
        if path == Path::new("-") {
            if form == Form::Parquet || args.files.len() > 1 {
                let text = "stdin can be one stream of Arrow; a Parquet file is read from its end";
                return Err(Failure::Usage(text.to_owned()));
            }
            // It tells its columns once: all of them are read.
            let reader = guarded(|| StreamReader::try_new(std::io::stdin(), None));
            let reader = Box::new(reader.map_err(wrong)?);
            return Ok(Self { name: "stdin".into(), reader, rows: None, bytes: None });
        }
        let mut file = File::open(path).map_err(|error| Failure::io("open", path, &error))?;
        let mut magic = [0; 6];
        let found = first(&mut file, &mut magic)
            .map_err(|error| Failure::io("read", path, &error))?
            .escape_ascii()
            .to_string();
        let bytes = file.metadata().ok().map(|metadata| metadata.len());
        let name = path.to_owned();
        match form {
            Form::Parquet if !magic.starts_with(b"PAR1") => Err(wrong(format!(
                "expected a Parquet file, which begins with PAR1, found \"{found}\""
            ))),
            Form::Parquet => {
                let opened = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file));
                let builder = opened.map_err(wrong)?;
                let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).ok();
                let columns = options.columns(builder.schema()).map_err(refused)?;
                let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
                let builder = builder.with_projection(mask);
                let reader = Box::new(guarded(|| builder.build()).map_err(wrong)?);
                Ok(Self { name, reader, rows, bytes })
            }
            Form::Arrow if magic == *b"ARROW1" => {
                let reader = guarded(|| FileReader::try_new(BufReader::new(&file), None));
                let schema = reader.map_err(wrong)?.schema();
                let columns = options.columns(&schema).map_err(refused)?;
                file.rewind().map_err(|error| Failure::io("read", path, &error))?;
                let reader = guarded(|| FileReader::try_new(BufReader::new(file), Some(columns)));
                Ok(Self { name, reader: Box::new(reader.map_err(wrong)?), rows: None, bytes })
            }
            // The mark of a message, in streams of version 0.15 or newer.
            Form::Arrow if magic.starts_with(&[0xff; 4]) => {
                let reader = guarded(|| StreamReader::try_new(BufReader::new(file), None));
                Ok(Self { name, reader: Box::new(reader.map_err(wrong)?), rows: None, bytes })
            }
            Form::Arrow => Err(wrong(format!(
                "expected an Arrow file, which begins with ARROW1, or an Arrow stream, found \
                 \"{found}\""
            ))),
        }
    }

    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    fn at(&self, error: &flagstone::Error) -> Failure {
        Failure::Usage(format!("{}: {error}", self.name.display()))
    }
}

/// Reads the first bytes of a file, as many as there are, and goes back to its begin.
fn first<'a>(file: &mut File, bytes: &'a mut [u8]) -> std::io::Result<&'a [u8]> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read(&mut bytes[length..])? {
            0 => break,
            more => length += more,
        }
    }
    // A pipe cannot be read again, and a Parquet file not without going to its end.
    file.seek(SeekFrom::Start(0))?;
    Ok(&bytes[..length])
}

/// The batches of a source.
struct Named<'a> {
    inner: &'a mut Source,
    schema: SchemaRef,
}

impl Iterator for Named<'_> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = guarded(|| self.inner.reader.next().transpose());
        next.map_err(|why| ArrowError::ExternalError(why.into())).transpose()
    }
}

impl RecordBatchReader for Named<'_> {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// Reads by the libraries of these formats. A file that makes one panic is damaged as others are.
fn guarded<T, E: std::fmt::Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_panic) => Err("the file is damaged: its reader panicked".to_owned()),
    }
}
