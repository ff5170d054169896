//! What the handles of a collection share of one index: its definition, and what its note says.

use super::definition::{Definition, FIELDS_MAX};
use super::entries::Seen;
use super::note::{self, Built, Status};
use super::statistics::{SAMPLED_MAX, Statistics};
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_doc::{Arrays, FieldPath};
use flagstone_engine::KeyspaceCore;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// The content of the keyspace of an index, in the catalog.
pub(crate) const CONTENT: &str = "index";

/// One index. The engine keeps it as the attachment of the index's keyspace.
pub(crate) struct IndexState {
    pub(crate) definition: Definition,
    /// The paths that decide which entries a document has.
    pub(crate) paths: Vec<FieldPath>,
    /// What the note says. Held while the note is changed, which writes to the manifest.
    status: Mutex<Status>,
    /// What was seen in documents, for writers, which take no lock: the bits of the arrays of each
    /// field ..
    arrays: [AtomicU64; FIELDS_MAX],
    /// .. and whether a component was cut.
    cut: AtomicBool,
    /// The SeqNo from which on readers may use the index; `u64::MAX` while there is none.
    usable_from: AtomicU64,
    /// Rises after more was seen in documents, and before they are written.
    premise: Arc<AtomicU64>,
    /// A call builds the index.
    is_building: AtomicBool,
    /// What a sample of the entries tells, once a query has asked. Held for the exchange alone.
    statistics: Mutex<Option<Arc<Statistics>>>,
    /// How many queries have read the index. Nothing rests on it.
    uses: AtomicU64,
}

/// One call builds an index, until this is dropped.
pub(crate) struct Building<'a>(&'a IndexState);

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.0.is_building.store(false, Ordering::Release);
    }
}

impl IndexState {
    /// Returns the state of the index `name` with this note.
    ///
    /// # Errors
    /// As [`note::decode`].
    pub(crate) fn open(name: &str, note: &[u8]) -> Result<Self> {
        let (definition, status) = note::decode(name, note)?;
        Ok(Self::of(definition, status))
    }

    /// As [`IndexState::open`], of an index that may have lost entries in a repair: it must be
    /// built again.
    ///
    /// # Errors
    /// As [`note::decode`].
    pub(crate) fn open_doubtful(name: &str, note: &[u8]) -> Result<Self> {
        let (definition, mut status) = note::decode(name, note)?;
        (status.usable_from, status.built) = (None, None);
        Ok(Self::of(definition, status))
    }

    fn of(definition: Definition, status: Status) -> Self {
        let state = Self {
            paths: definition.paths(),
            definition,
            status: Mutex::new(status.clone()),
            arrays: std::array::from_fn(|_| AtomicU64::new(0)),
            cut: AtomicBool::new(false),
            usable_from: AtomicU64::new(0),
            premise: Arc::default(),
            is_building: AtomicBool::new(false),
            statistics: Mutex::default(),
            uses: AtomicU64::new(0),
        };
        state.show(&status);
        state
    }

    fn show(&self, status: &Status) {
        for (shown, arrays) in self.arrays.iter().zip(status.seen.arrays) {
            shown.store(arrays.bits(), Ordering::Release);
        }
        self.cut.store(status.seen.cut, Ordering::Release);
        let usable_from = status.usable_from.map_or(u64::MAX, SeqNo::get);
        self.usable_from.store(usable_from, Ordering::Release);
    }

    /// Returns what was seen in documents. All of it is in the catalog.
    pub(crate) fn seen(&self) -> Seen {
        let arrays =
            std::array::from_fn(|at| Arrays::from_bits(self.arrays[at].load(Ordering::Acquire)));
        Seen { arrays, cut: self.cut.load(Ordering::Acquire) }
    }

    /// Returns the number of what plans rest on: it differs once more was seen.
    pub(crate) const fn premise(&self) -> &Arc<AtomicU64> {
        &self.premise
    }

    /// Returns where on the path of field number `field` an array was seen.
    pub(crate) fn arrays(&self, field: usize) -> Arrays {
        let bits = self.arrays.get(field).map(|bits| bits.load(Ordering::Acquire));
        bits.map_or(Arrays::ANY, Arrays::from_bits)
    }

    /// Returns whether a component was ever cut.
    pub(crate) fn has_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    /// Returns the SeqNo from which on readers may use the index; `None` while it is being built.
    pub(crate) fn usable_from(&self) -> Option<SeqNo> {
        match self.usable_from.load(Ordering::Acquire) {
            u64::MAX => None,
            seqno => Some(SeqNo::new(seqno)),
        }
    }

    /// Returns statistics of the entries in the tables of `core`, which holds them. They are taken
    /// again when the tables have changed.
    pub(crate) fn statistics(&self, core: &KeyspaceCore) -> Arc<Statistics> {
        let stamp = core.tables_stamp();
        if let Some(known) = self.statistics.lock().as_ref()
            && known.stamp() == stamp
        {
            return Arc::clone(known);
        }
        let keys = core.sampled_keys(SAMPLED_MAX).keys;
        let taken = Arc::new(Statistics::new(keys, stamp));
        *self.statistics.lock() = Some(Arc::clone(&taken));
        taken
    }

    /// Counts a query that reads the index.
    pub(crate) fn note_use(&self) {
        self.uses.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many queries have read the index since the database was opened.
    pub(crate) fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Returns the part of the build that is done, if the index is not complete.
    pub(crate) fn built(&self) -> Option<Built> {
        self.status.lock().built.clone()
    }

    /// Begins the build of the index.
    ///
    /// # Errors
    /// Busy while another call builds it.
    pub(crate) fn begin_build(&self) -> Result<Building<'_>> {
        if self.is_building.swap(true, Ordering::AcqRel) {
            let text = format!("index {:?} is being built by another call", self.definition.name);
            return Err(Error::new(ErrorKind::Busy, text));
        }
        Ok(Building(self))
    }

    /// Changes what the note says: durably by `store`, then for readers and writers.
    ///
    /// # Errors
    /// Those of `store`: nothing has changed then.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Status),
        store: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.change_locked(&mut self.status.lock(), change, store)
    }

    /// Notes that this was seen in documents that are about to be written. Returns the number of
    /// the premise before and after it.
    ///
    /// # Errors
    /// As [`IndexState::change`].
    pub(crate) fn note_seen(
        &self,
        seen: Seen,
        store: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<(u64, u64)> {
        let mut status = self.status.lock();
        let before = self.premise.load(Ordering::Acquire);
        let change = |status: &mut Status| status.seen = status.seen.with(seen);
        self.change_locked(&mut status, change, store)?;
        Ok((before, self.premise.load(Ordering::Acquire)))
    }

    fn change_locked(
        &self,
        status: &mut Status,
        change: impl FnOnce(&mut Status),
        store: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut next = status.clone();
        change(&mut next);
        if next != *status {
            store(&note::encode(&self.definition, &next)?)?;
            self.show(&next);
            if next.seen != status.seen {
                self.premise.fetch_add(1, Ordering::AcqRel);
            }
            *status = next;
        }
        Ok(())
    }
}

/// Returns the index that the keyspace `core` holds, if it holds one.
pub(crate) fn index_of(core: &KeyspaceCore) -> Option<&IndexState> {
    core.attachment().downcast_ref()
}
