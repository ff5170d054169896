//! Documents from files of Parquet and Arrow.

use super::super::{load as json, source as sources};
use super::ColumnarFormat;
use super::source::ColumnarFile;
use crate::args::{LoadArgs, ModeArg};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::progress::{Progress, rates};
use crate::units::{counted, grouped};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use flagstone::{Batch, Collection, Database, Error, ErrorKind, Filter, Value};
use flagstone_arrow::{LoadMode, LoadOptions, LoadWatcher, Loaded};
use flagstone_load::{BadDocuments, Count, Key, LoadError, Marks, Position, Watcher, remove_marks};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

/// Loads the files, one after another.
pub(in super::super) fn load(args: &LoadArgs) -> Result<(), Failure> {
    // Everything that can be refused is refused before the database is created.
    check(args)?;
    let options = options(args)?;
    let sources = args.files.iter().map(|path| ColumnarFile::open(path, args, &options));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    for source in &sources {
        flagstone_arrow::check(&source.schema(), &options).map_err(|error| source.at(&error))?;
    }
    let bad = match &args.bad_lines {
        Some(path) => BadDocuments::copy_to(path, &args.files)?,
        None => BadDocuments::stop(),
    };
    let database = &args.collection.database;
    let is_new = !sources::is_cluster(database) && !database.exists();
    interrupt::listen()?;
    let json::Target { database, mut collection, is_new: mut is_new_collection, place } =
        json::target(args)?;
    if args.drop && !is_new_collection {
        if !bad.are_copied()
            && let Err(refused) = check_first_rows(args, &options, &database, &collection)
        {
            drop(collection);
            place.close(database)?;
            return Err(refused);
        }
        collection = json::replaced(args, &place, &database, collection)?;
        is_new_collection = true;
    }
    let begin = || -> Result<Option<Marks>, LoadError> {
        let marks = marks(args, &sources, &database, &collection)?;
        if !marks.as_ref().is_some_and(Marks::are_complete) {
            bad.begin(marks.as_ref())?;
        }
        Ok(marks)
    };
    let marks = match begin() {
        Ok(marks) => marks,
        Err(refused) => {
            place.leave_nothing(&database, collection, is_new_collection)?;
            place.close(database)?;
            return Err(Failure::from(refused));
        }
    };
    let start = marks.as_ref().map_or(Position::default(), Marks::start);
    if marks.as_ref().is_some_and(Marks::are_complete) {
        drop((marks, collection));
        place.close(database)?;
        note(json::WAS_COMPLETE);
        return Ok(());
    }
    let mut run = Run {
        progress: json::progress(args),
        start: Instant::now(),
        count: Count::default(),
        database: &database,
        collection: &collection,
        bad,
        marks,
    };
    run.progress.start(sources.iter().map(|source| source.bytes).sum());
    let continues = run.marks.as_ref().is_some_and(Marks::continue_one);
    let later = sources.into_iter().enumerate().skip(start.input);
    let ended = later.map(|(input, source)| {
        let first_row = if input == start.input { start.offset } else { 0 };
        run.load(input, source, &LoadOptions { first_row, continues, ..options.clone() })
    });
    let ended = ended.collect::<Result<(), _>>().and_then(|()| {
        run.bad.flush()?;
        let complete = |marks: &Marks| marks.complete(&database, &collection);
        Ok(run.marks.as_ref().map_or(Ok(()), complete)?)
    });
    let (took, count) = (run.start.elapsed(), run.count);
    run.end(ended.is_err());
    run.progress.end(took, count);
    drop(run);
    place.leave_nothing(&database, collection, is_new_collection && ended.is_err())?;
    // The database is closed in any case, so that the next command has nothing to replay.
    let closed = place.close(database);
    if continues {
        let name = args.files.get(start.input).map(|path| path.display());
        let name = name.map_or_else(String::new, |name| format!(" of {name}"));
        note(&format!("continued at row {}{name}", grouped(start.offset)));
    }
    note(&format!(
        "{} loaded into {} of {}{} in {:.1} s, {}",
        counted(count.documents, "document"),
        args.collection.name,
        sources::shown(&args.collection.database),
        if is_new { " (new)" } else { "" },
        took.as_secs_f64(),
        rates(took, count)
    ));
    match count.existing {
        0 => {}
        1 => note("1 document not loaded: its key exists"),
        more => note(&format!("{} documents not loaded: their keys exist", grouped(more))),
    }
    if let Some(path) = &args.bad_lines {
        let copied = counted(count.bad + count.existing, "row");
        note(&format!("{copied} copied to {}", path.display()));
    }
    ended.and(closed)
}

/// Refuses files whose first rows would end the load. Nothing is written.
fn check_first_rows(
    args: &LoadArgs,
    options: &LoadOptions,
    database: &Database,
    collection: &Collection,
) -> Result<(), Failure> {
    // Merges would be committed one by one.
    let options = LoadOptions { mode: LoadMode::Upsert, ..options.clone() };
    for path in args.files.iter().filter(|path| path.as_os_str() != "-") {
        let mut source = ColumnarFile::open(path, args, &options)?;
        let row = |batch: RecordBatch| batch.slice(0, batch.num_rows().min(1));
        let first = source.next().map(|batch| batch.map(row));
        let mut first = RecordBatchIterator::new(first, source.schema());
        let is_taken = Cell::new(false);
        let tried =
            flagstone_arrow::load(database, collection, &mut first, &options, Trial(&is_taken));
        if let Err(error) = tried
            && !is_taken.get()
        {
            return Err(Failure::Engine(error.context(path.display().to_string())));
        }
    }
    Ok(())
}

/// Ends a load before its first commit, and notes that it came there.
struct Trial<'a>(&'a Cell<bool>);

impl LoadWatcher for Trial<'_> {
    fn watch(&mut self, _: Loaded) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn mark(&mut self, _: &mut Batch, _: u64) -> flagstone::Result<()> {
        self.0.set(true);
        Err(Error::new(ErrorKind::Interrupted, "nothing is to be committed"))
    }
}

/// Opens the marks of the load that is continued, or removes those of an earlier one.
fn marks(
    args: &LoadArgs,
    sources: &[ColumnarFile],
    database: &Database,
    collection: &Collection,
) -> Result<Option<Marks>, LoadError> {
    if !args.resume {
        remove_marks(database, collection, args.shard)?;
        return Ok(None);
    }
    let mut settings = vec![
        ("--key", args.key.clone()),
        ("--mode", format!("{:?}", args.mode).to_lowercase()),
        ("--fields", args.fields.join(",")),
        ("--filter", args.filter.clone().unwrap_or_default()),
        ("--ignore-blanks", args.ignore_blanks.to_string()),
        ("--naive-utc", args.naive_utc.to_string()),
    ];
    // Rows have no place in the file, so the whole file must be the same.
    for (path, source) in args.files.iter().zip(sources) {
        let identity = source.identity.as_deref().unwrap_or_default();
        settings.push(("the file", format!("{path:?} by rows, {identity}")));
    }
    settings.extend(args.shard.map(|shard| ("--shard", shard.to_string())));
    Marks::open(database, collection, args.shard, &settings, 1).map(Some)
}

/// Refuses options that would do nothing.
fn check(args: &LoadArgs) -> Result<(), Failure> {
    let options = [
        ("--all-text", args.all_text),
        ("--delimiter", args.delimiter.is_some()),
        ("--types", !args.types.is_empty()),
        ("--long", args.long.is_some()),
        ("--key auto", Key::parse(&args.key) == Key::Auto),
        ("a --key of several paths", matches!(Key::parse(&args.key), Key::Paths(_))),
        ("--expires", args.expires.is_some()),
        ("--stop-on-error", args.stop_on_error || args.mongoimport.stop_on_error),
        ("--parsers", args.parsers.is_some()),
    ];
    if let Some((option, _)) = options.iter().find(|(_, is_set)| *is_set) {
        let text = format!("{option} is not for Parquet and Arrow: --type json, csv or tsv");
        return Err(Failure::Usage(text));
    }
    let form = |path: &PathBuf| ColumnarFormat::of(args.format, Some(path));
    if args.resume && args.files.iter().any(|path| path.as_os_str() == "-") {
        let text = "--resume is not for stdin of Arrow: whether the stream is the same is unknown";
        return Err(Failure::Usage(text.to_owned()));
    }
    if args.files.iter().any(|path| form(path).is_none()) {
        let text = "files of Parquet and Arrow are loaded by a command of their own";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(())
}

fn options(args: &LoadArgs) -> Result<LoadOptions, Failure> {
    let filter = args.filter.as_deref().map(Filter::parse).transpose();
    let key = match Key::parse(&args.key) {
        Key::Path(path) => path,
        _ => args.key.clone(),
    };
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
        shard: args.shard,
        fields: (!args.fields.is_empty()).then_some(fields),
        ..LoadOptions::new(key)
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
    bad: BadDocuments,
    /// How far the load came, if it can be continued.
    marks: Option<Marks>,
}

impl Run<'_> {
    /// Puts the marks of an earlier load back if this one has come to nothing.
    fn end(&self, has_failed: bool) {
        if let Some(marks) = &self.marks
            && has_failed
            && self.count.has_nothing()
            && !self.bad.are_copied()
        {
            marks.end_without_any(self.database);
        }
    }

    /// Loads the file number `input`.
    fn load(
        &mut self,
        input: usize,
        mut source: ColumnarFile,
        options: &LoadOptions,
    ) -> Result<(), Failure> {
        let bytes = source.bytes.unwrap_or(0);
        let before = self.count;
        let (name, rows) = (source.name.display().to_string(), source.rows);
        let (database, collection) = (self.database, self.collection);
        let file = File { run: self, before, input, name: &name, rows, bytes };
        flagstone_arrow::load(database, collection, &mut source, options, file)
            .map_err(|error| Failure::Engine(error.context(&name)))?;
        self.count.input_bytes = before.input_bytes + bytes;
        if interrupt::is_asked() {
            let text = "stopped before the end; the database is closed";
            Err(Failure::Interrupted(text.to_owned()))
        } else {
            Ok(())
        }
    }
}

/// A file that is being loaded.
struct File<'a, 'b> {
    run: &'a mut Run<'b>,
    /// What was done before it.
    before: Count,
    input: usize,
    name: &'a str,
    rows: Option<u64>,
    bytes: u64,
}

impl File<'_, '_> {
    /// Copies a row to the file of those that are not loaded.
    fn copy(&self, why: &str, document: Option<&Value>) -> flagstone::Result<()> {
        let mut copy = format!("# {}: {why}\n", self.name).into_bytes();
        if let Some(document) = document {
            flagstone::doc::json::append_value_json(document, &mut copy);
            copy.push(b'\n');
        }
        let written = self.run.bad.write(&copy);
        written.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))
    }
}

impl LoadWatcher for File<'_, '_> {
    fn watch(&mut self, so_far: Loaded) -> ControlFlow<()> {
        let count = &mut self.run.count;
        count.documents = self.before.documents + so_far.documents;
        count.existing = self.before.existing + so_far.existing;
        count.bad = self.before.bad + so_far.bad;
        if let Some(rows) = self.rows {
            let part = so_far.rows as f64 / rows.max(1) as f64;
            count.input_bytes = self.before.input_bytes + (self.bytes as f64 * part) as u64;
        }
        self.run.progress.tick(self.run.start.elapsed(), self.run.count);
        if interrupt::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn refuse(&mut self, error: Error, document: Option<&Value>) -> flagstone::Result<()> {
        if self.run.bad.are_copied() { self.copy(&error.to_string(), document) } else { Err(error) }
    }

    fn leave(&mut self, row: u64, document: &Value) -> flagstone::Result<()> {
        if self.run.bad.are_copied() {
            self.copy(&format!("row {row}: a document with this key exists"), Some(document))
        } else {
            Ok(())
        }
    }

    fn is_told_in_order(&self) -> bool {
        self.run.marks.is_some() && self.run.bad.are_copied()
    }

    fn mark(&mut self, batch: &mut Batch, row: u64) -> flagstone::Result<()> {
        let Some(marks) = &self.run.marks else { return Ok(()) };
        marks.put(batch, Position { input: self.input, offset: row })?;
        let marked = self.run.bad.mark(batch, marks);
        marked.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))
    }
}
