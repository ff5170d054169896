//! Where collections are: in a database that this process has open, or in a cluster, which other
//! servers use at the same time.
//!
//! Of a cluster a server holds nothing but handles of collections. They go on when indexes come and
//! go: a writer that does not know one is refused, and reads the catalog again. What is private to
//! a process (cursors, sessions) is in its memory, and spill files are in the empty database of the
//! cluster's handle.

use flagstone::internal::{RemoteDatabase, remote_of};
use flagstone::remote::unsupported;
use flagstone::{Collection, Database, ErrorKind, KeyspaceOptions, Result, Routing, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How errors of a collection end, after its name, that another process has dropped.
pub(crate) const DROPPED: &str = "\" was dropped from the cluster";

/// What to use in a cluster instead of its changes, which are not told.
pub(crate) const INSTEAD_OF_CHANGES: &str = "a field with the time of the change, and an index";

/// For how long queries may use what is known of the indexes of a collection.
const CATALOG_AGE: Duration = Duration::from_secs(1);
/// For how long it counts what the machines have said of themselves.
const FACTS_AGE: Duration = Duration::from_secs(60);
/// For how long it counts whether the cluster answers.
const ANSWER_AGE: Duration = Duration::from_secs(1);

/// Where collections are, by the names of their keyspaces.
pub(crate) enum Home {
    Here(Database),
    There(Box<Cluster>),
}

/// A cluster.
pub(crate) struct Cluster {
    collections: Arc<dyn RemoteDatabase>,
    /// The handles of collections, and when their catalogs were read.
    known: Mutex<HashMap<String, (Collection, Instant)>>,
    /// Whether nodes write to their disks before they acknowledge.
    syncs: Mutex<Option<(bool, Instant)>>,
    /// Whether the cluster answers.
    answers: Mutex<Option<(Result<()>, Instant)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Home {
    pub(crate) fn there(collections: Arc<dyn RemoteDatabase>) -> Self {
        let (known, syncs, answers) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self::There(Box::new(Cluster { collections, known, syncs, answers }))
    }

    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Here(_) => None,
            Self::There(cluster) => Some(cluster),
        }
    }

    /// Returns a collection if there is one.
    pub(crate) fn existing(&self, name: &str) -> Result<Option<Collection>> {
        match self {
            Self::Here(db) => db.space(name).existing().collection(),
            Self::There(cluster) => cluster.existing(name),
        }
    }

    /// Returns a collection, and creates it if there is none, with so many partitions.
    pub(crate) fn created(&self, name: &str, partitions: Option<u16>) -> Result<Collection> {
        match (self, partitions) {
            (Self::Here(db), None) => db.collection(name),
            (Self::Here(db), Some(partitions)) => {
                let options = KeyspaceOptions::new().routing(Routing::Hash(partitions));
                db.space(name).options(options).collection()
            }
            (Self::There(cluster), None) => cluster.created(name),
            (Self::There(_), Some(_)) => {
                Err(unsupported("a number of partitions", "a load, which chooses the buckets"))
            }
        }
    }

    /// Returns the names of all collections.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let Self::Here(db) = self else { return self.there_names() };
        let infos = db.keyspaces().into_iter();
        let documents = infos.filter(|info| info.content == "documents" && info.owner.is_none());
        Ok(documents.map(|info| info.name).collect())
    }

    fn there_names(&self) -> Result<Vec<String>> {
        self.cluster().map_or_else(|| Ok(Vec::new()), |cluster| cluster.collections.names())
    }

    /// Drops a collection. Returns whether there was one.
    pub(crate) fn drop_collection(&self, name: &str) -> Result<bool> {
        match self {
            Self::Here(db) => db.drop_keyspace(name),
            Self::There(cluster) => {
                let dropped = cluster.collections.drop_collection(name);
                lock(&cluster.known).remove(name);
                dropped
            }
        }
    }

    /// Lets the next call look at the catalog of a collection.
    pub(crate) fn look_again(&self, name: &str) {
        if let Self::There(cluster) = self {
            lock(&cluster.known).remove(name);
        }
    }

    /// Forgets all handles: one of them is of a collection that was dropped. Returns whether there
    /// are some to forget: in a database a name always leads to what has it now.
    pub(crate) fn forget(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::There(cluster) => {
                lock(&cluster.known).clear();
                true
            }
        }
    }
}

impl Cluster {
    fn existing(&self, name: &str) -> Result<Option<Collection>> {
        let known = lock(&self.known).get(name).cloned();
        if let Some((collection, looked)) = known {
            if looked.elapsed() < CATALOG_AGE {
                return Ok(Some(collection));
            }
            match self.note(name, collection) {
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    lock(&self.known).remove(name);
                }
                looked => return looked.map(Some),
            }
        }
        match self.collections.existing(name)? {
            Some(collection) => self.note(name, collection).map(Some),
            None => Ok(None),
        }
    }

    fn created(&self, name: &str) -> Result<Collection> {
        match self.existing(name)? {
            Some(collection) => Ok(collection),
            None => self.note(name, self.collections.collection(name)?),
        }
    }

    /// Reads the catalog of a collection, and keeps its handle.
    fn note(&self, name: &str, collection: Collection) -> Result<Collection> {
        let looked = Instant::now();
        if let Some(remote) = remote_of(&collection) {
            remote.refresh()?;
        }
        lock(&self.known).insert(name.to_owned(), (collection.clone(), looked));
        Ok(collection)
    }

    /// Returns what is known of the machines.
    pub(crate) fn facts(&self) -> Result<Value> {
        self.collections.facts()
    }

    /// Returns whether an acknowledged write survives a power cut of all machines: those that tell
    /// have `commitlog_sync` group or batch.
    pub(crate) fn syncs(&self) -> Result<bool> {
        let known = *lock(&self.syncs);
        if let Some((syncs, at)) = known
            && at.elapsed() < FACTS_AGE
        {
            return Ok(syncs);
        }
        let (facts, at) = (self.facts()?, Instant::now());
        let nodes = facts.get("nodes").and_then(Value::as_array).unwrap_or_default();
        // One that is down now has told nothing.
        let told = nodes.iter().filter_map(|node| node.get("commitlog_sync")?.as_str());
        let told: Vec<_> = told.collect();
        let syncs = !told.is_empty() && told.iter().all(|sync| matches!(*sync, "group" | "batch"));
        *lock(&self.syncs) = Some((syncs, at));
        Ok(syncs)
    }

    /// Asks the cluster for the collection `name`, at most once a second.
    ///
    /// # Errors
    /// Unavailable, if it does not answer.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        // Others wait: who asks often gets the answer of one.
        let mut answers = lock(&self.answers);
        match &*answers {
            Some((answer, at)) if at.elapsed() < ANSWER_AGE => answer.clone(),
            _ => {
                let answer = self.collections.existing(name).map(|_found| ());
                *answers = Some((answer.clone(), Instant::now()));
                answer
            }
        }
    }
}
