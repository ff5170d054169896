//! Loading documents: JSON to stored, to the end of flushing.

use crate::engine::{EventLog, Outcome, gauges_of};
use crate::options::{
    Pace, as_seconds, defaults, describe, partitions, records, seconds, size, spelled, within,
};
use crate::record::{Described, OpKind, Summary};
use crate::run::{Meter, Plan, Probe, Recorder, Tally, Watch, Worker};
use crate::sample::DirectoryBytes;
use crate::workload::StoreDir;
use clap::Args;
use flagstone::{
    Collection, Database, Durability, Event, KeyspaceOptions, Listener, Options, Routing,
    parse_bytes,
};
use flagstone_comments::Comments;
use flagstone_load::{Count, Input, OnCommit, Watcher};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The version of the engine, as headers have it.
pub(super) const VERSION: &str = concat!("flagstone ", env!("CARGO_PKG_VERSION"));

/// Documents from JSON to stored, to the end of flushing; then, apart, compacted
///
/// Without files, comments are generated while they are loaded, which takes time of the same cores.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LoadOptions {
    /// Files of JSON lines or a JSON array, plain or compressed by zstd or gzip
    #[arg(value_name = "FILE")]
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// Without files: the number of comments
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = records())]
    #[serde(skip)]
    pub comments: u64,
    /// Without files: which comments
    #[arg(long, value_name = "S", default_value_t = 1)]
    #[serde(skip)]
    pub seed: u64,
    /// The dotted path of the primary key in each document
    #[arg(long, value_name = "PATH", default_value = "id")]
    pub key: String,
    #[arg(skip = String::from("comments"))]
    pub collection: String,
    /// Leave the store as it was flushed
    #[arg(long = "no-compact", action = clap::ArgAction::SetFalse)]
    #[serde(skip)]
    pub compact: bool,
    /// Seconds of a row
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    #[serde(serialize_with = "as_seconds")]
    pub interval: Duration,
    #[command(flatten)]
    #[serde(flatten)]
    pub threads: LoadThreads,
}

/// How documents are loaded.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "Loading")]
#[serde(rename_all = "kebab-case")]
pub struct LoadThreads {
    /// Hash partitions
    #[arg(long, value_name = "N", default_value = "4", value_parser = partitions())]
    pub partitions: u16,
    /// Threads that read
    #[arg(long, value_name = "N", default_value = "1", value_parser = within::<u16>(1, 64))]
    pub readers: u16,
    /// Threads that parse; as many as the processor has cores, unless told
    #[arg(long, value_name = "N", default_value_t = cores(), value_parser = within::<u16>(1, 64))]
    pub parsers: u16,
    /// Threads that commit
    #[arg(long, value_name = "N", default_value = "2", value_parser = within::<u16>(1, 64))]
    pub writers: u16,
    /// What an acknowledged document survives: none, buffered, interval:100ms, group or each
    #[arg(long, value_name = "WHAT", default_value = "buffered")]
    #[serde(serialize_with = "spelled")]
    pub durability: Durability,
    /// The memory budget
    #[arg(long = "memory", value_name = "BYTES", default_value = "512MiB", value_parser = parse_bytes)]
    #[serde(rename = "memory")]
    pub memory_bytes: u64,
    /// Bytes of a block of a table before compression [default: the engine's]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub block_bytes: Option<usize>,
}

fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(64) as u16)
}

impl Default for LoadThreads {
    fn default() -> Self {
        defaults()
    }
}

impl LoadOptions {
    /// The default load of this many generated comments.
    pub fn of_comments(comments: u64) -> Self {
        Self { comments, ..defaults() }
    }

    /// All options by their long names.
    pub fn describe(&self) -> Described {
        let input = if self.files.is_empty() {
            format!("{} comments of seed {}", self.comments, self.seed)
        } else {
            let files = self.files.iter().map(|file| file.display().to_string());
            files.collect::<Vec<_>>().join(" ")
        };
        let LoadThreads { readers, parsers, writers, .. } = self.threads;
        let mut options = describe(self);
        options.insert("input".into(), input.into());
        options.insert("threads".into(), (readers + parsers + writers).into());
        options
    }

    fn inputs(&self) -> Outcome<Vec<Input>> {
        if self.files.is_empty() {
            let comments = Comments::new(self.seed);
            let make = move |numbers, out: &mut Vec<u8>| comments.write_lines(numbers, out);
            return Ok(vec![Input::made("comments", 0..self.comments, Box::new(make))]);
        }
        self.files.iter().map(|file| Ok(Input::open(file)?)).collect()
    }

    /// Opens the database in `dir` and its collection, with `events` as its listener.
    fn open(&self, dir: &Path, events: &Arc<EventLog>) -> Outcome<(Database, Collection)> {
        let LoadThreads { memory_bytes, durability, partitions, block_bytes, .. } = self.threads;
        let options = Options::new().memory_budget(memory_bytes).durability(durability);
        let heard = Arc::clone(events);
        let builder = Database::builder(dir).options(options);
        let database = builder.listener(move |event: &Event| heard.event(event)).open()?;
        let mut wanted = KeyspaceOptions::new().routing(Routing::Hash(partitions));
        wanted.block_bytes = block_bytes;
        let collection = database.collection_with(&self.collection, wanted)?;
        Ok((database, collection))
    }
}

/// Loads documents into a new store in `dir`, workload `load`; an operation is a document, and the
/// time ends when all are flushed to tables. The store is in `data` below `dir`, and is removed
/// unless it is to be kept. Figures: `load_s` (to the last acknowledgement), `flush_s`,
/// `json_bytes`, `stored_per_json_loaded` (tables / JSON, when flushed), and when the store is
/// compacted and closed `compact_s`, `tables_per_json`, `stored_per_json` (all files).
pub fn run_load(
    dir: &Path,
    keep: bool,
    options: &LoadOptions,
    out: Option<&Path>,
    watch: Watch<'_>,
) -> Outcome<Summary> {
    let inputs = options.inputs()?;
    let place = StoreDir::fresh(dir)?;
    let (data, events) = (place.data(), Arc::new(EventLog::default()));
    let (database, collection) = options.open(&data, &events)?;
    let plan = Plan {
        workload: "load",
        engine: "flagstone",
        engine_version: VERSION,
        options: options.describe(),
        starting_state: "an empty store",
        dir: &data,
        out,
    };
    let mut recorder = Recorder::begin(plan, watch)?;
    let gauges = || gauges_of(&database.stats());
    let take_events = || events.take();
    let probe = Probe { gauges: &gauges, events: &take_events };
    // One worker; the load has threads of its own.
    let pace = Pace { interval: options.interval, ..Pace::unwatched(1) };
    let mut told = Told::default();
    let loader = Loader {
        database: &database,
        collection: &collection,
        options,
        inputs: Some(inputs),
        told: &mut told,
    };
    recorder.run_probed(&probe, &pace, vec![Box::new(loader)])?;
    let json = told.json_bytes as f64;
    recorder.figure("load_s", told.load_s);
    recorder.figure("flush_s", told.flush_s);
    recorder.figure("json_bytes", json);
    let per_json = |bytes: u64| bytes as f64 / json.max(1.0);
    recorder.figure("stored_per_json_loaded", per_json(database.stats().table_bytes()));
    if options.compact {
        recorder.aside("compact", &probe, |_| Ok(database.compact()?))?;
        recorder.figure("tables_per_json", per_json(database.stats().table_bytes()));
    }
    drop(collection);
    recorder.aside("close", &Probe::NONE, |_| Ok(database.clone().close()?))?;
    recorder.figure("stored_per_json", per_json(DirectoryBytes::of(&data).all));
    if !keep {
        place.remove()?;
    }
    recorder.finish()
}

/// The figures of a load.
#[derive(Default)]
struct Told {
    json_bytes: u64,
    load_s: f64,
    flush_s: f64,
}

struct Loader<'a> {
    database: &'a Database,
    collection: &'a Collection,
    options: &'a LoadOptions,
    inputs: Option<Vec<Input>>,
    told: &'a mut Told,
}

impl Worker for Loader<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let Self { database, collection, options, .. } = *self;
        let Some(inputs) = self.inputs.take() else { return Ok(false) };
        let LoadThreads { readers, parsers, writers, durability, memory_bytes, .. } =
            options.threads;
        let commits = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&commits);
        let on_commit: OnCommit = Arc::new(move |took| lock(&heard).push(took));
        let plan = flagstone_load::Plan {
            key_path: options.key.clone(),
            readers,
            parsers,
            writers,
            durability,
            memory_budget: memory_bytes,
            on_commit: Some(on_commit),
            ..flagstone_load::Plan::new(database, collection, inputs)
        };
        let started = Instant::now();
        let count = plan.run(&mut Counts { meter, told: Count::default(), commits })?.whole()?;
        self.told.load_s = started.elapsed().as_secs_f64();
        self.told.json_bytes = count.json_bytes;
        let started = Instant::now();
        database.flush()?;
        self.told.flush_s = started.elapsed().as_secs_f64();
        Ok(true)
    }
}

/// Passes the progress of a load to a meter.
struct Counts<'a, 'b> {
    meter: &'a mut Meter<'b>,
    told: Count,
    /// The latencies of commits that the meter has not seen yet.
    commits: Arc<Mutex<Vec<Duration>>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counts<'_, '_> {
    fn tell(&mut self, now: Count) {
        let tally = Tally {
            ops: now.documents - self.told.documents,
            user_bytes: now.json_bytes - self.told.json_bytes,
            ..Tally::ONE
        };
        self.told = now;
        self.meter.count(tally);
        for took in std::mem::take(&mut *lock(&self.commits)) {
            self.meter.sample(OpKind::Batch, took);
        }
    }
}

impl Watcher for Counts<'_, '_> {
    fn tick(&mut self, _took: Duration, count: Count) {
        self.tell(count);
    }

    fn end(&mut self, _took: Duration, count: Count) {
        self.tell(count);
    }

    fn stops(&self) -> bool {
        self.meter.is_over()
    }
}
