//! The index entries that change with the documents of one commit. They are computed and checked
//! under the locks of the commit, and become a part of it.
//!
//! Old documents count whether or not they have expired. The clock may be wrong: once it is set
//! right, a document that counted as expired is back, and so must be its entries, and no others.

use super::entry_change::EntryWrite;
use super::unique;
use crate::collection::core::Documents;
use crate::index::{
    Entries, EntryChange, IndexState, Refusal, Seen, State, Status, by_date, dates_decide,
    differences, index_of, value_of,
};
use flagstone_base::{Error, ErrorKind, Kind, Malformed, Moment, Result, Slice};
use flagstone_doc::View;
use flagstone_engine::{Effect, HeldBatch, HeldOp, KeyspaceCore};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a document with its expiry.
pub(super) type Stated<'a> = (&'a [u8], Option<Moment>);

/// The changes of all indexes in one commit.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) list: Vec<EntryWrite>,
    /// What the catalog must know of indexes before the commit.
    unseen: Vec<(Arc<KeyspaceCore>, Seen)>,
    /// The collections in which documents with unique values may expire.
    owners: Vec<Arc<KeyspaceCore>>,
    /// The documents of these that are written.
    written: BTreeSet<(u32, Vec<u8>)>,
}

/// A document that has expired, and gives up a unique value.
struct GivesWay {
    owner: Arc<KeyspaceCore>,
    key: Vec<u8>,
    bytes: Slice,
    /// The changes of its removal in the list.
    changes: Range<usize>,
}

impl Changes {
    /// Adds what changes when the document of `key` in `owner` goes from `old`, the stored one, to
    /// `new`.
    ///
    /// # Errors
    /// InvalidInput if an index cannot hold `new`; Corruption.
    pub(super) fn add(
        &mut self,
        owner: &Arc<KeyspaceCore>,
        key: &[u8],
        old: Option<Stated<'_>>,
        new: Option<Stated<'_>>,
    ) -> Result<()> {
        let Some(documents) = owner.attachment().downcast_ref::<Documents>() else {
            return Ok(());
        };
        let corrupt = |malformed| corrupt(owner, malformed);
        let old_root = old.map(|old| root(old, documents)).transpose().map_err(corrupt)?;
        let new_root = new.map(|new| root(new, documents)).transpose().map_err(corrupt)?;
        let set = owner.owned_set();
        let is_unique = |core| index_of(core).is_some_and(|index| index.definition.is_unique);
        if owner.expires() && set.keyspaces.iter().any(|core| is_unique(core)) {
            if self.owners.iter().all(|known| known.id() != owner.id()) {
                self.owners.push(Arc::clone(owner));
            }
            self.written.insert((owner.id().0, key.to_vec()));
        }
        for core in &set.keyspaces {
            let Some(index) = index_of(core) else { continue };
            let of = |root: Option<View<'_>>| {
                root.map(|root| Entries::of(&index.definition, &root, key)).transpose()
            };
            let before = match of(old_root) {
                Ok(entries) => entries,
                Err(Refusal::Malformed(malformed)) => return Err(corrupt(malformed)),
                // It was written before the index, which cannot hold it: its build will fail.
                Err(Refusal::Unfit(_)) => None,
            };
            let after = of(new_root).map_err(|refusal| match refusal {
                Refusal::Malformed(malformed) => corrupt(malformed),
                Refusal::Unfit(error) => error,
            })?;
            let states = (state(before.as_ref(), old), state(after.as_ref(), new));
            self.add_entries((core, index), key, states)?;
        }
        Ok(())
    }

    fn add_entries(
        &mut self,
        (core, index): (&Arc<KeyspaceCore>, &IndexState),
        primary_key: &[u8],
        (old, new): (Option<State<'_>>, Option<State<'_>>),
    ) -> Result<()> {
        if let Some(new) = new {
            let known = index.seen();
            if known.with(new.entries.seen) != known {
                self.unseen.push((Arc::clone(core), new.entries.seen));
            }
        }
        let expiry = new.and_then(|new| new.expiry);
        let is_unique = index.definition.is_unique;
        differences((old, new), is_unique, |change| {
            let (key, put) = match change {
                EntryChange::Delete(key) => (key, None),
                EntryChange::Put(key, flags) => {
                    let mut value = Vec::new();
                    value_of(&index.definition, flags, primary_key, &mut value);
                    (key, Some((value, expiry)))
                }
            };
            let primary_key = if is_unique { primary_key.to_vec() } else { Vec::new() };
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
        for at in 0..held.len() {
            let op = held.op(at);
            if !op.keyspace.has_owned() {
                continue;
            }
            match op.effect.kind() {
                Kind::Put | Kind::Delete => {
                    last.insert((op.keyspace.id().0, op.key), at);
                }
                // It touches no path of any index.
                Kind::Merge => {}
                Kind::RangeDelete => {
                    return Err(Error::invalid("a range of an indexed collection in a batch"));
                }
            }
        }
        for at in last.into_values() {
            let op = held.op(at);
            let (old, expiry) = held.get_stored(op.keyspace, op.key)?;
            let old = old.as_deref().map(|bytes| (bytes, expiry));
            let new = match op.effect.kind() {
                Kind::Put => Some((op.value, self.expiry_of(&op)?)),
                _ => None,
            };
            self.add(op.keyspace, op.key, old, new)?;
        }
        Ok(())
    }

    /// Returns when the document of a put expires. If a date in it decides, and the write does not
    /// know that, another write of the document is added.
    fn expiry_of(&mut self, op: &HeldOp<'_>) -> Result<Option<Moment>> {
        let given = op.effect.expiry();
        let expiry = expiry_by_date(op.keyspace, op.value, given)?;
        if expiry != given {
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
    fn remove_expired_holders(&mut self, held: &HeldBatch<'_>) -> Result<Vec<GivesWay>> {
        let mut giving_way: Vec<GivesWay> = Vec::new();
        for (core, entry, key) in unique::expired_holders(held, &self.list)? {
            let owner = self.owners.iter().find(|owner| Some(owner.id()) == core.owner());
            let Some(owner) = owner.map(Arc::clone) else { continue };
            let is_written = self.written.contains(&(owner.id().0, key.clone()));
            if is_written || held.get(&owner, &key)?.value.is_some() {
                continue;
            }
            let (Some(bytes), expiry) = held.get_stored(&owner, &key)? else { continue };
            let first = self.list.len();
            self.add(&owner, &key, Some((&bytes, expiry)), None)?;
            // The entry may be one of an earlier document, which was removed from tables before it.
            let has_it = |change: &EntryWrite| change.core.id() == core.id() && change.key == entry;
            if !self.list[first..].iter().any(has_it) {
                self.list.truncate(first);
                continue;
            }
            self.list.push(EntryWrite {
                core: Arc::clone(&owner),
                key: key.clone(),
                put: None,
                primary_key: Vec::new(),
            });
            let changes = first..self.list.len();
            giving_way.push(GivesWay { owner, key, bytes, changes });
        }
        Ok(giving_way)
    }

    /// Returns the changes, and what the catalog must know of indexes before they are committed.
    pub(super) fn into_parts(self) -> (Vec<EntryWrite>, Vec<(Arc<KeyspaceCore>, Seen)>) {
        (self.list, self.unseen)
    }

    /// Checks unique values, tells the catalog what is new to indexes, and makes the changes a part
    /// of the commit.
    ///
    /// # Errors
    /// Duplicate for a value that another document has; those of [`HeldBatch::set_note`].
    pub(super) fn finish(mut self, held: &mut HeldBatch<'_>) -> Result<()> {
        let giving_way = self.remove_expired_holders(held)?;
        unique::lock(held, &self.list)?;
        for GivesWay { owner, key, bytes, changes } in giving_way.into_iter().rev() {
            // Another commit may have removed or replaced it before the values were locked.
            if held.get_stored(&owner, &key)?.0.as_ref() != Some(&bytes) {
                self.list.drain(changes);
            }
        }
        unique::check(held, &mut self.list)?;
        for (core, seen) in &self.unseen {
            let Some(index) = index_of(core) else { continue };
            let change = |status: &mut Status| status.seen = status.seen.with(*seen);
            index.change(change, |note| held.set_note(core, note))?;
        }
        // An entry that one document gives up may be that of another one now.
        self.list.sort_by_key(|change| change.put.is_some());
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
    let found = root((bytes, None), documents).and_then(|root| by_date(owner, &root));
    Ok(found.map_err(|malformed| corrupt(owner, malformed))?.or(given))
}

fn root<'a>((bytes, _): Stated<'a>, documents: &'a Documents) -> Result<View<'a>, Malformed> {
    View::of(bytes, Some(documents.names()))
}

fn state<'a>(entries: Option<&'a Entries>, stated: Option<Stated<'_>>) -> Option<State<'a>> {
    let expiry = stated.and_then(|(_, expiry)| expiry);
    entries.map(|entries| State { entries, expiry })
}

#[cold]
fn corrupt(owner: &KeyspaceCore, malformed: Malformed) -> Error {
    let text = format!("a stored document of {:?}, {malformed}", owner.name());
    Error::new(ErrorKind::Corruption, text)
}
