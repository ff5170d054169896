//! The documents that are read and changed: those of a database, or generated ones;
//! each trial works on a checkpoint of them.

use super::load::{LoadOptions, run_load};
use crate::engine::{EventLog, Outcome};
use crate::options::{defaults, partitions, records, within};
use crate::record::Described;
use crate::workload::page_cache::drop_files;
use crate::workload::{Random, StoreDir};
use clap::Args;
use flagstone::{Collection, Database, Event, Listener, Options, Stats, Value, parse_bytes};
use flagstone_comments::Comments;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Which documents, and which of their keys.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Documents")]
pub struct Source {
    /// A loaded, compacted database; it is not changed: the trial works on a checkpoint
    #[arg(long, value_name = "DB", requires = "keys")]
    pub db: Option<PathBuf>,
    /// Its collection
    #[arg(long, value_name = "NAME", default_value = "comments")]
    pub collection: String,
    /// Keys, one a line, as `flagstone keys DB COLLECTION --sample N` writes them; each must be
    /// there
    #[arg(long, value_name = "FILE", requires = "db")]
    pub keys: Option<PathBuf>,
    /// The keys are JSON
    #[arg(long, requires = "keys")]
    pub json_key: bool,
    /// Without --db: load this many generated comments first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 300_000,
        conflicts_with = "db",
        value_parser = records()
    )]
    pub comments: u64,
    /// Without --db: hash partitions
    #[arg(
        long,
        value_name = "N",
        default_value = "4",
        conflicts_with = "db",
        value_parser = partitions()
    )]
    pub partitions: u16,
    /// Without --db: the number of keys, drawn at random
    #[arg(
        long,
        value_name = "N",
        default_value = "100000",
        conflicts_with = "db",
        value_parser = within::<usize>(1, 1 << 32)
    )]
    pub sample: usize,
    /// The memory budget
    #[arg(long = "memory", value_name = "BYTES", default_value = "512MiB", value_parser = parse_bytes)]
    pub memory_bytes: u64,
    /// Empty the page cache of the checkpoint first; otherwise every key is read once
    #[arg(long)]
    pub cold: bool,
}

impl Default for Source {
    fn default() -> Self {
        defaults()
    }
}

/// Documents to be read and changed.
#[derive(Debug)]
pub struct DocumentStore {
    dir: PathBuf,
    /// The directory of generated documents, which is removed at the end.
    made: Option<StoreDir>,
    pub(super) collection: String,
    /// Of generated documents: what a header says of them.
    pub(super) told: Described,
    /// The keys asked for; each must be there.
    pub(super) keys: Arc<[Value]>,
    memory_bytes: u64,
}

/// The seed of generated documents and of the sample of their keys.
const SEED: u64 = 1;

impl DocumentStore {
    /// Finds the documents, or generates them beside `dir`.
    pub fn prepare(source: &Source, dir: &Path) -> Outcome<Self> {
        let Source { collection, memory_bytes, sample, .. } = source.clone();
        if let (Some(dir), Some(keys)) = (&source.db, &source.keys) {
            let (dir, keys) = (dir.clone(), read_keys(keys, source.json_key)?.into());
            return Ok(Self {
                dir,
                made: None,
                told: Described::new(),
                collection,
                keys,
                memory_bytes,
            });
        }
        let place = dir.with_extension("source");
        let mut load = LoadOptions::of_comments(source.comments);
        (load.seed, load.collection) = (SEED, collection.clone());
        (load.threads.partitions, load.threads.memory_bytes) = (source.partitions, memory_bytes);
        run_load(&place, true, &load, None, &|_| {})?;
        let (comments, mut random) = (Comments::new(SEED), Random::new(SEED, 0));
        let key = |_| Value::from(comments.key(random.below(source.comments)).as_str());
        let keys = (0..sample).map(key).collect();
        let made = StoreDir::existing(&place)?;
        let told = source.describe();
        Ok(Self { dir: made.data(), made: Some(made), collection, told, keys, memory_bytes })
    }

    /// Opens a checkpoint of the documents in `place`.
    pub(super) fn checkpoint(&self, place: &StoreDir) -> Outcome<Opened> {
        let data = place.data();
        let original = Database::builder(&self.dir).create_if_missing(false).open()?;
        let started = Instant::now();
        original.checkpoint(&data)?;
        let took = started.elapsed();
        original.close()?;
        self.open(&data, took)
    }

    /// Closes the checkpoint, drops its files from the page cache and opens it again.
    pub(super) fn reopen_cold(&self, opened: Opened, place: &StoreDir) -> Outcome<Opened> {
        let Opened { database, collection, took, .. } = opened;
        drop(collection);
        database.close()?;
        let data = place.data();
        drop_files(&data)?;
        self.open(&data, took)
    }

    /// Opens a checkpoint that took `took` to create.
    fn open(&self, data: &Path, took: Duration) -> Outcome<Opened> {
        let events = Arc::new(EventLog::default());
        let heard = Arc::clone(&events);
        let options = Options::new().memory_budget(self.memory_bytes).create_if_missing(false);
        let builder = Database::builder(data).options(options);
        let database = builder.listener(move |event: &Event| heard.event(event)).open()?;
        let found = database.existing_collection(&self.collection)?;
        let collection = found.ok_or_else(|| {
            format!("{}: no collection {:?}", self.dir.display(), self.collection)
        })?;
        Ok(Opened { database, collection, events, took })
    }

    /// Removes generated documents.
    pub fn remove(self) -> Outcome<()> {
        self.made.map_or(Ok(()), StoreDir::remove)
    }
}

impl Source {
    /// What a header says of generated documents.
    pub fn describe(&self) -> Described {
        let (comments, sample, memory) = (self.comments, self.sample as u64, self.memory_bytes);
        let pairs = [("comments", comments), ("sample", sample), ("memory", memory)];
        pairs.map(|(name, value)| (name.to_owned(), value.into())).into()
    }
}

/// An open checkpoint.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) collection: Collection,
    pub(super) events: Arc<EventLog>,
    /// The time in which the checkpoint was created.
    pub(super) took: Duration,
}

/// `a checkpoint of 12 tables, 345 bytes (L1 5 tables ..); page cache warm`.
pub(super) fn state(stats: &Stats, cache: &str) -> String {
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
            let parsed = flagstone::json::parse(line);
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
