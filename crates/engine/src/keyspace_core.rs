//! The inside of a keyspace: its trees, and the objects of its content.

use crate::catalog::KeyspaceRecord;
use crate::content::{Content, Definition, DefinitionKind, DefinitionTable};
use crate::fold::Fold;
use crate::gate::Gate;
use crate::partition::{Layout, Layouts, Route};
use flagstone_base::hash::key_hash;
use flagstone_base::{Error, ErrorKind, KeyspaceId, Result};
use flagstone_env::sync::ArcSwap;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use flagstone_tree::{Tree, TreeContext};
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
    /// Entries carry checks.
    pub(crate) entry_checks: bool,
    /// Entries may have an expiry. Never reset.
    expires: AtomicBool,
    /// A [`KeyspaceStatus`].
    status: AtomicU8,
    /// Keeps range deletes and ingests out of updates.
    pub(crate) gate: Gate,
    /// The length of the value of the last update if that was large, otherwise 0.
    pub(crate) updated_bytes: AtomicUsize,
}

/// The status of a keyspace.
#[derive(Clone, Copy)]
pub(crate) enum KeyspaceStatus {
    Present,
    Dropped,
    /// A drop, a renaming or an ingest was refused, but a crash could bring it back.
    InDoubt,
}

const PRESENT: u8 = KeyspaceStatus::Present as u8;
const DROPPED: u8 = KeyspaceStatus::Dropped as u8;
const IN_DOUBT: u8 = KeyspaceStatus::InDoubt as u8;

impl KeyspaceCore {
    /// A keyspace of `record` without trees.
    pub(crate) fn new(record: Arc<KeyspaceRecord>, content: Content) -> Self {
        Self {
            id: record.id,
            hash_seed: record.route.seed(),
            layouts: Layouts::new(record.route.clone(), Vec::new()),
            fold: content.fold,
            definitions: content.definitions,
            attachment: content.attachment,
            expires: AtomicBool::new(record.expires),
            status: AtomicU8::new(KeyspaceStatus::Present as u8),
            gate: Gate::default(),
            updated_bytes: AtomicUsize::new(0),
            entry_checks: false,
            record: ArcSwap::from(record),
        }
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
    #[cfg_attr(not(test), expect(dead_code, reason = "nothing splits yet"))]
    pub(crate) fn set_layout(&self, route: Route, trees: Vec<Arc<Tree>>) {
        self.layouts.replace(route, trees);
    }

    /// The seed of the hash of the keys.
    pub(crate) const fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    /// The catalog's current record.
    pub(crate) fn record(&self) -> Arc<KeyspaceRecord> {
        self.record.load_full()
    }

    /// Returns whether entries may have an expiry.
    #[inline]
    pub(crate) fn expires(&self) -> bool {
        self.expires.load(Ordering::Acquire)
    }

    /// Takes over the record that an edit has changed.
    pub(crate) fn set_record(&self, record: Arc<KeyspaceRecord>) {
        self.expires.store(record.expires, Ordering::Release);
        self.record.store(record);
    }

    pub(crate) fn name(&self) -> String {
        self.record.load().name.clone()
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
    pub(crate) fn definitions_due(&self) -> Vec<Definition> {
        let due = self.definitions.iter().filter(|table| table.is_due());
        let due = due.map(|table| {
            let first_id = table.in_manifest();
            let items = table.range(first_id, u32::MAX);
            Definition { keyspace: self.id, kind: table.kind, first_id, items }
        });
        due.collect()
    }

    /// The table of this kind of definitions.
    pub(crate) fn table_of(&self, kind: DefinitionKind) -> Option<&DefinitionTable> {
        self.definitions.iter().find(|table| table.kind == kind)
    }

    /// Notes that the manifest holds `definition`.
    pub(crate) fn note_in_manifest(&self, definition: &Definition) {
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

    #[inline]
    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        match self.status.load(Ordering::Acquire) {
            PRESENT => Ok(()),
            status => Err(self.refusal(status)),
        }
    }

    #[cold]
    fn refusal(&self, status: u8) -> Error {
        let name = self.name();
        if status != IN_DOUBT {
            return Error::invalid(format!("keyspace {name:?} was dropped"));
        }
        let text = format!(
            "the disk refused to remove or rename keyspace {name:?}, or to add tables to it, but a \
             crash could still do it: it accepts no writes until that is ruled out"
        );
        Error::new(ErrorKind::Io, text)
    }

    /// Returns an error for a dropped keyspace, where a read may have found only a part of the
    /// entries.
    #[inline]
    pub(crate) fn check_readable(&self) -> Result<()> {
        match self.status.load(Ordering::Acquire) {
            DROPPED => self.check_not_dropped(),
            _ => Ok(()),
        }
    }

    pub(crate) fn set_status(&self, status: KeyspaceStatus) {
        self.status.store(status as u8, Ordering::Release);
    }

    /// Ends the doubt about what was refused: it cannot come back any more.
    pub(crate) fn end_doubt(&self) {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let _not_in_doubt = self.status.compare_exchange(IN_DOUBT, PRESENT, order.0, order.1);
    }
}
