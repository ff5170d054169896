//! The index entries that change with the documents of one commit. They are computed and checked
//! under the locks of the commit, and become a part of it.
//!
//! Old documents count whether or not they have expired. The clock may be wrong: once it is set
//! right, a document that counted as expired is back, and so must be its entries, and no others.
//!
//! A document that has expired is removed if another one gets its unique value. The key of the one
//! that is removed is not locked as those are that are written: which one it is, is known too late
//! for that. So where documents with unique values may expire, every commit also locks the keys of
//! its documents together with the unique values, and looks then whether a document has changed
//! since it was read: it was removed for another one, or written again. If so, all is done again.

use super::entry_change::EntryWrite;
use super::unique;
use crate::collection::core::Documents;
use crate::index::{
    Definition, DocumentEntries, DocumentKey, DocumentState, EntryDifference, IndexState, Refusal,
    Seen, by_date, dates_decide, differences, index_of, moment_by, value_of,
};
use flagstone_base::{Error, ErrorKind, Kind, Malformed, Moment, Result, SeqNo};
use flagstone_doc::View;
use flagstone_engine::{
    Effect, HeldBatch, HeldOp, KeyspaceCore, OwnedSet, StoredPut, too_large_with_owned,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes of a document with its expiry.
pub(super) type Stated<'a> = (&'a [u8], Option<Moment>);

/// The changes of all indexes in one commit.
pub(super) struct IndexChanges {
    pub(super) list: Vec<EntryWrite>,
    /// The bytes of the entries that were added, and the most that a commit may take.
    bytes: u64,
    bytes_max: u64,
    /// What the catalog must know of indexes before the commit.
    unseen: Vec<(Arc<KeyspaceCore>, Seen)>,
    /// The collections with unique indexes, and whether their documents may expire.
    owners: Vec<(Arc<KeyspaceCore>, bool)>,
    /// The documents that are written where they may, and the newest write of each that is stored.
    written: BTreeMap<DocumentKey, Option<SeqNo>>,
    /// The documents of these that have expired, and give up a unique value.
    giving_way: BTreeMap<DocumentKey, Option<SeqNo>>,
}

/// What a caller of [`IndexChanges::commit`] does: adds the changes of its documents.
type Fill<'f> = &'f mut dyn FnMut(&mut IndexChanges, &HeldBatch<'_>) -> Result<()>;

impl IndexChanges {
    /// Creates the changes of a commit of at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            list: Vec::new(),
            bytes: 0,
            bytes_max,
            unseen: Vec::new(),
            owners: Vec::new(),
            written: BTreeMap::new(),
            giving_way: BTreeMap::new(),
        }
    }

    /// Adds what changes when the document of `key` in `owner` goes from `old`, the stored one, to
    /// `new`.
    ///
    /// # Errors
    /// InvalidInput if an index cannot hold `new`; Corruption.
    pub(super) fn add(
        &mut self,
        owner: &Arc<KeyspaceCore>,
        key: &[u8],
        old: &StoredPut,
        new: Option<Stated<'_>>,
    ) -> Result<()> {
        let set = owner.owned_set();
        self.note_written(owner, &set, key, old);
        self.add_entries_of(owner, &set, key, old, new)
    }

    /// Adds a put of the unique `entry` of the document of `key` in `owner`, if it has it. The
    /// document stays as it is.
    ///
    /// # Errors
    /// Corruption.
    pub(super) fn add_again(
        &mut self,
        owner: &Arc<KeyspaceCore>,
        key: &[u8],
        old: &StoredPut,
        core: &Arc<KeyspaceCore>,
        index: &IndexState,
        entry: &[u8],
    ) -> Result<()> {
        let Some(bytes) = old.value.as_deref() else { return Ok(()) };
        let Some(documents) = owner.attachment().downcast_ref::<Documents>() else {
            return Ok(());
        };
        let root = root(bytes, documents).map_err(|malformed| corrupt(owner, malformed))?;
        let entries = match DocumentEntries::of(&index.definition, &root, key, None) {
            Ok(entries) => entries,
            Err(Refusal::Malformed(malformed)) => return Err(corrupt(owner, malformed)),
            // It has no entries by now.
            Err(Refusal::Unfit(_)) => return Ok(()),
        };
        let Some((found, flags)) = entries.iter().find(|(found, _)| *found == entry) else {
            return Ok(());
        };
        self.note_written(owner, &owner.owned_set(), key, old);
        let mut value = Vec::new();
        value_of(&index.definition, flags, key, &mut value);
        self.list.push(EntryWrite {
            core: Arc::clone(core),
            key: found.to_vec(),
            put: Some((value, old.expiry)),
            primary_key: key.to_vec(),
        });
        Ok(())
    }

    /// Notes the document of `key`, and its newest write, if it must be locked with unique values.
    fn note_written(
        &mut self,
        owner: &Arc<KeyspaceCore>,
        set: &OwnedSet,
        key: &[u8],
        old: &StoredPut,
    ) {
        if has_unique(set) {
            let known = self.owners.iter().find(|(known, _)| known.id() == owner.id());
            let expires = known.map_or_else(|| owner.expires(), |(_, expires)| *expires);
            if known.is_none() {
                self.owners.push((Arc::clone(owner), expires));
            }
            if expires {
                self.written.insert(place(owner, key), old.seqno);
            }
        }
    }

    fn add_entries_of(
        &mut self,
        owner: &Arc<KeyspaceCore>,
        set: &OwnedSet,
        key: &[u8],
        old: &StoredPut,
        new: Option<Stated<'_>>,
    ) -> Result<()> {
        let old = old.value.as_deref().map(|bytes| (bytes, old.expiry));
        let Some(documents) = owner.attachment().downcast_ref::<Documents>() else {
            return Ok(());
        };
        let corrupt = |malformed| corrupt(owner, malformed);
        let old_root = old.map(|(bytes, _)| root(bytes, documents)).transpose().map_err(corrupt)?;
        let new_root = new.map(|(bytes, _)| root(bytes, documents)).transpose().map_err(corrupt)?;
        for core in &set.keyspaces {
            let Some(index) = index_of(core) else { continue };
            let of = |root: Option<View<'_>>, bytes_max| {
                root.map(|root| DocumentEntries::of(&index.definition, &root, key, bytes_max))
                    .transpose()
            };
            let before = match of(old_root, None) {
                Ok(entries) => entries,
                Err(Refusal::Malformed(malformed)) => return Err(corrupt(malformed)),
                // It was written before the index, which cannot hold it: its build will fail.
                Err(Refusal::Unfit(_)) => None,
            };
            let after = of(new_root, Some(self.bytes_max)).map_err(|refusal| match refusal {
                Refusal::Malformed(malformed) => corrupt(malformed),
                Refusal::Unfit(error) => error,
            })?;
            let (before, after) = (state(before.as_ref(), old), state(after.as_ref(), new));
            self.add_entries(core, index, key, before, after)?;
        }
        Ok(())
    }

    fn add_entries(
        &mut self,
        core: &Arc<KeyspaceCore>,
        index: &IndexState,
        primary_key: &[u8],
        old: Option<DocumentState<'_>>,
        new: Option<DocumentState<'_>>,
    ) -> Result<()> {
        if let Some(new) = new {
            let known = index.seen();
            if known.with(new.entries.seen) != known {
                self.unseen.push((Arc::clone(core), new.entries.seen));
            }
        }
        let expiry = new.and_then(|new| new.expiry);
        let is_unique = index.definition.is_unique;
        differences(old, new, is_unique, |change| {
            let (key, put) = match change {
                EntryDifference::Delete(key) => (key, None),
                EntryDifference::Put(key, flags) => {
                    let mut value = Vec::new();
                    value_of(&index.definition, flags, primary_key, &mut value);
                    (key, Some((value, expiry)))
                }
            };
            let primary_key = if is_unique { primary_key.to_vec() } else { Vec::new() };
            let value_bytes = put.as_ref().map_or(0, |(value, _)| value.len());
            self.bytes += (key.len() + value_bytes) as u64;
            if self.bytes > self.bytes_max {
                return Err(too_large_with_owned(self.bytes_max));
            }
            self.list.push(EntryWrite {
                core: Arc::clone(core),
                key: key.to_vec(),
                put,
                primary_key,
            });
            Ok(())
        })
    }

    /// Adds what changes with the operations of `held`. The last one of a key counts.
    pub(super) fn add_held(&mut self, held: &HeldBatch<'_>) -> Result<()> {
        let mut last: BTreeMap<(u32, &[u8]), usize> = BTreeMap::new();
        let mut dated = Dated::default();
        for at in 0..held.len() {
            let op = held.op(at);
            dated.note(held, at);
            if !op.keyspace.has_owned() && !held.is_dated() {
                continue;
            }
            match op.effect.kind() {
                Kind::Put | Kind::Delete => {
                    last.insert((op.keyspace.id().0, op.key), at);
                }
                // It touches no path of any index.
                Kind::Merge => {}
                Kind::RangeDelete if !op.keyspace.has_owned() => {}
                Kind::RangeDelete => {
                    return Err(Error::invalid("a range of an indexed collection in a batch"));
                }
            }
        }
        for at in last.into_values() {
            let op = held.op(at);
            let new = match op.effect.kind() {
                Kind::Put => Some((op.value, self.expiry_of(&op, dated.given(&op))?)),
                _ => None,
            };
            if op.keyspace.has_owned() {
                self.add(op.keyspace, op.key, &held.get_stored(op.keyspace, op.key)?, new)?;
            }
        }
        Ok(())
    }

    /// Returns when the document of a put expires, to which its caller gave the expiry `given`. If
    /// a date in it decides, and the write does not know that, or it does not decide any more,
    /// another write of the document is added.
    fn expiry_of(&mut self, op: &HeldOp<'_>, given: Option<Moment>) -> Result<Option<Moment>> {
        let expiry = expiry_by_date(op.keyspace, op.value, given)?;
        if expiry != op.effect.expiry() {
            self.list.push(EntryWrite {
                core: Arc::clone(op.keyspace),
                key: op.key.to_vec(),
                put: Some((op.value.to_vec(), expiry)),
                primary_key: Vec::new(),
            });
        }
        Ok(expiry)
    }

    /// Adds the removal of each document that has expired and has a unique value that is given to
    /// another one. If the clock is wrong, and then set right, only one of them may be there.
    /// Returns what was read for the changes so far.
    fn remove_expired_holders(&mut self, held: &HeldBatch<'_>) -> Result<unique::StoredEntries> {
        let (expired, stored) = unique::expired_holders(held, &self.list)?;
        for (core, entry, key) in expired {
            let Some(owner) = core.owner().and_then(|id| self.owner(id.0)) else { continue };
            let owner = Arc::clone(owner);
            let at = place(&owner, &key);
            if self.written.contains_key(&at)
                || self.giving_way.contains_key(&at)
                || held.get(&owner, &key)?.value.is_some()
            {
                continue;
            }
            let old = held.get_stored(&owner, &key)?;
            if old.value.is_none() {
                continue;
            }
            let first = self.list.len();
            self.add_entries_of(&owner, &owner.owned_set(), &key, &old, None)?;
            // The entry may be one of an earlier document, which was removed from tables before it.
            let has_it = |change: &EntryWrite| change.core.id() == core.id() && change.key == entry;
            if !self.list[first..].iter().any(has_it) {
                self.list.truncate(first);
                continue;
            }
            self.list.push(EntryWrite { core: owner, key, put: None, primary_key: Vec::new() });
            self.giving_way.insert(at, old.seqno);
        }
        Ok(stored)
    }

    /// Returns the changes, and what the catalog must know of indexes before they are committed.
    pub(super) fn into_parts(self) -> (Vec<EntryWrite>, Vec<(Arc<KeyspaceCore>, Seen)>) {
        (self.list, self.unseen)
    }

    /// Makes the changes that `fill` adds a part of the commit. It is called again if a document
    /// was removed meanwhile for another one that has got its unique value.
    ///
    /// # Errors
    /// Those of `fill`; Duplicate for a value that another document has; those of
    /// [`HeldBatch::set_note`].
    pub(super) fn commit(held: &mut HeldBatch<'_>, fill: Fill<'_>) -> Result<()> {
        let mut is_first = true;
        loop {
            let mut changes = Self::new(held.batch_bytes_max());
            fill(&mut changes, held)?;
            let own = changes.list.len();
            // Few documents give way to others. So the values are looked up only once, under the
            // locks: if a document has to give way, that must be locked, too.
            if !std::mem::take(&mut is_first) {
                changes.remove_expired_holders(held)?;
            }
            let (locked, mut stored) = (changes.locked(), Vec::new());
            if !locked.is_empty() {
                let read_at = held.seqno();
                held.lock_also(&locked);
                match changes.look_again(held, read_at, own)? {
                    Some(found) => stored = found,
                    None => continue,
                }
            }
            return changes.finish(held, stored);
        }
    }

    /// Refuses unique values that the document of `key` in `owner` gets as it goes from `old` to
    /// `new`, if other documents have them. They are locked.
    ///
    /// # Errors
    /// Duplicate; errors of reading.
    pub(super) fn check_values(
        held: &HeldBatch<'_>,
        owner: &Arc<KeyspaceCore>,
        key: &[u8],
        old: StoredPut,
        new: &[u8],
    ) -> Result<()> {
        let mut changes = Self::new(held.batch_bytes_max());
        // Without an expiry only entries that differ change.
        let old = StoredPut { expiry: None, ..old };
        changes.add(owner, key, &old, Some((new, None)))?;
        unique::check(held, &mut changes.list, Vec::new())
    }

    /// What is locked besides the keys that are written: unique values, and, where documents that
    /// have them may expire, the keys of documents.
    fn locked(&self) -> Vec<(Arc<KeyspaceCore>, Vec<u8>)> {
        let mut locked = unique::values(&self.list);
        for (id, key) in self.written.keys().chain(self.giving_way.keys()) {
            locked.extend(self.owner(*id).map(|owner| (Arc::clone(owner), key.clone())));
        }
        locked
    }

    fn owner(&self, id: u32) -> Option<&Arc<KeyspaceCore>> {
        self.owners.iter().map(|(owner, _)| owner).find(|owner| owner.id().0 == id)
    }

    /// Looks whether documents are still as they were at the SeqNo `read_at`, and the same ones
    /// give way, now that all is locked. Returns `None` if not, else what was read for that. The
    /// first `own` changes of the list are those of the caller.
    fn look_again(
        &self,
        held: &HeldBatch<'_>,
        read_at: SeqNo,
        own: usize,
    ) -> Result<Option<unique::StoredEntries>> {
        // The first document that expires may have come meanwhile.
        if self.owners.iter().any(|(owner, expires)| owner.expires() != *expires) {
            return Ok(None);
        }
        if self.written.is_empty() {
            return Ok(Some(Vec::new()));
        }
        for ((id, key), seqno) in self.written.iter().filter(|_| held.seqno() != read_at) {
            if let Some(owner) = self.owner(*id)
                && held.get_stored(owner, key)?.seqno != *seqno
            {
                return Ok(None);
            }
        }
        // Values may have got another holder, and one that lived may have expired.
        let mut again = Self {
            list: self.list[..own].iter().map(EntryWrite::key_only).collect(),
            owners: self.owners.clone(),
            written: self.written.clone(),
            ..Self::new(self.bytes_max)
        };
        let stored = again.remove_expired_holders(held)?;
        Ok((again.giving_way == self.giving_way).then_some(stored))
    }

    /// Checks unique values, which are locked, tells the catalog what is new to indexes, and makes
    /// the changes a part of the commit. `stored` is what was read of their places.
    fn finish(mut self, held: &mut HeldBatch<'_>, stored: unique::StoredEntries) -> Result<()> {
        unique::check(held, &mut self.list, stored)?;
        for (core, seen) in &self.unseen {
            let Some(index) = index_of(core) else { continue };
            index.note_seen(*seen, |note| held.set_note(core, note))?;
        }
        EntryWrite::sort(&mut self.list);
        for change in &self.list {
            match &change.put {
                None => held.push(&change.core, Kind::Delete, &change.key, b"")?,
                Some((value, expiry)) => {
                    held.push(&change.core, Effect::put(*expiry), &change.key, value)?;
                }
            }
        }
        Ok(())
    }
}

fn place(owner: &KeyspaceCore, key: &[u8]) -> DocumentKey {
    (owner.id().0, key.to_vec())
}

/// Returns whether one of these indexes is unique.
pub(super) fn has_unique(set: &OwnedSet) -> bool {
    let mut indexes = set.keyspaces.iter().filter_map(|core| index_of(core));
    indexes.any(|index| index.definition.is_unique)
}

/// The puts of a batch from the first one on whose expiry a date in the document has decided when
/// the batch was filled: of each key the last one, its expiry, and the one that the caller gave.
#[derive(Default)]
struct Dated(BTreeMap<DocumentKey, (Option<Moment>, Option<Moment>)>);

impl Dated {
    fn note(&mut self, held: &HeldBatch<'_>, at: usize) {
        if let Some(given) = held.given(at) {
            let op = held.op(at);
            self.0.insert(place(op.keyspace, op.key), (op.effect.expiry(), given));
        }
    }

    /// Returns the expiry that the caller gave the last put of a key. A patch after it has kept the
    /// expiry that it found.
    fn given(&self, op: &HeldOp<'_>) -> Option<Moment> {
        let expiry = op.effect.expiry();
        if self.0.is_empty() {
            return expiry;
        }
        match self.0.get(&place(op.keyspace, op.key)) {
            Some((dated, given)) if *dated == expiry => *given,
            _ => expiry,
        }
    }
}

/// Returns when the document `bytes` of `owner` expires, if a write gives it the expiry `given`.
///
/// # Errors
/// Corruption if the bytes are not a document.
pub(super) fn expiry_by_date(
    owner: &KeyspaceCore,
    bytes: &[u8],
    given: Option<Moment>,
) -> Result<Option<Moment>> {
    let documents = owner.attachment().downcast_ref::<Documents>();
    let Some(documents) = documents.filter(|_| dates_decide(owner)) else { return Ok(given) };
    let found = root(bytes, documents).and_then(|root| by_date(owner, &root));
    Ok(found.map_err(|malformed| corrupt(owner, malformed))?.or(given))
}

/// As [`expiry_by_date`], for a stored document with the expiry `old`, after an index of the
/// definition `dropped` was dropped: a moment that came from it counts no more.
pub(super) fn expiry_after_drop(
    owner: &KeyspaceCore,
    bytes: &[u8],
    dropped: &Definition,
    old: Option<Moment>,
) -> Result<Option<Moment>> {
    let Some(documents) = owner.attachment().downcast_ref::<Documents>() else { return Ok(old) };
    let moment = root(bytes, documents).and_then(|root| moment_by(dropped, &root));
    let moment = moment.map_err(|malformed| corrupt(owner, malformed))?;
    expiry_by_date(owner, bytes, old.filter(|old| Some(*old) != moment))
}

/// Returns the expiry of its own of a stored document with the expiry `old`: none if the moment is
/// that of an index.
pub(crate) fn own_expiry(
    owner: &KeyspaceCore,
    bytes: &[u8],
    old: Option<Moment>,
) -> Result<Option<Moment>> {
    if old.is_none() {
        return Ok(None);
    }
    let by_index = expiry_by_date(owner, bytes, None)?;
    Ok(old.filter(|_| old != by_index))
}

fn root<'a>(bytes: &'a [u8], documents: &'a Documents) -> Result<View<'a>, Malformed> {
    View::of(bytes, Some(documents.names()))
}

fn state<'a>(
    entries: Option<&'a DocumentEntries>,
    stated: Option<Stated<'_>>,
) -> Option<DocumentState<'a>> {
    let expiry = stated.and_then(|(_, expiry)| expiry);
    entries.map(|entries| DocumentState { entries, expiry })
}

#[cold]
fn corrupt(owner: &KeyspaceCore, malformed: Malformed) -> Error {
    let text = format!("a stored document of {:?}, {malformed}", owner.name());
    Error::new(ErrorKind::Corruption, text)
}
