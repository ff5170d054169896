//! The documents that are read and changed: a database that is there, or one made for the purpose;
//! each trial works on a checkpoint of it.

use super::keys::read_keys;
use super::load::{LoadInput, LoadOptions, run_load};
use crate::engine::{EventLog, Outcome};
use crate::record::Described;
use crate::run::StoreDir;
use crate::workload::Random;
use crate::workload::page_cache::drop_files;
use flagstone::{Collection, Database, Event, Listener, Options, Stats, Value};
use flagstone_comments::Comments;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where documents and keys come from.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentSource {
    /// A loaded, compacted database, which is not changed.
    Database {
        /// Its directory.
        dir: PathBuf,
        /// The collection.
        collection: String,
        /// A file of keys, one a line.
        keys: PathBuf,
        /// The keys are JSON.
        json_keys: bool,
    },
    /// Generated comments, loaded and compacted first.
    Comments {
        /// How many, and how they are loaded.
        load: Box<LoadOptions>,
        /// How many of their keys are asked for.
        sample: usize,
    },
}

/// Documents to be read and changed.
#[derive(Debug)]
pub struct DocumentStore {
    dir: PathBuf,
    /// Removed at the end.
    made: Option<StoreDir>,
    /// The collection.
    pub(super) collection: String,
    /// What made them, where they were made: options of a header.
    pub(super) told: Described,
    /// The keys asked for; each must be there.
    pub(super) keys: Arc<[Value]>,
    memory_bytes: u64,
}

impl DocumentStore {
    /// Finds the documents, or makes them, below `dir`.
    ///
    /// # Errors
    /// When keys cannot be read, documents not be loaded.
    pub fn prepare(source: &DocumentSource, dir: &Path, memory_bytes: u64) -> Outcome<Self> {
        match source {
            DocumentSource::Database { dir, collection, keys, json_keys } => Ok(Self {
                dir: dir.clone(),
                made: None,
                told: Described::new(),
                collection: collection.clone(),
                keys: read_keys(keys, *json_keys)?.into(),
                memory_bytes,
            }),
            DocumentSource::Comments { load, sample } => {
                let LoadInput::Comments { count, seed } = load.input else {
                    return Err("documents are made of generated comments only".into());
                };
                let place = dir.with_extension("source");
                run_load(&place, true, load, None, &|_| {})?;
                let (comments, mut random) = (Comments::new(seed), Random::new(seed, 0));
                let key = |_| Value::from(comments.key(random.below(count)).as_str());
                let keys = (0..*sample).map(key).collect();
                let made = StoreDir::existing(&place)?;
                let dir = made.data();
                let collection = load.collection.clone();
                let told = describe_comments(count, *sample, memory_bytes);
                Ok(Self { dir, made: Some(made), collection, told, keys, memory_bytes })
            }
        }
    }

    /// A checkpoint of the documents in a store of `place`, opened; and how long that took.
    pub(super) fn checkpoint(&self, place: &StoreDir) -> Outcome<Opened> {
        let data = place.data();
        let original = Database::builder(&self.dir).create_if_missing(false).open()?;
        let started = Instant::now();
        original.checkpoint(&data)?;
        let took = started.elapsed();
        original.close()?;
        self.open(&data, took)
    }

    /// The checkpoint of a place with nothing of it in memory: closed, dropped from the page cache and
    /// opened again.
    pub(super) fn reopen_cold(&self, opened: Opened, place: &StoreDir) -> Outcome<Opened> {
        let Opened { database, collection, took, .. } = opened;
        drop(collection);
        database.close()?;
        let data = place.data();
        drop_files(&data)?;
        self.open(&data, took)
    }

    /// Opens a checkpoint that took so long, and hears its events.
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

    /// Removes what was made.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove(self) -> Outcome<()> {
        self.made.map_or(Ok(()), StoreDir::remove)
    }
}

/// The options that a header holds of generated comments that are read and changed.
pub fn describe_comments(count: u64, sample: usize, memory_bytes: u64) -> Described {
    let pairs = [("comments", count), ("sample", sample as u64), ("memory", memory_bytes)];
    pairs.map(|(name, value)| (name.to_owned(), value.into())).into()
}

/// An open checkpoint.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) collection: Collection,
    pub(super) events: Arc<EventLog>,
    /// How long the checkpoint took to make.
    pub(super) took: Duration,
}

/// `a checkpoint of 12 tables, 345 bytes (L1 5 tables ..); page cache warm`.
pub(super) fn state(stats: &Stats, cache: &str) -> String {
    let mut text =
        format!("a checkpoint of {} tables, {} bytes", stats.tables(), stats.table_bytes());
    for level in stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels) {
        let _infallible = write!(
            text,
            "; L{}: {} tables, {} bytes, {} entries",
            level.level, level.tables, level.bytes, level.entries
        );
    }
    text + "; " + cache
}
