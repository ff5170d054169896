//! Scans of the entries of an index, for queries.

use crate::collection::decode;
use crate::collection::stored::Stored;
use crate::index::{
    Definition, Ends, EntryParts, Flags, IndexState, Statistics, above, component_len,
    decode_component, index_of, parts, parts_inlined, range_end, range_start,
};
use crate::remote::{Area, Remote, RemoteIndex, RemoteRows};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, ErrorKind, Malformed, Result, SeqNo};
use flagstone_doc::{Arrays, Direction, Value};
use flagstone_engine::{KeyspaceCore, Scan, Snapshot, Transaction, TransactionScan};
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use std::ops::Bound;
use std::sync::Arc;

/// An index that is complete.
#[derive(Clone)]
pub(crate) struct UsableIndex {
    place: IndexPlace,
    usable_from: SeqNo,
}

/// In which direction entries are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Forward,
    Reverse,
}

impl From<Direction> for Order {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Ascending => Self::Forward,
            Direction::Descending => Self::Reverse,
        }
    }
}

impl From<Order> for Direction {
    fn from(order: Order) -> Self {
        match order {
            Order::Forward => Self::Ascending,
            Order::Reverse => Self::Descending,
        }
    }
}

/// What holds the entries of an index.
#[derive(Clone)]
enum IndexPlace {
    Keyspace(Arc<KeyspaceCore>),
    Remote(Arc<RemoteIndex>, Arc<dyn Remote>),
}

impl IndexPlace {
    fn state(&self) -> Option<&IndexState> {
        match self {
            Self::Keyspace(core) => index_of(core),
            Self::Remote(index, _) => Some(&index.state),
        }
    }
}

/// A range of entries.
#[derive(Clone, Debug)]
pub(crate) struct IndexRange(KeyRange);

/// Where entries are read.
#[derive(Clone, Copy)]
pub(crate) enum Reader<'s, 't> {
    /// As of a snapshot, which the scan keeps.
    Snapshot(&'s Snapshot),
    /// In a transaction, with its own writes.
    Transaction(&'t Transaction),
    /// The same, but not as a read of the transaction.
    Probe(&'t Transaction),
    /// In a cluster: the collection for the query, if there is one, and how many entries are taken,
    /// if that is known.
    Remote(Option<&'s Arc<dyn Remote>>, Option<u64>),
}

impl UsableIndex {
    /// Returns the index in `core`; `None` if it holds none, or one that is still being built.
    pub(super) fn of(core: &Arc<KeyspaceCore>) -> Option<Self> {
        let usable_from = index_of(core)?.usable_from()?;
        Some(Self { place: IndexPlace::Keyspace(Arc::clone(core)), usable_from })
    }

    /// Returns an index of a cluster; `None` if it is still being built.
    fn of_remote(index: &Arc<RemoteIndex>, remote: &Arc<dyn Remote>) -> Option<Self> {
        let usable_from = index.state.usable_from()?;
        let place = IndexPlace::Remote(Arc::clone(index), Arc::clone(remote));
        Some(Self { place, usable_from })
    }

    fn state(&self) -> Option<&IndexState> {
        self.place.state()
    }

    /// Returns the number of the index, which no other of the collection has.
    pub(crate) fn id(&self) -> u32 {
        match &self.place {
            IndexPlace::Keyspace(core) => core.id().0,
            IndexPlace::Remote(index, _) => index.id,
        }
    }

    /// About how many entries there are.
    pub(crate) fn approximate_count(&self) -> u64 {
        match &self.place {
            IndexPlace::Keyspace(core) => core.approximate_count(),
            IndexPlace::Remote(index, remote) => remote.about(Area::Index(index.id)),
        }
    }

    /// Returns the definition of the index.
    pub(crate) fn definition(&self) -> Option<&Definition> {
        self.state().map(|state| &state.definition)
    }

    /// Counts a query that reads the index.
    pub(crate) fn note_use(&self) {
        if let Some(state) = self.state() {
            state.note_use();
        }
    }

    /// Returns the number of what plans rest on: see [`IndexState::premise`].
    pub(crate) fn premise(&self) -> Option<&Arc<AtomicU64>> {
        self.state().map(IndexState::premise)
    }

    /// Returns that number as it is now.
    pub(crate) fn premise_now(&self) -> u64 {
        self.premise().map_or(0, |number| number.load(Ordering::Acquire))
    }

    /// Returns the keyspace of the entries; `None` in a cluster.
    pub(crate) const fn core(&self) -> Option<&Arc<KeyspaceCore>> {
        match &self.place {
            IndexPlace::Keyspace(core) => Some(core),
            IndexPlace::Remote(..) => None,
        }
    }

    /// Returns the SeqNo from which on readers may use the index.
    pub(crate) const fn usable_from(&self) -> SeqNo {
        self.usable_from
    }

    /// Estimates how many of `total` entries are in `ranges`; returns also the size of the sample.
    /// `None` if there is none that is large enough.
    pub(crate) fn estimate(&self, ranges: &[IndexRange], total: u64) -> Option<(u64, u64)> {
        let statistics = self.statistics()?;
        let entries = statistics.entries_in(ranges.iter().map(|range| &range.0), total)?;
        Some((entries, statistics.sampled()))
    }

    /// Returns what a sample of the entries tells.
    pub(super) fn statistics(&self) -> Option<Arc<Statistics>> {
        match &self.place {
            IndexPlace::Keyspace(core) => index_of(core).map(|state| state.statistics(core)),
            IndexPlace::Remote(..) => None,
        }
    }

    /// Returns where on the path of field number `field` any document ever had an array.
    pub(crate) fn arrays(&self, field: usize) -> Arrays {
        self.state().map_or(Arrays::ANY, |state| state.arrays(field))
    }

    /// Returns whether a value over 1 KiB was ever seen: then the order of entries with one cut
    /// component is not that of their values.
    pub(crate) fn has_cut(&self) -> bool {
        self.state().is_none_or(|state| state.has_cut())
    }

    /// Scans the entries of `range`.
    ///
    /// # Errors
    /// InvalidInput for a reader that is older than the index, or of another database.
    pub(crate) fn scan<'t>(
        &self,
        reader: Reader<'_, 't>,
        range: &IndexRange,
        order: Order,
    ) -> Result<IndexScan<'t>> {
        let is_reverse = order == Order::Reverse;
        let seqno = match reader {
            Reader::Snapshot(snapshot) => snapshot.seqno(),
            Reader::Transaction(transaction) | Reader::Probe(transaction) => transaction.seqno(),
            Reader::Remote(..) => self.usable_from,
        };
        if seqno < self.usable_from {
            return Err(Error::invalid("a reader that is older than the index that it uses"));
        }
        let range = range.0.clone();
        let source = match (reader, &self.place) {
            (Reader::Snapshot(snapshot), IndexPlace::Keyspace(core)) => {
                let scan = snapshot.scan(core, range)?;
                EntryScan::Snapshot(if is_reverse { scan.rev() } else { scan })
            }
            (
                Reader::Transaction(transaction) | Reader::Probe(transaction),
                IndexPlace::Keyspace(core),
            ) => {
                let scan = match reader {
                    Reader::Probe(_) => transaction.probe(core, range)?,
                    _ => transaction.scan(core, range)?,
                };
                EntryScan::Transaction(Box::new(if is_reverse { scan.rev() } else { scan }))
            }
            (reader, IndexPlace::Remote(index, remote)) => {
                let (query, most) = match reader {
                    Reader::Remote(query, most) => (query.unwrap_or(remote), most),
                    _ => (remote, None),
                };
                let scan = RemoteRows::new(query, Area::Index(index.id), range).most(most);
                EntryScan::Remote(if is_reverse { scan.rev() } else { scan })
            }
            (Reader::Remote(..), IndexPlace::Keyspace(_)) => {
                return Err(Error::invalid(
                    "a reader of a cluster, of an index that is not in one",
                ));
            }
        };
        let (index, layout) = (self.place.clone(), EntryLayout::default());
        Ok(IndexScan { index, source, place: layout, first: Vec::new() })
    }
}

impl From<KeyRange> for IndexRange {
    /// The entries with these keys.
    fn from(keys: KeyRange) -> Self {
        Self(keys)
    }
}

impl IndexRange {
    /// The keys of the entries.
    pub(crate) const fn keys(&self) -> &KeyRange {
        &self.0
    }

    /// All entries.
    pub(crate) fn all() -> Self {
        Self(KeyRange::ALL)
    }

    /// The entries that begin with the whole components `prefix`.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        let end = Bound::Excluded(above(prefix));
        Self(KeyRange { start: Bound::Included(prefix.to_vec()), end })
    }

    /// The entries that begin with the whole components `prefix`, of documents with these stored
    /// keys.
    pub(crate) fn of_keys(prefix: &[u8], keys: &KeyRange) -> Self {
        let with = |key: &Vec<u8>| [prefix, key].concat();
        let start = match &keys.start {
            Bound::Included(key) => Bound::Included(with(key)),
            Bound::Excluded(key) => Bound::Excluded(with(key)),
            Bound::Unbounded => Bound::Included(prefix.to_vec()),
        };
        let end = match &keys.end {
            Bound::Included(key) => Bound::Included(with(key)),
            Bound::Excluded(key) => Bound::Excluded(with(key)),
            Bound::Unbounded => Bound::Excluded(above(prefix)),
        };
        Self(KeyRange { start, end })
    }

    /// The entries that begin with the whole components `prefix`, and whose next component is at
    /// least `start`, and below `end` if that is given. Bounds that are too long for a component
    /// are cut so that no entry is lost.
    pub(crate) fn new(prefix: &[u8], start: &[u8], end: Option<&[u8]>) -> Self {
        let start = [prefix, range_start(start)].concat();
        let end = match end {
            Some(end) => [prefix, &range_end(end)].concat(),
            None => above(prefix),
        };
        Self(KeyRange { start: Bound::Included(start), end: Bound::Excluded(end) })
    }
}

enum EntryScan<'a> {
    Snapshot(Scan),
    Transaction(Box<TransactionScan<'a>>),
    Remote(RemoteRows),
    /// One entry that was read before: its key and value.
    Copied(Vec<u8>, Vec<u8>),
}

/// Where the parts of the current entry are.
#[derive(Clone, Copy, Default)]
struct EntryLayout {
    components: usize,
    ends: Ends,
    flags: Flags,
}

impl EntryLayout {
    fn of(parts: &EntryParts<'_>) -> Self {
        Self { components: parts.components.len(), ends: *parts.ends, flags: parts.flags }
    }
}

/// Remembers the first component of an entry, which the next one may have, too.
fn note_first(first: &mut Vec<u8>, parts: &EntryParts<'_>) {
    first.clear();
    if !parts.flags.has(Flags::CUT) {
        first.extend_from_slice(parts.component(0));
    }
}

/// A cursor over entries.
pub(crate) struct IndexScan<'a> {
    index: IndexPlace,
    source: EntryScan<'a>,
    place: EntryLayout,
    /// The first component of the current entry, if none is cut.
    first: Vec<u8>,
}

impl IndexScan<'_> {
    /// Returns a scan that stays at the current entry.
    pub(crate) fn copied<'t>(&self) -> IndexScan<'t> {
        let source = EntryScan::Copied(self.key().to_vec(), self.value().to_vec());
        IndexScan { index: self.index.clone(), source, place: self.place, first: Vec::new() }
    }

    /// Returns whether the entries are those of `index`.
    pub(crate) fn is_of(&self, index: &UsableIndex) -> bool {
        match (&self.index, &index.place) {
            (IndexPlace::Keyspace(own), IndexPlace::Keyspace(other)) => Arc::ptr_eq(own, other),
            (IndexPlace::Remote(own, _), IndexPlace::Remote(other, _)) => own.id == other.id,
            _ => false,
        }
    }

    /// Releases memory while nobody reads, as [`Scan::park`]. A transaction keeps what it reads.
    pub(crate) fn park(&mut self) {
        if let EntryScan::Snapshot(scan) = &mut self.source {
            scan.park();
        }
    }

    /// Moves to the next entry. Returns false at the end.
    ///
    /// # Errors
    /// Io; Corruption if an entry is damaged.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let has_next = match &mut self.source {
            EntryScan::Snapshot(scan) => scan.advance()?,
            EntryScan::Transaction(scan) => scan.advance()?,
            EntryScan::Remote(scan) => scan.advance()?,
            EntryScan::Copied(..) => false,
        };
        if has_next {
            let definition = self.definition()?;
            let (entry, is_unique) = ((self.key(), self.value()), definition.is_unique);
            let (directions, mut ends) = (definition.directions(), Ends::default());
            let parts = parts(entry, directions, is_unique, &self.first, &mut ends);
            let parts = parts.map_err(|malformed| self.corrupt(malformed))?;
            let is_known = parts.is_known;
            self.place = EntryLayout::of(&parts);
            if !is_known {
                let mut first = std::mem::take(&mut self.first);
                note_first(&mut first, &self.parts());
                self.first = first;
            }
        }
        Ok(has_next)
    }

    /// Moves to entries that follow the current one and are quick to reach, as
    /// [`Scan::visit_near`]. An entry that is damaged is left as the next one.
    #[inline]
    pub(crate) fn visit_near(
        &mut self,
        most: usize,
        mut visit: impl FnMut(&EntryParts<'_>) -> bool,
    ) -> usize {
        let Self { index, source, place, first } = self;
        let (EntryScan::Snapshot(scan), Some(state)) = (source, index.state()) else { return 0 };
        let definition = &state.definition;
        let mut ends = Ends::default();
        let visited = scan.visit_near(most, |key, value| {
            let (entry, directions) = ((key, value), definition.directions());
            let parts = parts_inlined(entry, directions, definition.is_unique, first, &mut ends);
            let Ok(parts) = &parts else { return false };
            if !visit(parts) {
                return false;
            }
            if !parts.is_known {
                note_first(first, parts);
            }
            true
        });
        if visited > 0 {
            // Finding the parts of the last entry again takes less time than keeping those of each.
            let (entry, directions) = ((scan.key(), scan.value_bytes()), definition.directions());
            let parts = parts(entry, directions, definition.is_unique, first, &mut ends);
            *place = parts
                .map_or_else(|_was_found_before| EntryLayout::default(), |p| EntryLayout::of(&p));
        }
        visited
    }

    fn definition(&self) -> Result<&Definition> {
        let state = self.index.state();
        Ok(&state.ok_or_else(|| Error::invalid("the keyspace of an index"))?.definition)
    }

    fn key(&self) -> &[u8] {
        match &self.source {
            EntryScan::Snapshot(scan) => scan.key(),
            EntryScan::Transaction(scan) => scan.key(),
            EntryScan::Remote(scan) => scan.key(),
            EntryScan::Copied(key, _) => key,
        }
    }

    fn value(&self) -> &[u8] {
        match &self.source {
            EntryScan::Snapshot(scan) => scan.value_bytes(),
            EntryScan::Transaction(scan) => scan.value_bytes(),
            EntryScan::Remote(scan) => scan.value(),
            EntryScan::Copied(_, value) => value,
        }
    }

    /// Returns the error of an entry that cannot be decoded.
    #[cold]
    pub(crate) fn corrupt(&self, malformed: Malformed) -> Error {
        let name = self.index.state().map_or("", |state| &state.definition.name);
        let text = format!("an entry of index {name:?}, {malformed}");
        Error::new(ErrorKind::Corruption, text)
    }

    /// Returns the components of the current entry, one for each field, in their directions.
    pub(crate) fn components(&self) -> &[u8] {
        self.key().get(..self.place.components).unwrap_or_default()
    }

    /// Returns the stored key of the document.
    pub(crate) fn primary_key(&self) -> &[u8] {
        let is_unique = self.definition().is_ok_and(|definition| definition.is_unique);
        if is_unique {
            self.value().get(1..).unwrap_or_default()
        } else {
            self.key().get(self.place.components..).unwrap_or_default()
        }
    }

    /// Returns the parts of the current entry.
    #[inline]
    pub(crate) fn parts(&self) -> EntryParts<'_> {
        let EntryLayout { ends, flags, .. } = &self.place;
        let (components, flags) = (self.components(), *flags);
        EntryParts { components, ends, primary_key: self.primary_key(), flags, is_known: false }
    }

    /// Decodes the components; `None` is a missing value. One that is cut is returned as its bytes.
    ///
    /// # Errors
    /// Corruption if they are damaged.
    pub(crate) fn decode(&self) -> Result<Vec<Option<Value>>> {
        let values = decode_all(self.components(), self.definition()?);
        values.map_err(|malformed| self.corrupt(malformed))
    }
}

fn decode_all(components: &[u8], definition: &Definition) -> Result<Vec<Option<Value>>, Malformed> {
    let (mut rest, mut values) = (components, Vec::with_capacity(definition.fields.len()));
    for direction in definition.directions() {
        let (len, is_cut) = component_len(rest, direction)?;
        let (component, after) = rest.split_at(len);
        values.push(if is_cut {
            Some(Value::from(component))
        } else {
            decode_component(component, direction)?
        });
        rest = after;
    }
    Ok(values)
}

/// Returns the indexes of a collection that are complete.
pub(crate) fn usable(stored: &Stored) -> Vec<UsableIndex> {
    if let Some(remote) = stored.remote() {
        let catalog = remote.catalog();
        let indexes = catalog.indexes().iter();
        return indexes.filter_map(|index| UsableIndex::of_remote(index, remote)).collect();
    }
    let Ok(keyspace) = stored.keyspace() else { return Vec::new() };
    keyspace.owned_set().keyspaces.iter().filter_map(UsableIndex::of).collect()
}

/// Returns all entries of the complete index `name`: values and primary keys.
pub(crate) fn entries(stored: &Stored, name: &str) -> Result<Vec<(Vec<Option<Value>>, Value)>> {
    let is_it = |index: &UsableIndex| index.definition().is_some_and(|it| it.name == name);
    let Some(index) = usable(stored).into_iter().find(is_it) else {
        let collection = stored.name();
        return Err(Error::invalid(format!("{collection:?} has no complete index {name:?}")));
    };
    let snapshot = stored.keyspace().ok().map(|keyspace| keyspace.snapshot());
    let reader = snapshot.as_ref().map_or(Reader::Remote(None, None), Reader::Snapshot);
    let mut scan = index.scan(reader, &IndexRange::all(), Order::Forward)?;
    let mut entries = Vec::new();
    while scan.advance()? {
        entries.push((scan.decode()?, decode::primary_key(stored, scan.primary_key())?));
    }
    Ok(entries)
}
