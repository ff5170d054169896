//! Loading documents: JSON to stored, to the end of flushing.

use crate::engine::{Outcome, gauges_of, open_database};
use crate::options::Pace;
use crate::record::{Described, OpKind, Summary};
use crate::run::{Meter, Probe, Tally};
use crate::sample::DirectoryBytes;
use crate::workload::{Case, Options, StoreDir};
use flagstone::{Collection, Database, KeyspaceOptions};
use flagstone_comments::Comments;
use flagstone_load::{Count, Input, OnCommit, Watcher};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The name of flagstone, for headers.
pub(super) const ENGINE: &str = "flagstone";
/// Its version.
pub(super) const VERSION: &str = concat!("flagstone ", env!("CARGO_PKG_VERSION"));

/// Adds facts to the header of a load that are not options.
pub(in crate::workload) fn describe_load(options: &Options, told: &mut Described) {
    let documents = &options.documents;
    let input = if documents.files.is_empty() {
        format!("{} comments of seed {}", documents.comments, options.data.seed)
    } else {
        let files = documents.files.iter().map(|file| file.display().to_string());
        files.collect::<Vec<_>>().join(" ")
    };
    told.insert("input".into(), input.into());
    told.remove("comments");
    let threads = documents.readers + documents.parsers + documents.writers;
    told.insert("threads".into(), threads.into());
}

fn inputs(options: &Options) -> Outcome<Vec<Input>> {
    let documents = &options.documents;
    if documents.files.is_empty() {
        let comments = Comments::new(options.data.seed);
        let make = move |numbers, out: &mut Vec<u8>| comments.write_lines(numbers, out);
        return Ok(vec![Input::made("comments", 0..documents.comments, Box::new(make))]);
    }
    documents.files.iter().map(|file| Ok(Input::open(file)?)).collect()
}

/// Loads documents into a new store: JSON to stored. An operation is a document, and the time ends
/// when all are flushed to tables. The store is in `data` below the directory of the stage.
/// Figures: `load_s` (to the last acknowledgement), `flush_s`, `json_bytes`,
/// `stored_per_json_loaded` (tables / JSON, when flushed), and when the store is compacted and
/// closed `compact_s`, `tables_per_json`, `stored_per_json` (all files).
pub(in crate::workload) fn run_load(case: &Case<'_>) -> Outcome<Summary> {
    let options = case.options;
    let inputs = inputs(options)?;
    let place = StoreDir::fresh(case.stage.dir)?;
    let (data, store) = (place.data(), &options.store);
    let chosen = flagstone::Options::new().memory_budget(store.memory_bytes);
    let (database, events) = open_database(&data, chosen.durability(store.durability))?;
    let mut wanted = KeyspaceOptions::new().routing(store.chosen_routing());
    wanted.block_bytes = store.block_bytes;
    let collection = database.space(&options.documents.collection).options(wanted).collection()?;
    let mut recorder =
        case.record_of(ENGINE, VERSION, case.told.clone(), "an empty store", &data)?;
    let gauges = || gauges_of(&database.stats());
    let take_events = || events.take();
    let probe = Probe { gauges: &gauges, events: &take_events };
    // One worker; the load has threads of its own.
    let pace = Pace { interval: options.pace.interval, ..Pace::unwatched(1) };
    let (mut inputs, mut json_bytes, mut load_s, mut flush_s) = (Some(inputs), 0, 0.0, 0.0);
    let loader = |meter: &mut Meter<'_>| -> Outcome<bool> {
        let Some(inputs) = inputs.take() else { return Ok(false) };
        (json_bytes, load_s) = load(&database, &collection, options, inputs, meter)?;
        let started = Instant::now();
        database.flush()?;
        flush_s = started.elapsed().as_secs_f64();
        Ok(true)
    };
    recorder.run_probed(&probe, &pace, vec![Box::new(loader)])?;
    let json = json_bytes as f64;
    recorder.figure("load_s", load_s);
    recorder.figure("flush_s", flush_s);
    recorder.figure("json_bytes", json);
    let per_json = |bytes: u64| bytes as f64 / json.max(1.0);
    recorder.figure("stored_per_json_loaded", per_json(database.stats().table_bytes()));
    if options.documents.compact {
        recorder.aside("compact", &probe, |_| Ok(database.compact()?))?;
        recorder.figure("tables_per_json", per_json(database.stats().table_bytes()));
    }
    drop(collection);
    recorder.aside("close", &Probe::NONE, |_| Ok(database.clone().close()?))?;
    recorder.figure("stored_per_json", per_json(DirectoryBytes::of(&data).all));
    if !case.stage.keep {
        place.remove()?;
    }
    recorder.finish()
}

/// Loads inputs with the threads that the options say. Returns bytes of JSON, and the seconds to
/// the last acknowledgement.
fn load(
    database: &Database,
    collection: &Collection,
    options: &Options,
    inputs: Vec<Input>,
    meter: &mut Meter<'_>,
) -> Outcome<(u64, f64)> {
    let documents = &options.documents;
    let (sender, commits) = channel();
    let on_commit: OnCommit = Arc::new(move |took| {
        // The receiver is gone when the load has failed.
        let _gone = sender.send(took);
    });
    let plan = flagstone_load::Plan {
        key: flagstone_load::Key::parse(&documents.key),
        readers: documents.readers,
        parsers: documents.parsers,
        writers: documents.writers,
        durability: options.store.durability,
        memory_budget: options.store.memory_bytes,
        on_commit: Some(on_commit),
        ..flagstone_load::Plan::new(database, collection, inputs)
    };
    let started = Instant::now();
    let count = plan.run(&mut Counts { meter, told: Count::default(), commits })?.whole()?;
    Ok((count.json_bytes, started.elapsed().as_secs_f64()))
}

/// Passes the progress of a load to a meter.
struct Counts<'a, 'b> {
    meter: &'a mut Meter<'b>,
    told: Count,
    /// The latencies of commits that the meter has not seen yet.
    commits: Receiver<Duration>,
}

impl Watcher for Counts<'_, '_> {
    fn tick(&mut self, _took: Duration, now: Count) {
        let tally = Tally {
            ops: now.documents - self.told.documents,
            user_bytes: now.json_bytes - self.told.json_bytes,
            ..Tally::ONE
        };
        self.told = now;
        self.meter.count(tally);
        for took in self.commits.try_iter() {
            self.meter.sample(OpKind::Batch, took);
        }
    }

    fn end(&mut self, took: Duration, count: Count) {
        self.tick(took, count);
    }

    fn stops(&self) -> bool {
        self.meter.is_over()
    }
}
