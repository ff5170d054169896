//! A keyspace: a named, ordered map of byte keys to byte values, spread over partitions.

use crate::background::Trees;
use crate::catalog::KeyspaceRecord;
use crate::commit::{Batch, Gate, VersionToken};
use crate::content::{Definition, DefinitionKind, DefinitionTable};
use crate::fold::Fold;
use crate::handle::Handle;
use crate::options::{Options, Routing};
use crate::partition::Route;
use crate::read::{Scan, Snapshot};
use flagstone_base::hash::key_hash;
use flagstone_base::key::{KEY_BYTES_MAX, KeyRange, check_key, next_key};
use flagstone_base::{Error, ErrorKind, KeyspaceId, Kind, Result, SeqNo, Slice};
use flagstone_env::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use flagstone_tree::{Tree, TreeContext};
use std::any::Any;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// What a keyspace is inside: shared by all its handles, its batches and its background work.
pub(crate) struct KeyspaceCore {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) record: Arc<KeyspaceRecord>,
    pub(crate) route: Route,
    /// One tree a partition, in the order of the route.
    pub(crate) trees: Vec<Arc<Tree>>,
    pub(crate) fold: Option<Arc<dyn Fold>>,
    /// What its values need to be read.
    pub(crate) definitions: Vec<DefinitionTable>,
    /// What the layer above keeps with the keyspace.
    pub(crate) attachment: Arc<dyn Any + Send + Sync>,
    /// Whether entries carry checks.
    pub(crate) entry_checks: bool,
    /// A [`Fate`].
    pub(crate) fate: AtomicU8,
    /// Keeps deletes of ranges out of updates.
    pub(crate) gate: Gate,
    /// The length of the value of the last update if that was large; else 0.
    pub(crate) updated_bytes: AtomicUsize,
}

/// What becomes of a keyspace.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Lives,
    Dropped,
    /// Its removal was refused, and a crash could bring that back.
    InDoubt,
}

const LIVES: u8 = Fate::Lives as u8;
const DROPPED: u8 = Fate::Dropped as u8;
const IN_DOUBT: u8 = Fate::InDoubt as u8;

impl KeyspaceCore {
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        key_hash(key, self.route.seed())
    }

    /// The tree that `key` with this hash is in.
    pub(crate) fn tree_of(&self, key: &[u8], hash: u64) -> Trees<'_> {
        Trees::from_elem(&self.trees[self.route.partition(key, hash)], 1)
    }

    /// Whether something is defined that the manifest does not hold.
    pub(crate) fn has_definitions_due(&self) -> bool {
        self.definitions.iter().any(DefinitionTable::is_due)
    }

    /// What is defined and not in the manifest.
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

    /// The manifest holds `definition`.
    pub(crate) fn note_in_manifest(&self, definition: &Definition) {
        if let Some(table) = self.table_of(definition.kind) {
            table.note_in_manifest(definition.first_id + definition.items.len() as u32);
        }
    }

    /// What every table carries, so that its values can be read without the manifest: names by id.
    pub(crate) fn attachments(&self) -> Vec<(u32, Vec<u8>)> {
        let names = self.table_of(DefinitionKind::NAMES);
        names.map_or_else(Vec::new, |names| (0..).zip(names.all()).collect())
    }

    /// Whether it is one of the database whose trees share `context`.
    pub(crate) fn belongs_to(&self, context: &Arc<TreeContext>) -> bool {
        self.trees.first().is_some_and(|tree| Arc::ptr_eq(tree.context(), context))
    }

    pub(crate) fn check_fold(&self) -> Result<()> {
        if self.fold.is_some() {
            return Ok(());
        }
        Err(Error::invalid(format!("keyspace {:?} has no fold, so it takes no merges", self.name)))
    }

    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        let name = &self.name;
        match self.fate.load(Ordering::Acquire) {
            LIVES => Ok(()),
            IN_DOUBT => {
                let text = format!(
                    "the disk refused to remove keyspace {name:?}, and a crash could still do it: it \
                     takes no writes until that is ruled out"
                );
                Err(Error::new(ErrorKind::Io, text))
            }
            _ => Err(Error::invalid(format!("keyspace {name:?} was dropped"))),
        }
    }

    /// What is read of a dropped keyspace is nothing, or a part of what was there.
    #[inline]
    pub(crate) fn check_readable(&self) -> Result<()> {
        match self.fate.load(Ordering::Acquire) {
            DROPPED => self.check_not_dropped(),
            _ => Ok(()),
        }
    }

    pub(crate) fn set_fate(&self, fate: Fate) {
        self.fate.store(fate as u8, Ordering::Release);
    }

    /// A removal that was refused cannot come back any more.
    pub(crate) fn end_doubt(&self) {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let _not_in_doubt = self.fate.compare_exchange(IN_DOUBT, LIVES, order.0, order.1);
    }
}

/// A handle of a keyspace. Cheap to clone; usable from any thread; keeps the database open.
#[derive(Clone)]
pub struct Keyspace {
    handle: Arc<Handle>,
    core: Arc<KeyspaceCore>,
}

impl Keyspace {
    pub(crate) const fn new(handle: Arc<Handle>, core: Arc<KeyspaceCore>) -> Self {
        Self { handle, core }
    }

    pub(crate) const fn core(&self) -> &Arc<KeyspaceCore> {
        &self.core
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// What the layer above keeps with the keyspace: see [`Content`](crate::content::Content).
    pub fn attachment(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.core.attachment
    }

    /// What the database was opened with.
    pub fn options(&self) -> &Options {
        &self.handle.shared().options
    }

    /// The most bytes that a batch may take.
    pub fn batch_bytes_max(&self) -> u64 {
        self.handle.shared().batch_bytes_max()
    }

    /// All keyspaces as of now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.handle)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// How its keys are spread.
    pub fn routing(&self) -> Routing {
        self.core.record.options().routing
    }

    /// Sets `key` to `value`, with the database's durability.
    ///
    /// # Errors
    /// InvalidInput, OutOfSpace, Io, Poisoned, Closed.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(Kind::Put, key.as_ref(), value.as_ref())
    }

    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// InvalidInput, Io, Corruption, Closed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_at(key.as_ref(), None)
    }

    /// The value of `key` with a token of the write that made it.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_versioned(&self, key: impl AsRef<[u8]>) -> Result<Option<(VersionToken, Slice)>> {
        let key = key.as_ref();
        check_key(key)?;
        let shared = self.handle.shared();
        let found = shared.get_found(&self.core, key, self.core.hash(key), None)?;
        let token = |seqno| VersionToken { history: shared.history, seqno };
        Ok(found.seqno.map(token).zip(found.value))
    }

    pub(crate) fn get_at(&self, key: &[u8], at: Option<SeqNo>) -> Result<Option<Slice>> {
        check_key(key)?;
        let shared = self.handle.shared();
        Ok(shared.get_found(&self.core, key, self.core.hash(key), at)?.value)
    }

    /// Removes `key` without looking whether it is there.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(Kind::Delete, key.as_ref(), b"")
    }

    /// Removes `key` and tells whether it was there.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        check_key(key)?;
        self.read_modify_write(key, |old| Ok(old.map(|_| (Kind::Delete, Vec::new()))))
    }

    /// Removes all keys of `range` at once: one entry per partition.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let range = owned_range(&range);
        if range.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        // No key is empty, so this is the smallest.
        let first = vec![0];
        let start = match range.start {
            Bound::Included(start) => start.max(first),
            Bound::Excluded(start) => match next_key(&start) {
                Some(start) => start,
                None => return Ok(()),
            },
            Bound::Unbounded => first,
        };
        let end = match range.end {
            Bound::Included(end) => {
                batch.delete(self, &end)?;
                end
            }
            Bound::Excluded(end) => end,
            Bound::Unbounded => {
                // The largest key there can be: no other is above it.
                let last = vec![0xFF; KEY_BYTES_MAX];
                batch.delete(self, &last)?;
                last
            }
        };
        if start < end {
            batch.delete_range(self, &start, &end)?;
        }
        self.commit_own(&batch)
    }

    /// Folds `operand` into the value of `key`, without reading it.
    ///
    /// # Errors
    /// InvalidInput when the keyspace has no fold; else as [`Keyspace::put`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.core.check_fold()?;
        self.write_one(Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// The entries of `range` in key order, as of one moment over all partitions.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.scan_range(owned_range(&range))
    }

    /// As [`Keyspace::scan`], of a range with owned bounds.
    pub fn scan_range(&self, range: KeyRange) -> Scan {
        Scan::new(self, range, self.snapshot())
    }

    /// Every entry, one partition after another.
    pub fn scan_unordered(&self) -> Scan {
        Scan::new(self, KeyRange::ALL, self.snapshot()).unordered()
    }

    /// About how many keys there are, from counters alone.
    pub fn approximate_count(&self) -> u64 {
        let entries = self.core.trees.iter().map(|tree| {
            let stats = tree.stats();
            let tables = stats.levels.iter();
            let live = tables.map(|l| l.entries.saturating_sub(2 * l.deletes)).sum::<u64>();
            live + stats.memtable_entries
        });
        entries.sum()
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyspace({:?})", self.core.name)
    }
}

/// A range with owned bounds.
pub fn owned_range<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
    KeyRange::of(range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref))
}
