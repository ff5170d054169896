//! A cluster, and its collections by name.

use crate::catalog::{Generation, NUMBERS, Note, State, alter, check_name, next_number, read};
use crate::ground::{Ground, begun, drop_rows};
use crate::layout::{BUCKETS_MAX, Layout};
use crate::remote::RemoteCollection;
use crate::scratch::ScratchDir;
use crate::store::{Freshness, Store};
use flagstone::admin::Environment;
use flagstone::doc::Map;
use flagstone::internal::{RemoteDatabase, remote_collection};
use flagstone::remote::Remote;
use flagstone::{Collection, Database, Value};
use flagstone_base::{Error, Result};
use flagstone_env::{Random, SystemRandom};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The least buckets of a new collection, and for how many bytes one is.
const BUCKETS_MIN: u32 = 16;
const BUCKET_BYTES: u64 = 100 << 20;

/// A cluster of machines that stores collections.
///
/// The handles of its collections have the calls of an embedded database's. What one machine
/// promises and a cluster cannot, they refuse as Unsupported: snapshots, transactions, batches over
/// several documents, the change feed.
///
/// Its calls block. It can be shared between threads, and should be: writes of one process are
/// combined.
pub struct Cluster {
    store: Arc<dyn Store>,
    environment: Environment,
    /// An empty database, in whose directory queries spill.
    scratch: Option<Database>,
    scratch_dir: Arc<ScratchDir>,
    /// The collections that were used, by their names.
    known: Mutex<HashMap<String, Arc<RemoteCollection>>>,
}

impl Cluster {
    /// Connects to a keyspace of Cassandra by an address such as
    /// `cql://user:password@host1,host2:9042/shop?rf=3`. The keyspace and its tables are created if
    /// they are not there, with `rf` copies of each row in each data centre, by default 3.
    ///
    /// `home=NAME` makes a data centre the home of a keyspace that is created: all clients send
    /// requests to its nodes and wait for a quorum of them alone (LOCAL_QUORUM, LOCAL_SERIAL). The
    /// other data centres get the writes later. Without a home a quorum is of all copies.
    ///
    /// # Errors
    /// InvalidInput for an address of another form, a keyspace of another program, with another
    /// number of copies or another home, or a wrong password; Unavailable if no node can be
    /// reached; Unsupported for a Cassandra older than 5.0, or the tables of a newer flagstone; Io
    /// if a directory for spill files cannot be made.
    #[cfg(feature = "cql")]
    pub fn connect(address: &str) -> Result<Self> {
        Self::over(Arc::new(crate::cql::Cql::connect(address)?))
    }

    /// Returns the cluster of a store. Queries spill to the system's directory for temporary files.
    ///
    /// # Errors
    /// Io if a directory for spill files cannot be made.
    #[doc(hidden)]
    pub fn over(store: Arc<dyn Store>) -> Result<Self> {
        Self::over_with(store, Environment::default(), &std::env::temp_dir())
    }

    /// As [`Cluster::over`], with other clocks, and a directory in which one for spill files is
    /// made.
    ///
    /// # Errors
    /// As [`Cluster::over`].
    #[doc(hidden)]
    pub fn over_with(
        store: Arc<dyn Store>,
        environment: Environment,
        scratch: &Path,
    ) -> Result<Self> {
        let (process, number) = (std::process::id(), SystemRandom.next_u64());
        let dir = scratch.join(format!("flagstone-{process}-{number:016x}"));
        let scratch_dir = Arc::new(ScratchDir::create(dir)?);
        let scratch = Some(Database::open(scratch_dir.path())?);
        Ok(Self { store, environment, scratch, scratch_dir, known: Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<RemoteCollection>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a handle of a collection, which is created if there is none.
    ///
    /// # Errors
    /// InvalidInput for a name that no collection can have; Unavailable, Corruption, Closed.
    pub fn collection(&self, name: &str) -> Result<Collection> {
        self.collection_sized(name, 0)
    }

    /// As [`Cluster::collection`]: one that is created is for about this many bytes of documents.
    /// It has a bucket for each 100 MB of them, from 16 to 4,096. A query reads from all buckets,
    /// so many of them cost time; buckets that are much larger are slow in Cassandra.
    ///
    /// # Errors
    /// As [`Cluster::collection`].
    pub fn collection_sized(&self, name: &str, bytes: u64) -> Result<Collection> {
        check_name(name)?;
        let buckets = u32::try_from(bytes.div_ceil(BUCKET_BYTES)).unwrap_or(BUCKETS_MAX);
        let buckets = buckets.clamp(BUCKETS_MIN, BUCKETS_MAX).next_power_of_two();
        let (version, note) = self.created(name, buckets)?;
        let remote = match self.known().get(name) {
            Some(known) if known.id() == note.id as u32 => Some(Arc::clone(known)),
            _ => None,
        };
        let remote = match remote {
            Some(remote) => remote,
            None => self.opened(name, version, note)?,
        };
        let scratch = self.scratch()?;
        Ok(remote_collection(remote, scratch))
    }

    /// Returns a handle of a collection, if there is one.
    ///
    /// # Errors
    /// As [`Cluster::collection`].
    pub fn existing(&self, name: &str) -> Result<Option<Collection>> {
        check_name(name)?;
        let known = read(&*self.store, name, Freshness::Serial)?;
        match known.filter(|(_, note)| note.is_there()) {
            // One that is dropped in between is created again, empty, as by a later call.
            Some(_) => self.collection(name).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the empty database in whose directory queries spill. Its `commit` takes batches of
    /// documents that were parsed for collections of the cluster.
    ///
    /// # Errors
    /// Closed.
    #[doc(hidden)]
    pub fn scratch(&self) -> Result<&Database> {
        self.scratch.as_ref().ok_or_else(closed)
    }

    /// Returns what is known of the cluster: its nodes, how many copies there are of each row, and
    /// what an acknowledged write survives.
    ///
    /// # Errors
    /// Unavailable, Closed.
    pub fn facts(&self) -> Result<Value> {
        self.store.facts()
    }

    /// Returns how a collection is laid out, if there is one: its number of buckets, whether they
    /// are by the `hash` or by `ranges` of keys, the bytes that they are for, and about how many
    /// bytes each of them has.
    ///
    /// # Errors
    /// As [`Cluster::existing`].
    pub fn layout(&self, name: &str) -> Result<Option<Map>> {
        if self.existing(name)?.is_none() {
            return Ok(None);
        }
        let remote = self.known().get(name).map(Arc::clone);
        let Some(remote) = remote else { return Ok(None) };
        let (layout, bytes) = remote.layout()?;
        let (buckets, by) = match layout {
            Layout::Hash(buckets) => (buckets, "hash"),
            Layout::Ranges(buckets) => (buckets, "ranges"),
        };
        let mut map = Map::new();
        map.insert("buckets", buckets);
        map.insert("buckets_by", by);
        map.insert("bucket_bytes", bytes);
        map.insert("bytes_for_buckets", u64::from(buckets) * BUCKET_BYTES);
        Ok(Some(map))
    }

    /// Returns the collection of a note. Two threads get the same one.
    fn opened(&self, name: &str, version: i64, note: Note) -> Result<Arc<RemoteCollection>> {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.environment.clock));
        let id = note.id as u32;
        let ground = Ground::new(store, clock, name, version, note)?;
        drop(ground.look()?);
        let mut known = self.known();
        if let Some(known) = known.get(name).filter(|known| known.id() == id) {
            return Ok(Arc::clone(known));
        }
        let remote = Arc::new(RemoteCollection::new(ground, &self.scratch_dir));
        known.insert(name.to_owned(), Arc::clone(&remote));
        Ok(remote)
    }

    /// Returns the note of a collection, which is created if there is none.
    fn created(&self, name: &str, buckets: u32) -> Result<(i64, Note)> {
        let store = &*self.store;
        loop {
            match read(store, name, Freshness::Serial)? {
                Some((version, note)) if note.is_there() => return Ok((version, note)),
                Some((_, note)) if note.state == State::Dropping => self.end(name, &note)?,
                _ => {
                    let id = next_number(store)?;
                    // If another call creates it meanwhile, it is that one.
                    alter(store, name, &mut |note| {
                        // One of this number was created by this call, and is dropped since.
                        let is_past = |note: &Note| note.state == State::Dropped && note.id < id;
                        let is_free = note.is_none_or(is_past);
                        Ok(is_free.then(|| Note::new(id, SystemRandom.next_u64(), buckets)))
                    })?;
                }
            }
        }
    }

    /// Divides a collection into other buckets, while others read and write it. `watch` is called
    /// with the number of documents that are copied.
    ///
    /// All documents are copied, and those that are written meanwhile again; then one conditional
    /// write puts the copy in the place of the original. Readers and writers wait while the old
    /// buckets are closed, some milliseconds for each, and the last documents are copied: at most
    /// about 5,000. Whatever fails, either of them is complete. A call that has failed, or was
    /// ended by `Break`, is continued by the next one with the same layout; one with the layout
    /// that the collection has gives it up. Until then each write costs a row more, and indexes
    /// cannot be changed.
    ///
    /// The bounds of ranges are chosen when the move begins, by a sample of the keys. If the
    /// collection has that many ranges already, it gets new bounds only if one range has twice its
    /// share of the documents; such a move can only be completed.
    ///
    /// # Errors
    /// InvalidInput for a number of buckets that is not allowed, for a collection that is not
    /// there, and if the keys allow no such ranges: too few of them differ in their first 256
    /// bytes, or the bounds exceed 128 KiB; Busy while an index is being built, while the
    /// collection gets another layout, and if documents are written as fast as they are copied;
    /// Conflict if another call has given it up; Unavailable, Corruption, Closed.
    pub fn rebalance(
        &self,
        name: &str,
        layout: Layout,
        mut watch: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        check_name(name)?;
        layout.check()?;
        let known = read(&*self.store, name, Freshness::Serial)?;
        let known = known.filter(|(_, note)| note.is_there());
        let (version, note) = known.ok_or_else(|| {
            Error::invalid(format!("there is no collection {name:?} in the cluster"))
        })?;
        self.opened(name, version, note)?.rebalance(layout, &mut watch)
    }

    /// Returns the names of all collections, sorted.
    ///
    /// # Errors
    /// Unavailable, Corruption, Closed.
    pub fn collections(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for (name, record) in self.store.notes()? {
            if name != NUMBERS && Note::decode(&name, &record.note)?.is_there() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Drops a collection with its documents and indexes. Returns false if there is none. Its
    /// handles, in all processes, then fail with InvalidInput.
    ///
    /// # Errors
    /// Unavailable, Unknown, Corruption, Closed. The collection may be dropped nevertheless, and
    /// some of its rows be left: the next call with the name removes them.
    pub fn drop_collection(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        // If an answer is lost, another collection may have the name before this call asks again.
        let mut dropped = None;
        let altered = alter(&*self.store, name, &mut |note| {
            let Some(note) = note.filter(|note| note.is_there()) else { return Ok(None) };
            if *dropped.get_or_insert(note.id) != note.id {
                return Ok(None);
            }
            let mut dropping = note.clone();
            let others = note.next().into_iter().chain(&note.claims);
            dropping.replaced.extend(others.map(Generation::replaced));
            dropping.claims = None;
            dropping.state = State::Dropping;
            Ok(Some(dropping))
        })?;
        self.known().remove(name);
        match altered {
            Some((_, note)) if note.state == State::Dropping => {
                self.end(name, &note).map_err(|error| {
                    let text = format!(
                        "collection {name:?} is dropped, and some of its rows are left: the next \
                         call with the name removes them"
                    );
                    begun(&text, error)
                })?;
            }
            _ => {}
        }
        Ok(dropped.is_some())
    }

    /// Removes all rows of a collection that is being dropped.
    fn end(&self, name: &str, dropping: &Note) -> Result<()> {
        let store = &*self.store;
        let rows = dropping.rows.replaced();
        for generation in std::iter::once(&rows).chain(&dropping.replaced) {
            drop_rows(store, name, *generation)?;
        }
        alter(store, name, &mut |note| {
            let is_it = |note: &&Note| note.id == dropping.id && note.state == State::Dropping;
            let dropped = |note: &Note| Note {
                state: State::Dropped,
                indexes: Vec::new(),
                dropped_indexes: Vec::new(),
                replaced: Vec::new(),
                ..note.clone()
            };
            Ok(note.filter(is_it).map(dropped))
        })?;
        Ok(())
    }

    /// Ends the connections. Handles of collections fail with Closed from then on.
    ///
    /// # Errors
    /// Io, if the directory for spill files fails.
    pub fn close(self) -> Result<()> {
        RemoteDatabase::close(&self)
    }
}

impl RemoteDatabase for Cluster {
    fn existing(&self, name: &str) -> Result<Option<Collection>> {
        Self::existing(self, name)
    }

    fn collection(&self, name: &str) -> Result<Collection> {
        Self::collection(self, name)
    }

    fn names(&self) -> Result<Vec<String>> {
        self.collections()
    }

    fn drop_collection(&self, name: &str) -> Result<bool> {
        Self::drop_collection(self, name)
    }

    fn facts(&self) -> Result<Value> {
        Self::facts(self)
    }

    fn scratch(&self) -> Result<Database> {
        Self::scratch(self).cloned()
    }

    fn close(&self) -> Result<()> {
        self.store.close();
        let closed = self.scratch.clone().map_or(Ok(()), Database::close);
        self.scratch_dir.remove();
        closed
    }
}

#[cold]
fn closed() -> Error {
    Error::new(flagstone_base::ErrorKind::Closed, "the cluster was closed: connect again")
}
