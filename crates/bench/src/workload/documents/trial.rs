//! What gets and updates of documents have in common: a trial on a checkpoint of its own.

use super::load::VERSION;
use super::source::{DocumentStore, Opened, state};
use crate::engine::{EngineError, Outcome, gauges_of};
use crate::options::{Pace, describe};
use crate::record::{Described, OpKind, Summary};
use crate::run::{Crew, Meter, Plan, Probe, Recorder, Tally, Watch, Worker, work};
use crate::workload::StoreDir;
use flagstone::{Collection, Value};
use std::path::Path;

/// How a trial on documents runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialOptions {
    /// How long, on how many threads.
    pub pace: Pace,
    /// Once every key has been read, the checkpoint is closed, dropped from the page cache and
    /// opened again. Otherwise it stays open.
    pub cold: bool,
}

impl TrialOptions {
    /// All options by their long names, beside those of the documents.
    pub fn describe(&self, how: &str, partitions: usize) -> Described {
        let mut options = describe(&self.pace);
        options.insert("how".into(), how.into());
        options.insert("cold".into(), self.cold.into());
        options.insert("partitions".into(), partitions.into());
        options
    }
}

/// Where a trial on documents runs.
#[derive(Clone, Copy)]
pub struct DocumentTrial<'a> {
    /// The documents.
    pub store: &'a DocumentStore,
    /// The directory of the checkpoint: it must not exist, be empty, or come from an earlier
    /// benchmark. It must be on the file system of the documents, because of hard links.
    pub dir: &'a Path,
    /// The result file; none is written without.
    pub out: Option<&'a Path>,
    pub watch: Watch<'a>,
}

/// Reads what the trial needs, before files are dropped from the page cache.
type Prepare<'w> = &'w dyn Fn(&Opened) -> Outcome<()>;
/// Creates a worker for each thread.
type Workers<'w> = &'w dyn Fn(&Opened, usize) -> Crew<'static>;
/// Checks what the trial did.
type Check<'w> = &'w dyn Fn(&Opened, &mut Recorder<'_>) -> Outcome<()>;

impl DocumentTrial<'_> {
    /// Runs `workers` on a new checkpoint, after `prepare` and before `check`, and removes it.
    /// Figures: `checkpoint_s`.
    pub(super) fn run(
        &self,
        (workload, how): (&str, &str),
        options: &TrialOptions,
        prepare: Prepare<'_>,
        workers: Workers<'_>,
        check: Check<'_>,
    ) -> Outcome<Summary> {
        let place = StoreDir::fresh(self.dir)?;
        let mut opened = self.store.checkpoint(&place)?;
        let data = place.data();
        let threads = options.pace.threads;
        // A key without a document is an error before anything is measured.
        work(&Pace::unwatched(threads), each(&opened, &self.store.keys, threads), &mut |_, _| {
            Ok(())
        })?;
        prepare(&opened)?;
        let cache = if options.cold { "page cache cold" } else { "each key read once before" };
        if options.cold {
            opened = self.store.reopen_cold(opened, &place)?;
        }
        let stats = opened.database.stats();
        let found = stats.keyspaces.iter().find(|of| of.info.name == self.store.collection);
        let partitions = found.map_or(0, |keyspace| keyspace.info.routing.partitions());
        let mut told = options.describe(how, partitions);
        told.insert("keys".into(), self.store.keys.len().into());
        told.insert("memory".into(), stats.memory_budget.into());
        told.extend(self.store.told.clone());
        let state = state(&stats, cache);
        let plan = Plan {
            workload,
            engine: "flagstone",
            engine_version: VERSION,
            options: told,
            starting_state: &state,
            dir: &data,
            out: self.out,
        };
        let mut recorder = Recorder::begin(plan, self.watch)?;
        let gauges = || gauges_of(&opened.database.stats());
        let events = || opened.events.take();
        let probe = Probe { gauges: &gauges, events: &events };
        recorder.run_probed(&probe, &options.pace, workers(&opened, threads))?;
        recorder.figure("checkpoint_s", opened.took.as_secs_f64());
        check(&opened, &mut recorder)?;
        let Opened { database, collection, .. } = opened;
        drop(collection);
        recorder.aside("close", &Probe::NONE, |_| Ok(database.close()?))?;
        place.remove()?;
        recorder.finish()
    }
}

/// Workers that get every key once.
fn each<'c>(opened: &'c Opened, keys: &'c [Value], threads: usize) -> Crew<'c> {
    let share = keys.len().div_ceil(threads.max(1)).max(1);
    let each = |keys: &'c [Value]| Each { collection: &opened.collection, keys: keys.iter() };
    keys.chunks(share).map(|keys| Box::new(each(keys)) as Box<dyn Worker>).collect()
}

struct Each<'c> {
    collection: &'c Collection,
    keys: std::slice::Iter<'c, Value>,
}

impl Worker for Each<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let Some(key) = self.keys.next() else { return Ok(false) };
        meter.begin();
        let found = self.collection.get(key.clone())?.is_some();
        meter.end(OpKind::Get, Tally::found(found));
        if found { Ok(true) } else { Err(missing(key)) }
    }
}

#[cold]
pub(super) fn missing(key: &Value) -> EngineError {
    format!("there is no document {key}: the keys are of another database").into()
}
