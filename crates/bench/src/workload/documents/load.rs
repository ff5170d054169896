//! Loading documents: JSON to stored, to the end of flushing.

use crate::engine::{EventLog, Outcome, durability_name, gauges_of};
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Pace, Plan, Probe, Recorder, StoreDir, Tally, Watch, Worker};
use crate::sample::directory_bytes;
use crate::workload::fill::unwatched;
use flagstone::{Collection, Database, Durability, Event, KeyspaceOptions, Options, Routing};
use flagstone_comments::Comments;
use flagstone_load::{Count, Input, OnCommit, Watcher, carry_out};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The version of the engine, as headers have it.
pub(super) const VERSION: &str = concat!("flagstone ", env!("CARGO_PKG_VERSION"));

/// What is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadInput {
    /// Files of JSON lines or arrays, plain or compressed.
    Files(Vec<PathBuf>),
    /// So many generated comments of a seed, made by the readers while they load: their time is part
    /// of the load's.
    Comments {
        /// How many.
        count: u64,
        /// Which.
        seed: u64,
    },
}

/// What a load is.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadOptions {
    /// What is loaded.
    pub input: LoadInput,
    /// The collection.
    pub collection: String,
    /// The dotted path of the primary key in each document.
    pub key_path: String,
    /// Hash partitions.
    pub partitions: u16,
    /// Threads that read.
    pub readers: u16,
    /// Threads that parse.
    pub parsers: u16,
    /// Threads that commit.
    pub writers: u16,
    /// What an acknowledged document survives.
    pub durability: Durability,
    /// The memory budget in bytes.
    pub memory_bytes: u64,
    /// Bytes of a block of a table, where it is not left to the engine.
    pub block_bytes: Option<usize>,
    /// Compacts at the end, apart from the time of the load.
    pub compact: bool,
    /// The time of a row.
    pub interval: Duration,
}

impl LoadOptions {
    /// 4 partitions, 1 reader, a parser a core, 2 writers, 512 MiB, buffered, compacted at the end.
    pub fn new(input: LoadInput) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            input,
            collection: "comments".into(),
            key_path: "id".into(),
            partitions: 4,
            readers: 1,
            parsers: cores.min(64) as u16,
            writers: 2,
            durability: Durability::Buffered,
            memory_bytes: 512 << 20,
            block_bytes: None,
            compact: true,
            interval: Duration::from_secs(1),
        }
    }

    /// All options by their long names.
    pub fn describe(&self) -> BTreeMap<String, Value> {
        let input: Value = match &self.input {
            LoadInput::Files(files) => {
                let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
                files.join(" ").into()
            }
            LoadInput::Comments { count, seed } => {
                format!("{count} comments of seed {seed}").into()
            }
        };
        let pairs: [(&str, Value); 12] = [
            ("input", input),
            ("collection", self.collection.clone().into()),
            ("key", self.key_path.clone().into()),
            ("partitions", self.partitions.into()),
            ("readers", self.readers.into()),
            ("parsers", self.parsers.into()),
            ("writers", self.writers.into()),
            ("threads", (self.readers + self.parsers + self.writers).into()),
            ("durability", durability_name(self.durability).into()),
            ("memory", self.memory_bytes.into()),
            ("block-bytes", self.block_bytes.into()),
            ("interval", self.interval.as_secs_f64().into()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn inputs(&self) -> Outcome<Vec<Input>> {
        match &self.input {
            LoadInput::Files(files) => files.iter().map(|file| Ok(Input::open(file)?)).collect(),
            LoadInput::Comments { count, seed } => {
                let comments = Comments::new(*seed);
                let make = move |numbers, out: &mut Vec<u8>| comments.write_lines(numbers, out);
                Ok(vec![Input::made("comments", 0..*count, Box::new(make))])
            }
        }
    }

    /// Opens the database in `dir`, with its collection, and hears its events.
    fn open(&self, dir: &Path, events: &Arc<EventLog>) -> Outcome<(Database, Collection)> {
        let options = Options::new().memory_budget(self.memory_bytes).durability(self.durability);
        let heard = Arc::clone(events);
        let builder = Database::builder(dir).options(options);
        let builder = builder.listener(move |event: &Event| {
            flagstone::Listener::event(&*heard, event);
        });
        let database = builder.open()?;
        let mut wanted = KeyspaceOptions::new().routing(Routing::Hash(self.partitions));
        wanted.block_bytes = self.block_bytes;
        let collection = database.collection_with(&self.collection, wanted)?;
        Ok((database, collection))
    }
}

/// Loads documents into a new store in `dir`, workload `load`; an operation is a document, and the
/// time ends when all are flushed to tables. The store is removed unless it is to be kept; it lies in
/// `data` below `dir`. Figures: `load_s` (to the last acknowledgement), `flush_s`, `json_bytes`,
/// `stored_per_json_loaded` (tables against JSON, when flushed), and once it is compacted and closed
/// `compact_s`, `tables_per_json`, `stored_per_json` (all files).
///
/// # Errors
/// When a document cannot be loaded; what the database or the file system says.
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
    let described = options.describe();
    let mut recorder = Recorder::begin(
        &Plan {
            workload: "load",
            engine: "flagstone",
            engine_version: VERSION,
            options: &described,
            starting_state: "an empty store",
            dir: &data,
            out,
        },
        watch,
    )?;
    let loads =
        Loads { database: &database, collection: &collection, options, inputs: Some(inputs) };
    let gauges = || gauges_of(&database.stats());
    let take_events = || events.take();
    let probe = Probe { gauges: &gauges, events: &take_events };
    // One worker, for which the threads of the load work.
    let pace = Pace { interval: options.interval, ..unwatched(1) };
    let mut told = Told::default();
    let worker = Box::new(Loader { loads, told: &mut told });
    recorder.run_probed(&probe, &pace, vec![worker])?;
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
    recorder.figure("stored_per_json", per_json(directory_bytes(&data)));
    if !keep {
        place.remove()?;
    }
    recorder.finish()
}

/// What a load told.
#[derive(Default)]
struct Told {
    json_bytes: u64,
    load_s: f64,
    flush_s: f64,
}

struct Loads<'a> {
    database: &'a Database,
    collection: &'a Collection,
    options: &'a LoadOptions,
    inputs: Option<Vec<Input>>,
}

struct Loader<'a> {
    loads: Loads<'a>,
    told: &'a mut Told,
}

impl Worker for Loader<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let Loads { database, collection, options, inputs } = &mut self.loads;
        let Some(inputs) = inputs.take() else { return Ok(false) };
        let commits = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&commits);
        let on_commit: OnCommit = Arc::new(move |took| lock(&heard).push(took));
        let plan = flagstone_load::Plan {
            key_path: options.key_path.clone(),
            readers: options.readers,
            parsers: options.parsers,
            writers: options.writers,
            durability: options.durability,
            memory_budget: options.memory_bytes,
            on_commit: Some(on_commit),
            ..flagstone_load::Plan::new(database, collection, inputs)
        };
        let started = Instant::now();
        let count =
            carry_out(plan, &mut Counts { meter, told: Count::default(), commits })?.whole()?;
        self.told.load_s = started.elapsed().as_secs_f64();
        self.told.json_bytes = count.json_bytes;
        let started = Instant::now();
        database.flush()?;
        self.told.flush_s = started.elapsed().as_secs_f64();
        Ok(true)
    }
}

/// Hands what a load has done to a meter.
struct Counts<'a, 'b> {
    meter: &'a mut Meter<'b>,
    told: Count,
    /// How long commits took that it has not told yet.
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
