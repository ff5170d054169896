//! The manifest of an open database, and what every edit of it brings along and changes.
//!
//! ```text
//! catalog change, grant, install --edit + how far history is + definitions that are due--> manifest --> what it grants
//! ```

use crate::ballast::Ballast;
use crate::catalog::KeyspaceRecord;
use crate::health::Health;
use crate::history::History;
use crate::keyspaces::Keyspaces;
use crate::manifest::{Edit, Manifest};
use crate::setup::Setup;
use crate::space::KeyspaceCore;
use flagstone_base::{KeyspaceId, Moment, Result, SeqNo};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_wal::ManifestPlace;
use std::collections::BTreeSet;
use std::sync::Arc;

/// So many SeqNos are granted at a time: seconds of the fastest writes, and 2^32 crashes until none are left.
pub(crate) const SEQNOS_AHEAD: u64 = 1 << 24;

/// The ceiling that grants [`SEQNOS_AHEAD`] numbers after `last`.
pub(crate) fn ceiling_above(last: SeqNo) -> SeqNo {
    SeqNo::new(last.get().saturating_add(SEQNOS_AHEAD).min(SeqNo::MAX.get()))
}

/// Where edits go.
pub(crate) struct Edits {
    pub(crate) setup: Arc<Setup>,
    pub(crate) health: Arc<Health>,
    pub(crate) history: Arc<History>,
    pub(crate) ballast: Arc<Ballast>,
    pub(crate) keyspaces: Arc<Keyspaces>,
    /// None when the database is closed, or open for reading only.
    pub(crate) manifest: Mutex<Option<Manifest>>,
    /// An append of the manifest failed and no later one has succeeded: its tables must stay.
    in_doubt: AtomicBool,
    /// Keyspaces with definitions that are in the log, and perhaps not in the manifest. Taken before the maps of the
    /// keyspaces.
    definitions_due: Mutex<BTreeSet<KeyspaceId>>,
    /// From this SeqNo on more should be granted.
    raise_at: AtomicU64,
    /// A job has the manifest grant more, or waits to try again.
    pub(crate) is_supplying: AtomicBool,
}

impl Edits {
    pub(crate) fn new(
        health: &Arc<Health>,
        history: &Arc<History>,
        (setup, ballast): (&Arc<Setup>, &Arc<Ballast>),
        keyspaces: &Arc<Keyspaces>,
        manifest: Option<Manifest>,
    ) -> Arc<Self> {
        let edits = Self {
            setup: Arc::clone(setup),
            health: Arc::clone(health),
            history: Arc::clone(history),
            ballast: Arc::clone(ballast),
            keyspaces: Arc::clone(keyspaces),
            manifest: Mutex::new(manifest),
            in_doubt: AtomicBool::new(false),
            definitions_due: Mutex::new(with_definitions_due(keyspaces)),
            raise_at: AtomicU64::new(0),
            is_supplying: AtomicBool::new(false),
        };
        if let Some(manifest) = &*edits.manifest.lock() {
            edits.note_granted(manifest);
        }
        Arc::new(edits)
    }

    /// Appends an edit of the catalog, or one that grants something.
    pub(crate) fn append(&self, manifest: &mut Manifest, edit: Edit) -> Result<()> {
        let last_seqno = Some(self.history.visible());
        let edit = Edit { last_seqno, moment: self.moment(), ..edit };
        let appended = manifest.append(&edit);
        self.note_doubt(manifest);
        appended.inspect_err(|error| self.ballast.note_failure(error))
    }

    /// Appends an edit that [`Edits::edit_of_now`] has begun.
    pub(crate) fn append_whole(&self, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
        let appended = manifest.append(edit);
        self.note_doubt(manifest);
        appended
    }

    /// An append of the manifest failed and no later one has succeeded.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Acquire)
    }

    /// What the manifest grants after an append, and whether one failed and no later one has succeeded. When one has, refused
    /// drops of keyspaces cannot come back any more.
    fn note_doubt(&self, manifest: &Manifest) {
        self.note_granted(manifest);
        let is_in_doubt = manifest.is_in_doubt();
        if self.in_doubt.swap(is_in_doubt, Ordering::AcqRel) && !is_in_doubt {
            self.keyspaces.all().iter().for_each(|keyspace| keyspace.end_doubt());
        }
    }

    /// If an append to the manifest failed: begins a new file, in which the refused edit is not.
    pub(crate) fn end_doubt(&self) {
        if !self.is_in_doubt() {
            return;
        }
        if let Some(manifest) = self.manifest.lock().as_mut() {
            self.end_doubt_of(manifest);
        }
    }

    /// As [`Edits::end_doubt`], for the manifest whose lock is held.
    pub(crate) fn end_doubt_of(&self, manifest: &mut Manifest) {
        let edit = self.edit_of_now(std::iter::empty());
        match self.append_whole(manifest, &edit) {
            Ok(()) => self.note_definitions(&edit),
            Err(error) => self.ballast.note_failure(&error),
        }
    }

    /// What every edit says besides its own: how far history and file numbers have come, and the definitions that values in
    /// the tables may use, or that are only in a part of the log which may be released now: those of the keyspaces
    /// `installed`, and of all others that have logged some.
    pub(crate) fn edit_of_now(&self, installed: impl Iterator<Item = KeyspaceId>) -> Edit {
        let last_seqno = Some(self.history.visible());
        let mut defining = self.definitions_due.lock().clone();
        defining.extend(installed);
        let defining = defining.into_iter().filter_map(|id| self.keyspaces.get(id));
        Edit {
            last_seqno,
            definitions: defining.flat_map(|keyspace| keyspace.definitions_due()).collect(),
            seqno_ceiling: self.raise_due(),
            moment: self.moment(),
            ..Edit::default()
        }
    }

    /// How far the clock by which entries expire has come, if any does.
    fn moment(&self) -> Option<Moment> {
        let clock = &self.history.clock;
        clock.is_used().then(|| clock.safe())
    }

    /// Makes it durable that entries of `keyspace` may have an expiry. Called before the first one is numbered.
    ///
    /// # Errors
    /// InvalidInput for a keyspace that was dropped; OutOfSpace, Io, Closed.
    #[cold]
    pub(crate) fn set_expires(&self, keyspace: &Arc<KeyspaceCore>) -> Result<()> {
        let mut room = self.manifest.lock();
        let Some(manifest) = room.as_mut() else { return Err(self.setup.closed()) };
        if keyspace.expires() {
            return Ok(());
        }
        keyspace.check_not_dropped()?;
        let record = KeyspaceRecord { expires: true, ..(*keyspace.record()).clone() };
        // If it is refused and a crash brings it back, nothing has an expiry yet all the same.
        self.append(manifest, Edit { keyspaces_altered: vec![record], ..Edit::default() })?;
        // Before readers can see an entry that expires: they keep a moment from now on.
        self.history.clock.set_used();
        if let Some(record) = manifest.state().catalog.by_id(keyspace.id) {
            self.keyspaces.replace_record(keyspace, record);
        }
        Ok(())
    }

    /// The manifest has the definitions of `edit`.
    pub(crate) fn note_definitions(&self, edit: &Edit) {
        for definition in &edit.definitions {
            if let Some(keyspace) = self.keyspaces.get(definition.keyspace) {
                keyspace.note_in_manifest(definition);
            }
        }
        // One that is defined from now on is noted after this lock is released.
        let is_due =
            |id: &KeyspaceId| self.keyspaces.get(*id).is_some_and(|k| k.has_definitions_due());
        self.definitions_due.lock().retain(is_due);
    }

    /// Definitions of `keyspace` go to the log, under the numbering lock.
    #[cold]
    pub(crate) fn note_definitions_due(&self, keyspace: KeyspaceId) {
        self.definitions_due.lock().insert(keyspace);
    }

    /// Whether the SeqNos granted are half used when `last` is the newest one given.
    #[inline]
    pub(crate) fn is_raise_due(&self, last: SeqNo) -> bool {
        last.get() >= self.raise_at.load(Ordering::Relaxed)
    }

    /// The raise that an edit should bring along, if one is due.
    fn raise_due(&self) -> Option<SeqNo> {
        let last = self.history.visible();
        self.is_raise_due(last).then(|| ceiling_above(last))
    }

    /// Takes over what the manifest grants.
    fn note_granted(&self, manifest: &Manifest) {
        let ceiling = manifest.state().seqno_ceiling;
        let mut numbering = self.history.numbering.lock();
        numbering.ceiling = ceiling;
        let half = ceiling.get().saturating_sub(SEQNOS_AHEAD / 2);
        self.raise_at.store(half, Ordering::Relaxed);
        drop(numbering);
        if let Some(log) = &self.history.log {
            log.note_manifest(ManifestPlace { number: manifest.number(), end: manifest.bytes() });
        }
    }

    /// How many keyspaces have definitions that may be in the log alone.
    #[cfg(test)]
    pub(crate) fn keyspaces_defining(&self) -> usize {
        self.definitions_due.lock().len()
    }
}

/// The keyspaces with definitions that a recovery has found in the log alone.
fn with_definitions_due(keyspaces: &Keyspaces) -> BTreeSet<KeyspaceId> {
    let all = keyspaces.all();
    all.iter()
        .filter(|keyspace| keyspace.has_definitions_due())
        .map(|keyspace| keyspace.id)
        .collect()
}
