//! The manifest of an open database, and what every edit adds to it and changes.
//!
//! ```text
//! catalog change, grant, install
//!     --edit + visible SeqNo, moment, definitions due--> manifest --> granted SeqNos and files
//! ```

use crate::ballast::Ballast;
use crate::catalog::KeyspaceRecord;
use crate::keyspace_core::KeyspaceCore;
use crate::keyspaces::Keyspaces;
use crate::manifest::{Edit, Manifest};
use flagstone_base::sorted::SortedSet;
use flagstone_base::{KeyspaceId, Moment, Result, SeqNo};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_wal::ManifestPlace;
use std::sync::Arc;

/// The number of SeqNos granted at a time: seconds of the fastest writes, and 2^32 crashes until
/// none are left.
pub(crate) const SEQNOS_AHEAD: u64 = 1 << 24;

/// The ceiling that grants [`SEQNOS_AHEAD`] SeqNos after `last`.
pub(crate) fn ceiling_above(last: SeqNo) -> SeqNo {
    SeqNo::new(last.get().saturating_add(SEQNOS_AHEAD).min(SeqNo::MAX.get()))
}

/// Appends edits to the manifest, and acts on what they grant.
pub(crate) struct Edits {
    pub(crate) ballast: Arc<Ballast>,
    pub(crate) keyspaces: Arc<Keyspaces>,
    /// `None` when the database is closed, or open for reading only.
    pub(crate) manifest: Mutex<Option<Manifest>>,
    /// An append to the manifest has failed, and no later one has succeeded: the tables of the edit
    /// must stay.
    in_doubt: AtomicBool,
    /// Keyspaces with definitions that are in the log and may not be in the manifest. Locked before
    /// the maps of the keyspaces.
    definitions_due: Mutex<SortedSet<KeyspaceId>>,
    /// From this SeqNo on more should be granted.
    raise_at: AtomicU64,
    /// A job lets the manifest grant more, or waits to try again.
    pub(crate) is_supplying: AtomicBool,
}

impl Edits {
    pub(crate) fn new(
        ballast: &Arc<Ballast>,
        keyspaces: &Arc<Keyspaces>,
        manifest: Option<Manifest>,
    ) -> Arc<Self> {
        let edits = Self {
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
        let last_seqno = Some(self.ballast.history.visible());
        let edit = Edit { last_seqno, moment: self.moment(), ..edit };
        let appended = manifest.append(&edit);
        self.note_doubt(manifest);
        appended.inspect_err(|error| self.ballast.note_failure(error))
    }

    /// Appends an edit that was begun by [`Edits::edit_of_now`].
    pub(crate) fn append_whole(&self, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
        let appended = manifest.append(edit);
        self.note_doubt(manifest);
        appended
    }

    /// Begins a new manifest file now if an edit of `bytes` would make the file too long.
    pub(crate) fn roll_before(&self, manifest: &mut Manifest, bytes: u64) {
        manifest.roll_before(bytes);
        self.note_doubt(manifest);
    }

    /// Returns whether an append to the manifest has failed and no later one has succeeded.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Acquire)
    }

    /// Takes over what the manifest grants after an append, and whether the manifest is in doubt.
    /// When the doubt has ended, refused drops of keyspaces cannot come back.
    fn note_doubt(&self, manifest: &Manifest) {
        self.note_granted(manifest);
        let is_in_doubt = manifest.is_in_doubt();
        if self.in_doubt.swap(is_in_doubt, Ordering::AcqRel) && !is_in_doubt {
            self.keyspaces.all().iter().for_each(|keyspace| keyspace.end_doubt());
        }
    }

    /// Starts a new manifest without the refused edit, if an append has failed.
    pub(crate) fn end_doubt(&self) {
        if !self.is_in_doubt() {
            return;
        }
        if let Some(manifest) = self.manifest.lock().as_mut() {
            self.end_doubt_of(manifest);
        }
    }

    /// Like [`Edits::end_doubt`], for the manifest whose lock is held.
    pub(crate) fn end_doubt_of(&self, manifest: &mut Manifest) {
        let edit = self.edit_of_now(std::iter::empty());
        match self.append_whole(manifest, &edit) {
            Ok(()) => self.note_definitions(&edit),
            Err(error) => self.ballast.note_failure(&error),
        }
    }

    /// The fields that every edit has besides its own: the visible SeqNo, the clock, SeqNos if they
    /// run short, and definitions. The definitions are those that values in the tables may use, or
    /// that are only in a part of the log that may be released now: those of the keyspaces
    /// `installed`, and of all others that have logged some.
    pub(crate) fn edit_of_now(&self, installed: impl Iterator<Item = KeyspaceId>) -> Edit {
        let last_seqno = Some(self.ballast.history.visible());
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

    /// The moment of the clock by which entries expire, if any entry does.
    fn moment(&self) -> Option<Moment> {
        let clock = &self.ballast.history.clock;
        clock.is_used().then(|| clock.safe())
    }

    /// Makes it durable that entries of `keyspace` may have an expiry. Called before the first such
    /// entry gets its number.
    ///
    /// # Errors
    /// InvalidInput for a keyspace that was dropped; OutOfSpace, Io, Closed.
    #[cold]
    pub(crate) fn set_expires(&self, keyspace: &Arc<KeyspaceCore>) -> Result<()> {
        let mut guard = self.manifest.lock();
        let Some(manifest) = guard.as_mut() else { return Err(self.ballast.health.setup.closed()) };
        if keyspace.expires() {
            return Ok(());
        }
        keyspace.check_not_dropped()?;
        let record = KeyspaceRecord { expires: true, ..(*keyspace.record()).clone() };
        // Even if the edit is refused and a crash brings it back, no entry has an expiry yet.
        self.append(manifest, Edit { keyspaces_altered: vec![record], ..Edit::default() })?;
        // Before readers can see an entry with an expiry: new readers keep a moment from here on.
        self.ballast.history.clock.set_used();
        if let Some(record) = manifest.state().catalog.by_id(keyspace.id) {
            self.keyspaces.replace_record(keyspace, record);
        }
        Ok(())
    }

    /// Notes that the manifest has the definitions of `edit`.
    pub(crate) fn note_definitions(&self, edit: &Edit) {
        for definition in &edit.definitions {
            if let Some(keyspace) = self.keyspaces.get(definition.keyspace) {
                keyspace.note_in_manifest(definition);
            }
        }
        // Definitions from here on are noted after this lock is released.
        let is_due =
            |id: &KeyspaceId| self.keyspaces.get(*id).is_some_and(|k| k.has_definitions_due());
        self.definitions_due.lock().retain(is_due);
    }

    /// Notes that definitions of `keyspace` go to the log. Called under the numbering lock.
    #[cold]
    pub(crate) fn note_definitions_due(&self, keyspace: KeyspaceId) {
        self.definitions_due.lock().insert(keyspace);
    }

    /// Returns whether half of the granted SeqNos are used when `last` is the newest one given.
    #[inline]
    pub(crate) fn is_raise_due(&self, last: SeqNo) -> bool {
        last.get() >= self.raise_at.load(Ordering::Relaxed)
    }

    /// The new ceiling that an edit should contain, if one is due.
    fn raise_due(&self) -> Option<SeqNo> {
        let last = self.ballast.history.visible();
        self.is_raise_due(last).then(|| ceiling_above(last))
    }

    /// Takes over what the manifest grants.
    fn note_granted(&self, manifest: &Manifest) {
        let ceiling = manifest.state().seqno_ceiling;
        let mut numbering = self.ballast.history.numbering.lock();
        numbering.ceiling = ceiling;
        let half = ceiling.get().saturating_sub(SEQNOS_AHEAD / 2);
        self.raise_at.store(half, Ordering::Relaxed);
        drop(numbering);
        if let Some(log) = &self.ballast.history.log {
            log.note_manifest(ManifestPlace { number: manifest.number(), end: manifest.bytes() });
        }
    }

    /// The number of keyspaces with definitions that may be only in the log.
    #[cfg(test)]
    pub(crate) fn keyspaces_defining(&self) -> usize {
        self.definitions_due.lock().len()
    }
}

/// The keyspaces with definitions that a recovery has found only in the log.
fn with_definitions_due(keyspaces: &Keyspaces) -> SortedSet<KeyspaceId> {
    let all = keyspaces.all();
    all.iter()
        .filter(|keyspace| keyspace.has_definitions_due())
        .map(|keyspace| keyspace.id)
        .collect()
}
