//! The documents that are read and changed: those of a database, or generated ones. Each trial
//! works on a checkpoint of its own.

use super::load::{ENGINE, VERSION, run_load};
use crate::engine::{EngineError, EventLog, Outcome, gauges_of, open_database};
use crate::options::Pace;
use crate::record::{Described, OpKind, Summary};
use crate::run::{Crew, Meter, Probe, Recorder, Tally, crew, work};
use crate::workload::page_cache::drop_files;
use crate::workload::{Case, Options, Stage, StoreDir, Trials, random};
use flagstone::report::Stats;
use flagstone::{Collection, Database, Space, Value};
use flagstone_comments::Comments;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Documents to be read and changed.
#[derive(Debug)]
pub(in crate::workload) struct DocumentStore {
    dir: PathBuf,
    /// The directory of generated documents, which is removed at the end.
    made: Option<StoreDir>,
    collection: String,
    /// The keys asked for; each must be there.
    pub(super) keys: Arc<[Value]>,
    memory_bytes: u64,
}

impl DocumentStore {
    /// Finds the documents, or generates them in a directory next to that of the stage.
    fn prepare(case: &Case<'_>) -> Outcome<Self> {
        let options = case.options;
        let (documents, memory_bytes) = (&options.documents, options.store.memory_bytes);
        let collection = documents.collection.clone();
        if let (Some(dir), Some(keys)) = (&documents.db, &documents.keys) {
            let (dir, keys) = (dir.clone(), read_keys(keys, documents.json_key)?.into());
            return Ok(Self { dir, made: None, collection, keys, memory_bytes });
        }
        let place = case.stage.dir.with_extension("source");
        let stage = Stage { dir: &place, out: None, watch: &|_| {}, keep: true, ..case.stage };
        run_load(&Case { workload: "load", stage, told: Default::default(), options })?;
        let seed = options.data.seed;
        let (comments, mut random) = (Comments::new(seed), random(seed, 0));
        let key = |_| Value::from(comments.key(random.below(documents.comments)).as_str());
        let keys = (0..documents.sample).map(key).collect();
        let made = StoreDir::left_in(&place);
        Ok(Self { dir: made.data(), made: Some(made), collection, keys, memory_bytes })
    }

    /// Opens a checkpoint of the documents in `place`.
    fn checkpoint(&self, place: &StoreDir) -> Outcome<OpenedCheckpoint> {
        let data = place.data();
        let original = Database::builder(&self.dir)
            .options(flagstone::Options::new().create_if_missing(false))
            .open()?;
        let started = Instant::now();
        original.checkpoint(&data)?;
        let took = started.elapsed();
        original.close()?;
        self.open(&data, took)
    }

    /// Closes the checkpoint, drops its files from the page cache and opens it again.
    fn reopen_cold(&self, opened: OpenedCheckpoint, place: &StoreDir) -> Outcome<OpenedCheckpoint> {
        let OpenedCheckpoint { database, collection, took, .. } = opened;
        drop(collection);
        database.close()?;
        let data = place.data();
        drop_files(&data)?;
        self.open(&data, took)
    }

    /// Opens a checkpoint that took `took` to create.
    fn open(&self, data: &Path, took: Duration) -> Outcome<OpenedCheckpoint> {
        let options = flagstone::Options::new().memory_budget(self.memory_bytes);
        let (database, events) = open_database(data, options.create_if_missing(false))?;
        let found = database.space(&self.collection).existing().collection()?;
        let collection = found.ok_or_else(|| {
            format!("{}: no collection {:?}", self.dir.display(), self.collection)
        })?;
        Ok(OpenedCheckpoint { database, collection, events, took })
    }
}

/// An open checkpoint.
pub(super) struct OpenedCheckpoint {
    database: Database,
    pub(super) collection: Collection,
    events: Arc<EventLog>,
    /// The time in which the checkpoint was created.
    took: Duration,
}

/// `a checkpoint of 12 tables, 345 bytes (L1 5 tables ..); page cache warm`.
fn state(stats: &Stats, cache: &str) -> String {
    let mut text =
        format!("a checkpoint of {} tables, {} bytes", stats.tables(), stats.table_bytes());
    for level in stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels) {
        text += &format!(
            "; L{}: {} tables, {} bytes, {} entries",
            level.level, level.tables, level.bytes, level.entries
        );
    }
    text + "; " + cache
}

/// The keys of the file `path`, one a line: plain text, or with `json` any JSON. Empty lines are
/// skipped.
fn read_keys(path: &Path, json: bool) -> Outcome<Vec<Value>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        keys.push(if json {
            let parsed = flagstone::doc::json::parse(line);
            parsed.map_err(|error| format!("{shown}:{}: the key: {error}", at + 1))?
        } else {
            Value::from(line)
        });
    }
    if keys.is_empty() {
        return Err(format!("{shown}: expected a key a line, as `flagstone keys` writes").into());
    }
    Ok(keys)
}

/// The function that runs a trial on documents of a store.
type RunDocuments = fn(&DocumentStore, &Case<'_>) -> Outcome<Summary>;

/// Trials on checkpoints of the same documents.
pub(in crate::workload) struct DocumentTrials {
    store: DocumentStore,
    run: RunDocuments,
}

impl DocumentTrials {
    /// Finds or generates the documents.
    pub(in crate::workload) fn begin(
        case: &Case<'_>,
        run: RunDocuments,
    ) -> Outcome<Box<dyn Trials>> {
        Ok(Box::new(Self { store: DocumentStore::prepare(case)?, run }))
    }
}

impl Trials for DocumentTrials {
    fn run(&mut self, case: &Case<'_>) -> Outcome<Summary> {
        (self.run)(&self.store, case)
    }

    fn end(self: Box<Self>, _keep: bool) -> Outcome<()> {
        self.store.made.map_or(Ok(()), StoreDir::remove)
    }
}

/// Completes the header of a trial: inserts `how`, and removes the number of comments if they were
/// not generated.
pub(super) fn describe(options: &Options, how: String, told: &mut Described) {
    told.insert("how".into(), how.into());
    told.remove("collection");
    if options.documents.db.is_some() {
        told.retain(|name, _| name != "comments" && name != "sample");
    }
}

/// Runs workers on a new checkpoint, which is removed afterwards. `prepare` reads what the workers
/// need, before files are dropped from the page cache; `check` checks their results. With `--cold`
/// the checkpoint is closed once every key has been read, dropped from the page cache and opened
/// again. The directory of the stage must be on the file system of the documents, because of hard
/// links. Figure: `checkpoint_s`.
pub(super) fn run_on_checkpoint<T>(
    store: &DocumentStore,
    case: &Case<'_>,
    prepare: impl FnOnce(&OpenedCheckpoint) -> Outcome<T>,
    workers: impl FnOnce(&OpenedCheckpoint, &T) -> Crew<'static>,
    check: impl FnOnce(&OpenedCheckpoint, &T, &mut Recorder<'_>) -> Outcome<()>,
) -> Outcome<Summary> {
    let place = StoreDir::fresh(case.stage.dir)?;
    let mut opened = store.checkpoint(&place)?;
    let (pace, threads) = (&case.options.pace, case.options.pace.threads);
    // A key without a document is an error before anything is measured.
    work(&Pace::unwatched(threads), each(&opened, &store.keys, threads), &mut |_, _| Ok(()))?;
    let prepared = prepare(&opened)?;
    let mut cache = "each key read once before";
    if case.options.documents.cold {
        opened = store.reopen_cold(opened, &place)?;
        cache = "page cache cold";
    }
    let stats = opened.database.stats();
    let found = stats.keyspaces.iter().find(|of| of.info.name == store.collection);
    let partitions = found.map_or(0, |keyspace| keyspace.info.routing.partitions());
    let mut told = case.told.clone();
    told.insert("partitions".into(), partitions.into());
    told.insert("keys".into(), store.keys.len().into());
    told.insert("memory".into(), stats.memory_budget.into());
    let mut recorder =
        case.record_of(ENGINE, VERSION, told, &state(&stats, cache), &place.data())?;
    let gauges = || gauges_of(&opened.database.stats());
    let events = || opened.events.take();
    let probe = Probe { gauges: &gauges, events: &events };
    recorder.run_probed(&probe, pace, workers(&opened, &prepared))?;
    recorder.figure("checkpoint_s", opened.took.as_secs_f64());
    check(&opened, &prepared, &mut recorder)?;
    let OpenedCheckpoint { database, collection, .. } = opened;
    drop(collection);
    recorder.aside("close", &Probe::NONE, |_| Ok(database.close()?))?;
    place.remove()?;
    recorder.finish()
}

/// Workers that get every key once.
fn each<'c>(opened: &'c OpenedCheckpoint, keys: &'c [Value], threads: usize) -> Crew<'c> {
    let share = keys.len().div_ceil(threads.max(1)).max(1);
    crew(threads, |thread| {
        let mut keys = keys.chunks(share).nth(thread as usize).unwrap_or_default().iter();
        move |meter: &mut Meter<'_>| {
            let Some(key) = keys.next() else { return Ok(false) };
            meter.begin();
            let found = opened.collection.get(key.clone())?.is_some();
            meter.end(OpKind::Get, Tally::found(found));
            if found { Ok(true) } else { Err(missing(key)) }
        }
    })
}

#[cold]
pub(super) fn missing(key: &Value) -> EngineError {
    format!("there is no document {key}: the keys are of another database").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_or_json() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        std::fs::write(&path, "42\n\n\"x\"\n").unwrap();
        let text = ["42", "\"x\""].map(Value::from);
        assert_eq!(read_keys(&path, false).unwrap(), text);
        assert_eq!(read_keys(&path, true).unwrap(), [Value::from(42), Value::from("x")]);
        std::fs::write(&path, "1\nx\n").unwrap();
        let wrong = read_keys(&path, true).unwrap_err().to_string();
        assert!(wrong.contains("keys:2: the key"), "{wrong}");
        std::fs::write(&path, "\n").unwrap();
        assert!(read_keys(&path, false).is_err());
    }
}
