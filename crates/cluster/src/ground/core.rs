//! The store of a collection, and what is known of its note.

use crate::backoff::Backoff;
use crate::catalog::{self, Generation, Note, State};
use crate::sizes::Sizes;
use crate::store::{
    Change, Freshness, Partition, Record, RowKey, Rows, RowsRequest, Store, StoredRow, Token,
};
use flagstone::remote::{Catalog, RemoteIndex};
use flagstone_base::{Error, ErrorKind, Moment, Result, Slice};
use flagstone_env::Clock;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// How often an epoch, or a copy of rows, is tried.
pub(super) const TRIES: u32 = 200;

/// A note of a collection, decoded. Never changes: a newer one replaces it.
pub(crate) struct View {
    pub(crate) version: i64,
    pub(crate) note: Note,
    pub(crate) catalog: Arc<Catalog>,
}

/// A collection.
pub(crate) struct Ground {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) name: String,
    pub(crate) id: i32,
    /// Of its documents.
    pub(crate) sizes: Sizes,
    newest: RwLock<Arc<View>>,
    /// When the note was last read, by the monotonic clock.
    pub(super) looked: Mutex<Duration>,
    /// Held while a change of the generation is completed: others of this process wait for it.
    pub(super) completing: Mutex<()>,
}

impl View {
    fn new(version: i64, note: Note) -> Result<Self> {
        let index = |index: &catalog::Index| -> Result<_> {
            Ok(Arc::new(RemoteIndex::new(index.id, &index.name, &index.note)?))
        };
        let indexes = note.indexes.iter().map(index).collect::<Result<_>>()?;
        let catalog = Arc::new(Catalog::new(version as u64, indexes));
        Ok(Self { version, note, catalog })
    }

    /// Returns the number of the bucket of a document.
    pub(crate) fn bucket_of(&self, key: &[u8]) -> u32 {
        self.note.rows.buckets.bucket_of(key)
    }

    pub(crate) const fn partition(&self, bucket: u32) -> Partition {
        self.note.rows.partition(bucket)
    }

    pub(crate) const fn is_being_cleared(&self) -> bool {
        matches!(self.note.state, State::Clearing(_))
    }

    pub(crate) fn has_index(&self, id: u32) -> bool {
        self.note.indexes.iter().any(|index| index.id == id)
    }

    /// Returns what a batch that gives a row this token must also set while rows are copied.
    pub(crate) fn noted(&self, row: &RowKey, token: Token) -> Option<Change> {
        self.note.next().map(|_| {
            let (key, value) = (row.key.clone(), Slice::EMPTY);
            let changed = StoredRow { key, value, token: Some(token), expiry: None };
            Change::Set { kind: row.kind.changed(self.note.epoch), row: changed }
        })
    }
}

/// Returns how errors call a bucket.
pub(crate) fn place(name: &str, partition: Partition) -> String {
    let Partition { generation, bucket } = partition;
    format!("collection {name:?} (table rows, c = {generation}, b = {bucket})")
}

impl Ground {
    /// Returns the collection of a note that is there.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        name: &str,
        version: i64,
        note: Note,
    ) -> Result<Self> {
        let id = note.id;
        let newest = RwLock::new(Arc::new(View::new(version, note)?));
        let (name, sizes) = (name.to_owned(), Sizes::default());
        let looked = Mutex::new(clock.monotonic());
        Ok(Self { store, clock, name, id, sizes, newest, looked, completing: Mutex::default() })
    }

    /// Returns what is known of the note.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.newest.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the note again.
    ///
    /// # Errors
    /// InvalidInput if the collection was dropped.
    pub(super) fn reread(&self, freshness: Freshness) -> Result<Arc<View>> {
        let (known, now) = (self.view(), self.clock.monotonic());
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let is_known = |version: i64| version <= known.version;
        // Queries ask each time. Bounds of buckets take long to send.
        if known.note.rows.buckets.are_ranges()
            && self.store.version(&self.name, freshness)?.is_some_and(is_known)
        {
            return Ok(known);
        }
        let record = self.store.note(&self.name, freshness)?;
        // They take long to decode, too.
        if record.as_ref().is_some_and(|record| is_known(record.version)) {
            return Ok(known);
        }
        let decode = |record: Record| -> Result<_> {
            Ok((record.version, Note::decode(&self.name, &record.note)?))
        };
        self.install(record.map(decode).transpose()?)
    }

    /// Changes the note as [`catalog::alter`] does. `change` returns whether it has changed it.
    ///
    /// # Errors
    /// InvalidInput if the collection was dropped; as [`catalog::alter`].
    pub(crate) fn alter(
        &self,
        change: &mut dyn FnMut(&mut Note) -> Result<bool>,
    ) -> Result<Arc<View>> {
        let altered = catalog::alter(&*self.store, &self.name, &mut |note| {
            let mut note = self.mine(note.cloned())?;
            Ok(change(&mut note)?.then_some(note))
        })?;
        self.install(altered)
    }

    /// Returns a note if it is one of this collection.
    fn mine(&self, note: Option<Note>) -> Result<Note> {
        note.filter(|note| note.id == self.id && note.is_there()).ok_or_else(|| {
            Error::invalid(format!("collection {:?} was dropped from the cluster", self.name))
        })
    }

    fn install(&self, read: Option<(i64, Note)>) -> Result<Arc<View>> {
        let version = read.as_ref().map_or(0, |(version, _)| *version);
        let mut note = self.mine(read.map(|(_, note)| note))?;
        let known = self.view();
        if version <= known.version {
            return Ok(known);
        }
        if note.rows.buckets == known.note.rows.buckets {
            // So that they are found equal without a look at their bounds.
            note.rows.buckets = known.note.rows.buckets.clone();
        }
        let view = Arc::new(View::new(version, note)?);
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        if newest.version < version {
            *newest = view;
        }
        Ok(Arc::clone(&newest))
    }

    /// Unites notes of indexes with those of the catalog, before documents are written that need
    /// them.
    pub(crate) fn unite(&self, notes: &[(u32, Vec<u8>)]) -> Result<Arc<View>> {
        self.alter(&mut |note| {
            let mut is_changed = false;
            for (id, seen) in notes {
                let Some(index) = note.indexes.iter_mut().find(|index| index.id == *id) else {
                    continue;
                };
                let united = RemoteIndex::new(index.id, &index.name, &index.note)?.united(seen)?;
                is_changed |= united != index.note;
                index.note = united;
            }
            Ok(is_changed)
        })
    }

    /// Returns the generation of the claims of a collection that has a unique index.
    pub(crate) fn claims(&self, view: &View) -> Result<Generation> {
        view.note.claims.clone().ok_or_else(|| {
            let (name, text) = (&self.name, "has a unique index and no place for its values");
            Error::new(ErrorKind::Corruption, format!("collection {name:?} (table catalog) {text}"))
        })
    }

    /// Reads rows of several partitions.
    pub(crate) fn rows_of(&self, requests: &[RowsRequest]) -> Result<Vec<Rows>> {
        let answers = self.store.rows(requests);
        if answers.len() != requests.len() {
            return Err(no_answer());
        }
        answers.into_iter().collect()
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::since_1970(self.clock.wall())
    }
}

/// Reads the epoch of a partition, in the order of serial calls.
pub(super) fn epoch_of(store: &dyn Store, partition: Partition) -> Result<Option<i32>> {
    let (keys, freshness) = (Vec::new(), Freshness::Serial);
    let mut read = store.rows(&[RowsRequest { partition, keys, freshness }]);
    Ok(read.pop().ok_or_else(no_answer)??.epoch)
}

/// Sets the epoch of a partition, unless `is_done` holds for the one that it has. Returns false if
/// others change it again and again.
pub(super) fn set_epoch(
    store: &dyn Store,
    partition: Partition,
    epoch: i32,
    is_done: impl Fn(Option<i32>) -> bool,
) -> Result<bool> {
    let mut backoff = Backoff::of(TRIES);
    loop {
        // Read until it is found: an answer may be lost.
        let set = epoch_of(store, partition).and_then(|found| {
            if is_done(found) {
                return Ok(true);
            }
            store.set_epoch(partition, found, epoch).map(|_outcome| false)
        });
        match set {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if error.kind() == ErrorKind::Unknown => {}
            Err(error) => return Err(error),
        }
        if !backoff.again() {
            return Ok(false);
        }
    }
}

/// The error of a store that answers fewer requests than it got.
#[cold]
pub(crate) fn no_answer() -> Error {
    Error::new(ErrorKind::Unavailable, "the store has left a request without an answer")
}
