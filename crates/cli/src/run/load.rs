//! `load`: documents from files into a collection.

use super::{columnar, expiry, open, source};
use crate::args::{FormatArg, LoadArgs, ModeArg, ProgressForm};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::progress::{Progress, rates};
use crate::units::{counted, grouped, show_bytes};
use flagstone::doc::JsonOptions;
use flagstone::internal::drop_unwritten;
use flagstone::{Collection, Database, Durability, ErrorKind, KeyspaceOptions, Options, Routing};
use flagstone_load::{
    BadDocuments, Format, Input, Key, LoadError, Mode, Outcome, Plan, TableFormat,
};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) fn run(args: &LoadArgs) -> Result<(), Failure> {
    // Everything that can be refused is refused before the database is created.
    open::check_files(&args.files)?;
    args.files
        .iter()
        .try_for_each(|path| columnar::ColumnarFormat::check_name(args.format, path))?;
    let is_columnar =
        |path: &PathBuf| columnar::ColumnarFormat::of(args.format, Some(path)).is_some();
    if args.files.iter().any(is_columnar) {
        check_columnar(args)?;
        return columnar::load(args);
    }
    expiry::check(args.expires)?;
    check_table_options(args)?;
    let inputs = opened(args)?;
    if args.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::Usage("stdin can be loaded only once".into()));
    }
    let bad = match &args.bad_lines {
        Some(path) => BadDocuments::copy_to(path, &args.files)?,
        None => BadDocuments::stop(),
    };
    #[cfg(all(feature = "server", unix))]
    if source::is_url(&args.collection.database) {
        if args.shard.is_some() {
            let text = "--shard is for a directory or a cluster: a server loads all documents";
            return Err(Failure::Usage(text.to_owned()));
        }
        let outcome = source::send(args, inputs, bad, &mut progress(args))?;
        let is_new = false;
        report(args, is_new, &outcome);
        return match outcome {
            Outcome { failure: Some(failure), .. } => Err(failure.into()),
            Outcome { is_interrupted: true, .. } => {
                Err(Failure::Interrupted("stopped before the end".into()))
            }
            _ => Ok(()),
        };
    }
    let is_cluster = source::is_cluster(&args.collection.database);
    if is_cluster {
        if args.drop {
            source::refuse_drop(&args.collection.database, &args.collection.name)?;
        }
        check_for_cluster(args)?;
    } else {
        source::refuse_url("load", &args.collection.database, "this build knows no servers")?;
    }
    let is_new = !is_cluster && !args.collection.database.exists();
    interrupt::listen()?;
    let Target { database, collection, is_new: mut is_new_collection, place } = target(args)?;
    let mut plan = plan(args, &database, collection, inputs, bad);
    if args.drop && !is_new_collection {
        if let Err(refused) = plan.check() {
            drop(plan);
            place.close(database)?;
            return Err(refused.into());
        }
        plan.collection = replaced(args, &place, &database, plan.collection)?;
        is_new_collection = true;
    }
    let collection = plan.collection.clone();
    let outcome = plan.run(&mut progress(args));
    let has_failed = outcome
        .as_ref()
        .map_or(true, |outcome| outcome.failure.is_some() || outcome.is_interrupted);
    place.leave_nothing(&database, collection, is_new_collection && has_failed)?;
    // The database is closed in any case, so that the next command has nothing to replay.
    let closing = Instant::now();
    let closed = place.close(database);
    let closing = closing.elapsed();
    let outcome = outcome?;
    report(args, is_new, &outcome);
    if !open::is_shell() && !is_cluster {
        note(&format!("closed in {:.1} s", closing.as_secs_f64()));
    }
    match outcome {
        Outcome { failure: Some(failure), .. } => {
            let failure = Failure::from(failure);
            if let Failure::Engine(error) = &failure
                && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown)
            {
                note(if args.resume {
                    "when the nodes answer again, the same command loads the rest"
                } else {
                    "load again when the nodes answer: one with --resume can then go on"
                });
            }
            Err(failure)
        }
        Outcome { is_interrupted: true, .. } => {
            closed?;
            Err(Failure::Interrupted("stopped before the end; the database is closed".into()))
        }
        _ => Ok(closed?),
    }
}

/// Refuses a load of Parquet and Arrow into what takes none.
fn check_columnar(args: &LoadArgs) -> Result<(), Failure> {
    if source::is_cluster(&args.collection.database) {
        check_for_cluster(args)?;
    } else {
        let (what, instead) =
            ("a load of Parquet and Arrow", "load JSON or CSV, or stop the server");
        source::refuse_url(what, &args.collection.database, instead)?;
    }
    let has_json = false;
    check_mode(args, has_json)
}

/// Returns what the arguments ask for.
fn plan(
    args: &LoadArgs,
    database: &Database,
    collection: Collection,
    inputs: Vec<Input>,
    bad: BadDocuments,
) -> Plan {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Plan {
        database: database.clone(),
        collection,
        inputs,
        key: Key::parse(&args.key),
        mode: match args.mode {
            ModeArg::Upsert => Mode::Upsert,
            ModeArg::Insert => Mode::Insert,
            ModeArg::Merge => Mode::Merge,
        },
        shard: args.shard,
        expires: expiry::moment(database, args.expires),
        readers: args.readers,
        parsers: args.parsers.unwrap_or(cores.min(64) as u16),
        writers: args.writers,
        durability: args.durability,
        memory_budget: args.memory.unwrap_or(Options::default().memory_budget),
        bad,
        stops_on_error: args.stop_on_error || args.mongoimport.stop_on_error,
        resumes: args.resume,
        json: JsonOptions::new().mode(args.json_mode.mode()),
        on_commit: None,
    }
}

/// Opens the files.
fn opened(args: &LoadArgs) -> Result<Vec<Input>, LoadError> {
    let open = |path: &PathBuf| {
        let input = Input::open_as(path, format_of(args, path))?;
        Ok(match args.long {
            Some(log) => input.window_log(log),
            None => input,
        })
    };
    args.files.iter().map(open).collect()
}

/// Where the documents go to.
pub(super) struct Target {
    pub(super) database: Database,
    pub(super) collection: Collection,
    /// Whether this load has created the collection.
    pub(super) is_new: bool,
    pub(super) place: Place,
}

/// What holds the collection that a load writes to.
pub(super) enum Place {
    Directory,
    #[cfg(feature = "cluster")]
    Cluster(source::Clustered),
}

impl Place {
    /// Closes what was opened.
    pub(super) fn close(self, database: Database) -> Result<(), Failure> {
        match self {
            Self::Directory => open::close(database),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                drop(database);
                source::Source::close(Box::new(cluster))
            }
        }
    }

    /// Drops the collection that a load has created if the load `has_failed`, or was stopped, and
    /// nothing was written to it.
    pub(super) fn leave_nothing(
        &self,
        database: &Database,
        collection: Collection,
        has_failed: bool,
    ) -> Result<(), Failure> {
        match self {
            _ if !has_failed => {}
            Self::Directory => _ = drop_unwritten(database, &collection)?,
            // Others may write to it meanwhile, and a cluster has no drop under a condition.
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => {}
        }
        Ok(())
    }
}

/// About how many bytes of documents the files have.
#[cfg(feature = "cluster")]
fn bytes_of(args: &LoadArgs) -> u64 {
    /// JSON takes so much more than its compressed form.
    const COMPRESSED: u64 = 6;
    let bytes = |path: &PathBuf| {
        let is_packed = path.extension().is_some_and(|end| end == "gz" || end == "zst");
        let len = std::fs::metadata(path).map_or(0, |about| about.len());
        if is_packed { len.saturating_mul(COMPRESSED) } else { len }
    };
    args.files.iter().map(bytes).sum()
}

/// Refuses what a load into a cluster cannot do.
fn check_for_cluster(args: &LoadArgs) -> Result<(), Failure> {
    let (refused, instead) = match args {
        LoadArgs { partitions: Some(_), .. } => ("--partitions", "buckets"),
        LoadArgs { memory: Some(_), .. } => ("--memory", "the memory of its nodes"),
        LoadArgs { durability, .. } if *durability != Durability::Buffered => {
            ("--durability", "commitlog_sync of its nodes")
        }
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!("{refused} is for a directory: a cluster has {instead}")))
}

/// Opens the database and the collection that the documents go to. With --drop it is the old one,
/// if there is one: see [`replaced`].
pub(super) fn target(args: &LoadArgs) -> Result<Target, Failure> {
    #[cfg(feature = "cluster")]
    if source::is_cluster(&args.collection.database) {
        let cluster = source::Clustered::connect(&args.collection.database)?;
        cluster.warn()?;
        let (collection, is_new, database) =
            cluster.target(&args.collection.name, bytes_of(args))?;
        return Ok(Target { database, collection, is_new, place: Place::Cluster(cluster) });
    }
    #[cfg(not(feature = "cluster"))]
    source::refuse_cluster(&args.collection.database)?;
    let database = open::or_make(&args.collection.database, args.memory, args.durability)?;
    let name = &args.collection.name;
    let existing =
        if name.is_empty() { None } else { database.space(name).existing().collection()? };
    let is_new = existing.is_none();
    if is_new {
        open::check_new(name)?;
    }
    let collection = match existing {
        // Its options may be others than those of the one that replaces it.
        Some(old) if args.drop => old,
        _ => collection(&database, args)?,
    };
    Ok(Target { database, collection, is_new, place: Place::Directory })
}

/// Drops the collection with its indexes, and names them: a load fills no index again. Returns a
/// new one of its name. Call it only when nothing more can be refused.
pub(super) fn replaced(
    args: &LoadArgs,
    place: &Place,
    database: &Database,
    collection: Collection,
) -> Result<Collection, Failure> {
    let name = &args.collection.name;
    let indexes: Vec<String> = collection.indexes().into_iter().map(|index| index.name).collect();
    drop(collection);
    match place {
        Place::Directory => _ = database.drop_keyspace(name)?,
        #[cfg(feature = "cluster")]
        Place::Cluster(cluster) => source::Source::drop_collection(cluster, name)?,
    }
    if !indexes.is_empty() {
        note(&format!("dropped {name} and its indexes: {}", indexes.join(", ")));
    }
    match place {
        Place::Directory => self::collection(database, args),
        #[cfg(feature = "cluster")]
        Place::Cluster(cluster) => Ok(cluster.target(name, bytes_of(args))?.0),
    }
}

/// Refuses `--extended-json` if there is no file of JSON.
fn check_mode(args: &LoadArgs, has_json: bool) -> Result<(), Failure> {
    if args.json_mode.extended_json && !has_json {
        Err(Failure::Usage("--extended-json is for JSON".to_owned()))
    } else {
        Ok(())
    }
}

/// Refuses options that would do nothing.
fn check_table_options(args: &LoadArgs) -> Result<(), Failure> {
    let is_table = |path: &PathBuf| matches!(format_of(args, path), Format::Table(_));
    check_mode(args, !args.files.iter().all(is_table))?;
    let options = [
        ("--fields", !args.fields.is_empty()),
        ("--delimiter", args.delimiter.is_some()),
        ("--types", !args.types.is_empty()),
        ("--all-text", args.all_text),
        ("--ignore-blanks", args.ignore_blanks),
    ];
    if let Some((option, _)) = options.iter().find(|(_, is_set)| *is_set)
        && !args.files.iter().any(is_table)
    {
        return Err(Failure::Usage(format!("{option} is for tables: --type csv or tsv")));
    }
    if args.filter.is_some() {
        let text = "--filter is for Parquet and Arrow";
        return Err(Failure::Usage(text.to_owned()));
    }
    if args.naive_utc {
        let text = "--naive-utc is for timestamps of Parquet and Arrow";
        return Err(Failure::Usage(text.to_owned()));
    }
    if args.stop_on_error && args.mode != ModeArg::Insert {
        return Err(Failure::Usage("--stop-on-error is for --mode insert".to_owned()));
    }
    if args.expires.is_some() && args.mode == ModeArg::Merge {
        let text = "--expires is for new documents: --mode merge keeps the expiry of the old ones";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(())
}

/// Returns the format of a file: that of `--type`, or of its name.
fn format_of(args: &LoadArgs, path: &Path) -> Format {
    let format = args.format.unwrap_or_else(|| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
        match name.rsplit_once('.') {
            Some((_, "csv")) => FormatArg::Csv,
            Some((_, "tsv")) => FormatArg::Tsv,
            _ => FormatArg::Json,
        }
    });
    let mut table = match format {
        // Files of columns are loaded elsewhere.
        FormatArg::Json | FormatArg::Parquet | FormatArg::Arrow => return Format::Json,
        FormatArg::Csv => TableFormat::csv(),
        FormatArg::Tsv => TableFormat::tsv(),
    };
    table.fields = (!args.fields.is_empty()).then(|| args.fields.clone());
    table.delimiter = args.delimiter.unwrap_or(table.delimiter);
    table.types = args.types.clone();
    table.is_text = args.all_text;
    table.ignores_blanks = args.ignore_blanks;
    Format::Table(table)
}

fn collection(database: &Database, args: &LoadArgs) -> Result<Collection, Failure> {
    let name = &args.collection.name;
    Ok(match args.partitions {
        Some(partitions) => {
            let routing = Routing::Hash(partitions);
            let options = KeyspaceOptions::new().routing(routing);
            database.space(name).options(options).collection()?
        }
        None => database.collection(name)?,
    })
}

pub(super) fn progress(args: &LoadArgs) -> Progress {
    progress_of(args.progress)
}

/// That of `--progress`.
pub(super) fn progress_of(form: Option<ProgressForm>) -> Progress {
    match form {
        Some(ProgressForm::Json) => Progress::json(),
        Some(ProgressForm::Bar) => Progress::Bar(None),
        Some(ProgressForm::None) => Progress::None,
        None => Progress::on_terminal(),
    }
}

/// What is said if nothing is loaded.
pub(super) const WAS_COMPLETE: &str =
    "the same text was loaded before, to its end: without --resume it is loaded again";

fn report(args: &LoadArgs, is_new: bool, outcome: &Outcome) {
    let Outcome { count, took, .. } = outcome;
    if outcome.was_complete {
        return note(WAS_COMPLETE);
    }
    if let Some((name, offset)) = &outcome.resumed_at {
        note(&format!("continued at byte {} of {name}", grouped(*offset)));
    }
    note(&format!(
        "{} loaded into {} of {}{}: {} of JSON in {:.1} s, {}",
        counted(count.documents, "document"),
        args.collection.name,
        source::shown(&args.collection.database),
        if is_new { " (new)" } else { "" },
        show_bytes(count.json_bytes),
        took.as_secs_f64(),
        rates(*took, *count)
    ));
    match count.existing {
        0 => {}
        1 => note("1 document not loaded: its key exists"),
        more => note(&format!("{} documents not loaded: their keys exist", grouped(more))),
    }
    if let Some(path) = &args.bad_lines {
        let copied = counted(count.bad + count.existing, "document");
        note(&format!("{copied} copied to {}", path.display()));
    }
}
