//! The inside of a keyspace: its trees, and the objects of its content.

use crate::catalog::KeyspaceRecord;
use crate::content::{DefinitionKind, DefinitionRecord, DefinitionTable, OLD_VALUES, OpenContent};
use crate::fold::Fold;
use crate::gate::Gate;
use crate::partition::{Layout, Layouts, Route};
use flagstone_base::hash::key_hash;
use flagstone_base::key::KEY_BYTES_MAX;
use flagstone_base::{Error, ErrorKind, KeyspaceId, Kind, Result, SeqNo};
use flagstone_env::sync::ArcSwap;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use flagstone_tree::{SampledKeys, Tree, TreeContext, TreeOptions, sampled_keys, tables_stamp};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// The trees of a write.
pub(crate) type Trees<'a> = SmallVec<[&'a Arc<Tree>; 1]>;

/// A keyspace, shared by all its handles, its batches and its background work. A handle derefs to
/// it.
pub struct KeyspaceCore {
    pub(crate) id: KeyspaceId,
    /// The catalog's record. Replaced under the manifest's lock, after the edit that changed it.
    record: ArcSwap<KeyspaceRecord>,
    /// The seed of the key hash, the same in all layouts.
    hash_seed: u64,
    /// The route and the trees, now and before splits.
    layouts: Layouts,
    pub(crate) fold: Option<Arc<dyn Fold>>,
    /// The definitions that are needed to read values.
    pub(crate) definitions: Vec<DefinitionTable>,
    /// The object that the layer above keeps with the keyspace.
    pub(crate) attachment: Arc<dyn Any + Send + Sync>,
    /// Bytes above every key, if the content has such.
    above_keys: Option<&'static [u8]>,
    key_text: fn(&[u8]) -> String,
    /// Entries carry checks.
    pub(crate) entry_checks: bool,
    /// Entries may have an expiry. Never reset.
    expires: AtomicBool,
    /// The flags [`DROPPED`], [`IN_DOUBT`] and [`MAINTAINED`]. 0 if every write is accepted.
    status: AtomicU8,
    /// The keyspaces that this one owns. Changed under its gate, held alone.
    owned: ArcSwap<OwnedSet>,
    /// The trees have a floor: see [`Fill`](crate::Fill).
    is_filling: AtomicBool,
    /// Keeps range deletes and ingests out of updates.
    pub(crate) gate: Gate,
    /// Ingests that have begun and not ended. They write tables for the trees as they are.
    ingests: AtomicU32,
    /// The length of the value of the last update if that was large, otherwise 0.
    pub(crate) updated_bytes: AtomicUsize,
}

/// The keyspaces that a keyspace owns: its indexes, for example. Writes to the owner are prepared
/// for one set.
#[derive(Default)]
pub struct OwnedSet {
    /// The number of changes of the set since the database was opened.
    pub epoch: u64,
    /// The owned keyspaces, by number.
    pub keyspaces: Vec<Arc<KeyspaceCore>>,
}

/// A write was prepared with this set of owned keyspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) owner: KeyspaceId,
    pub(crate) epoch: u64,
}

const DROPPED: u8 = 1;
/// A drop, a renaming or an ingest was refused, but a crash could bring it back.
const IN_DOUBT: u8 = 2;
/// The keyspace owns others: its writes must be prepared.
const MAINTAINED: u8 = 4;

/// The turn of the only tree of a keyspace: its L0 grows to the average size.
const LONE_TURN: u8 = 4;

impl KeyspaceCore {
    /// A keyspace of `record` without trees.
    pub(crate) fn new(record: Arc<KeyspaceRecord>, content: OpenContent) -> Self {
        Self {
            id: record.id,
            hash_seed: record.route.seed(),
            layouts: Layouts::new(record.route.clone(), Vec::new()),
            fold: content.fold,
            definitions: content.definitions,
            attachment: content.attachment,
            above_keys: content.above_keys,
            key_text: content.key_text,
            expires: AtomicBool::new(record.expires),
            status: AtomicU8::new(0),
            owned: ArcSwap::from(Arc::<OwnedSet>::default()),
            is_filling: AtomicBool::new(false),
            gate: Gate::default(),
            updated_bytes: AtomicUsize::new(0),
            ingests: AtomicU32::new(0),
            entry_checks: false,
            record: ArcSwap::from(record),
        }
    }

    /// Returns a key as messages show it.
    pub(crate) fn key_text(&self, key: &[u8]) -> String {
        (self.key_text)(key)
    }

    /// Adds the trees of a keyspace that nobody uses yet.
    pub(crate) fn set_trees(&mut self, trees: Vec<Arc<Tree>>) {
        self.layouts = Layouts::new(self.layout().route.clone(), trees);
    }

    /// The current route and its trees. A reader takes its SeqNo before: then the trees have
    /// everything up to it, also if they are replaced meanwhile.
    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        self.layouts.current()
    }

    /// The trees of the current layout, in the order of the route.
    #[inline]
    pub(crate) fn trees(&self) -> &[Arc<Tree>] {
        &self.layout().trees
    }

    /// Replaces the layout. Called under the locks of the manifest and the numbering.
    pub(crate) fn set_layout(&self, route: Route, trees: Vec<Arc<Tree>>) {
        self.layouts.replace(route, trees);
    }

    /// The writes that remove all keys from `start` on: kind, key, and the end of a range.
    pub(crate) fn removals_from(&self, start: Vec<u8>) -> Vec<(Kind, Vec<u8>, Vec<u8>)> {
        let (mut removals, end) = match self.above_keys {
            Some(above) => (Vec::new(), above.to_vec()),
            // The end of a range is excluded, so the largest possible key is removed by itself.
            None => {
                let last = vec![0xFF; KEY_BYTES_MAX];
                (vec![(Kind::Delete, last.clone(), Vec::new())], last)
            }
        };
        if start < end {
            removals.push((Kind::RangeDelete, start, end));
        }
        removals
    }

    /// Keeps the layout as it is until [`KeyspaceCore::end_ingest`]. Called under the lock of the
    /// manifest.
    pub(crate) fn begin_ingest(&self) {
        self.ingests.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end_ingest(&self) {
        self.ingests.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn is_ingesting(&self) -> bool {
        self.ingests.load(Ordering::SeqCst) > 0
    }

    /// The options of the tree of `partition`, as `record` describes the keyspace.
    ///
    /// The trees of one keyspace fill at the same rate, so they would all be compacted at once.
    /// Turns spread this out; neighbouring trees get distant turns. A single tree needs no turn.
    pub(crate) fn tree_options(&self, record: &KeyspaceRecord, partition: usize) -> TreeOptions {
        let turn = match record.trees.len() {
            1 => LONE_TURN,
            _ => (record.trees[partition].0 as u8).reverse_bits() >> 5,
        };
        TreeOptions {
            turn,
            keyspace: self.id,
            owner: record.owner().unwrap_or_default(),
            hash_seed: self.hash_seed,
            tables: record.tables,
            fold: self.fold.clone(),
            bounds: record.route.bounds_of(partition).map(Arc::new),
            hashes: record.hashes_of_part(partition),
            ..TreeOptions::default()
        }
    }

    /// The seed of the hash of the keys.
    #[cfg(test)]
    pub(crate) const fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    /// The fold of the keyspace, if it has one.
    pub const fn fold(&self) -> Option<&Arc<dyn Fold>> {
        self.fold.as_ref()
    }

    /// The catalog's current record.
    pub(crate) fn record(&self) -> Arc<KeyspaceRecord> {
        self.record.load_full()
    }

    /// Returns whether entries may have an expiry.
    #[inline]
    pub fn expires(&self) -> bool {
        self.expires.load(Ordering::Acquire)
    }

    /// Takes over the record that an edit has changed.
    pub(crate) fn set_record(&self, record: Arc<KeyspaceRecord>) {
        self.expires.store(record.expires, Ordering::Release);
        self.record.store(record);
    }

    /// The name of the keyspace now, unique among those of its owner.
    pub fn name(&self) -> String {
        self.record.load().name.clone()
    }

    /// The name that the keyspace had when `seqno` was written.
    pub fn name_at(&self, seqno: SeqNo) -> String {
        self.record.load().name_at(seqno).to_owned()
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        key_hash(key, self.hash_seed)
    }

    /// The tree that holds `key`, whose hash is `hash`.
    pub(crate) fn tree_of(&self, key: &[u8], hash: u64) -> Trees<'_> {
        Trees::from_elem(self.layout().tree_of(key, hash), 1)
    }

    /// Returns whether there are definitions that the manifest does not hold.
    pub(crate) fn has_definitions_due(&self) -> bool {
        self.definitions.iter().any(DefinitionTable::is_due)
    }

    /// The definitions that the manifest does not hold.
    pub(crate) fn definitions_due(&self) -> Vec<DefinitionRecord> {
        let due = self.definitions.iter().filter(|table| table.is_due());
        let due = due.map(|table| {
            let first_id = table.in_manifest();
            let items = table.range(first_id, u32::MAX);
            DefinitionRecord { keyspace: self.id, kind: table.kind, first_id, items }
        });
        due.collect()
    }

    /// The table of this kind of definitions.
    pub(crate) fn table_of(&self, kind: DefinitionKind) -> Option<&DefinitionTable> {
        self.definitions.iter().find(|table| table.kind == kind)
    }

    /// Notes that the manifest holds `definition`.
    pub(crate) fn note_in_manifest(&self, definition: &DefinitionRecord) {
        if let Some(table) = self.table_of(definition.kind) {
            table.note_in_manifest(definition.first_id + definition.items.len() as u32);
        }
    }

    /// The names by id, which every table carries so that its values can be read without the
    /// manifest.
    pub(crate) fn attachments(&self) -> Vec<(u32, Vec<u8>)> {
        let names = self.table_of(DefinitionKind::NAMES);
        names.map_or_else(Vec::new, |names| (0..).zip(names.all()).collect())
    }

    /// Returns whether the keyspace is of the database whose trees share `context`.
    pub(crate) fn belongs_to(&self, context: &Arc<TreeContext>) -> bool {
        self.trees().first().is_some_and(|tree| Arc::ptr_eq(tree.context(), context))
    }

    pub(crate) fn check_fold(&self) -> Result<()> {
        if self.fold.is_some() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "keyspace {:?} has no fold, so it accepts no merges",
            self.name()
        )))
    }

    /// The number of the keyspace.
    pub const fn id(&self) -> KeyspaceId {
        self.id
    }

    /// The object that the layer above keeps with the keyspace: see
    /// [`OpenContent`](crate::content::OpenContent).
    pub const fn attachment(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.attachment
    }

    /// Returns whether batches keep the values that its keys had before, for readers of changes:
    /// it owns a keyspace of content [`OLD_VALUES`](crate::content::OLD_VALUES).
    pub fn keeps_old(&self) -> bool {
        let set = self.owned_set();
        set.keyspaces.iter().any(|core| core.record.load().content.as_str() == OLD_VALUES)
    }

    /// The partition that holds `key` now. A split or a merge may change it at any time.
    #[inline]
    pub fn partition_of(&self, key: &[u8]) -> usize {
        self.layout().route.partition(key, self.hash(key))
    }

    /// The number of the keyspace that owns this one.
    pub fn owner(&self) -> Option<KeyspaceId> {
        self.record.load().owner()
    }

    /// Returns about how many keys there are, from counters alone. A tombstone in a table counts as
    /// one key less: too few if it deletes nothing older, as one of a put that expired before its
    /// flush.
    pub fn approximate_count(&self) -> u64 {
        self.trees().iter().map(|tree| tree.approximate_entries()).sum()
    }

    /// Returns the bytes of the tables on disk.
    pub fn table_bytes(&self) -> u64 {
        self.trees().iter().map(|tree| tree.table_bytes()).sum()
    }

    /// Returns a sample of about `most` keys that are in tables, chosen by their hash. The samples
    /// that tables carry are read on first use.
    pub fn sampled_keys(&self, most: u64) -> SampledKeys {
        sampled_keys(self.trees(), most)
    }

    /// Returns a number that differs when the tables have changed.
    pub fn tables_stamp(&self) -> u64 {
        tables_stamp(self.trees())
    }

    /// The bytes that the layer above keeps with an owned keyspace.
    pub fn note(&self) -> Vec<u8> {
        let record = self.record.load();
        record.owned.as_ref().map_or_else(Vec::new, |owned| owned.note.clone())
    }

    /// Returns whether a repair may have lost entries of this owned keyspace, or of its owner.
    /// [`Engine::set_note`](crate::Engine::set_note) ends the doubt.
    pub fn is_doubtful(&self) -> bool {
        self.record.load().owned.as_ref().is_some_and(|owned| owned.is_doubtful)
    }

    /// Returns whether the keyspace owns others. Then every write must be prepared.
    #[inline]
    pub fn has_owned(&self) -> bool {
        self.status.load(Ordering::Acquire) & MAINTAINED != 0
    }

    /// The keyspaces that this one owns now.
    pub fn owned_set(&self) -> Arc<OwnedSet> {
        self.owned.load_full()
    }

    /// Replaces the keyspaces that this one owns. Called under the numbering lock, except at an
    /// open: earlier numbers belong to writes that were prepared with the set before.
    pub(crate) fn set_owned(&self, keyspaces: Vec<Arc<Self>>) {
        let is_owner = !keyspaces.is_empty();
        let epoch = self.owned.load().epoch + 1;
        self.owned.store(Arc::new(OwnedSet { epoch, keyspaces }));
        if is_owner {
            self.status.fetch_or(MAINTAINED, Ordering::AcqRel)
        } else {
            self.status.fetch_and(!MAINTAINED, Ordering::AcqRel)
        };
    }

    /// Notes that the trees get a floor. Returns false if they have one.
    pub(crate) fn begin_filling(&self) -> bool {
        !self.is_filling.swap(true, Ordering::AcqRel)
    }

    /// Returns whether the trees have a floor, and must not be replaced.
    pub(crate) fn is_filling(&self) -> bool {
        self.is_filling.load(Ordering::Acquire)
    }

    pub(crate) fn end_filling(&self) {
        self.is_filling.store(false, Ordering::Release);
    }

    /// What a write says that is prepared with the present set.
    pub(crate) fn prepared(&self) -> Prepared {
        Prepared { owner: self.id, epoch: self.owned.load().epoch }
    }

    /// Refuses writes to a keyspace that was dropped, or that accepts none for now.
    #[inline]
    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        match self.status.load(Ordering::Acquire) {
            0 => Ok(()),
            status => self.check_status(status),
        }
    }

    /// Like [`KeyspaceCore::check_not_dropped`], and refuses a write to an owner that was not
    /// `prepared` with the keyspaces that it owns now.
    #[inline]
    pub(crate) fn check_accepts(&self, prepared: &[Prepared]) -> Result<()> {
        match self.status.load(Ordering::Acquire) {
            0 => Ok(()),
            status => self.check_prepared(status, prepared),
        }
    }

    #[cold]
    fn check_status(&self, status: u8) -> Result<()> {
        let name = self.name();
        if status & DROPPED != 0 {
            return Err(Error::invalid(format!("keyspace {name:?} was dropped")));
        }
        if status & IN_DOUBT == 0 {
            return Ok(());
        }
        let text = format!(
            "the disk refused to remove or rename keyspace {name:?}, or to add tables to it, but a \
             crash could still do it: it accepts no writes until that is ruled out"
        );
        Err(Error::new(ErrorKind::Io, text))
    }

    #[cold]
    fn check_prepared(&self, status: u8, prepared: &[Prepared]) -> Result<()> {
        if status & DROPPED != 0 && !prepared.is_empty() && self.owner().is_some() {
            return Err(self.is_outdated());
        }
        self.check_status(status)?;
        if status & MAINTAINED == 0 || prepared.contains(&self.prepared()) {
            Ok(())
        } else {
            Err(self.is_outdated())
        }
    }

    fn is_outdated(&self) -> Error {
        let text =
            format!("the indexes of keyspace {:?} changed: prepare the write again", self.name());
        Error::new(ErrorKind::Conflict, text)
    }

    /// Returns an error for a dropped keyspace, where a read may have found only a part of the
    /// entries.
    #[inline]
    pub(crate) fn check_readable(&self) -> Result<()> {
        match self.status.load(Ordering::Acquire) & DROPPED {
            0 => Ok(()),
            _ => self.check_not_dropped(),
        }
    }

    /// Returns whether the keyspace was dropped. Under the numbering lock: before the next number.
    pub fn is_dropped(&self) -> bool {
        self.status.load(Ordering::Acquire) & DROPPED != 0
    }

    /// Notes that the keyspace was dropped.
    pub(crate) fn set_dropped(&self) {
        self.status.fetch_or(DROPPED, Ordering::AcqRel);
    }

    /// Notes that the drop was refused. Called under the numbering lock, as the note of the drop.
    pub(crate) fn set_not_dropped(&self) {
        self.status.fetch_and(!DROPPED, Ordering::AcqRel);
    }

    /// Notes that a change was refused, but a crash could bring it back.
    pub(crate) fn set_in_doubt(&self) {
        self.status.fetch_or(IN_DOUBT, Ordering::AcqRel);
    }

    /// Returns whether a change was refused that a crash could bring back.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.status.load(Ordering::Acquire) & IN_DOUBT != 0
    }

    /// Ends the doubt about what was refused: it cannot come back any more.
    pub(crate) fn end_doubt(&self) {
        self.status.fetch_and(!IN_DOUBT, Ordering::AcqRel);
    }
}
