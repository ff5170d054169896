//! Unique indexes: no two documents have one value.
//!
//! The key of an entry is the value, so two writes of one value lock one key. A holder of a value
//! is the document whose primary key is in the entry.

use super::duplicate::DuplicateValue;
use super::entry_change::EntryWrite;
use super::show::{shown_components, shown_key};
use crate::index::{Definition, index_of};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_engine::{HeldBatch, KeyspaceCore, StoredPut};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A unique value of one index.
type UniqueValue<'a> = (u32, &'a [u8]);

fn place(change: &EntryWrite) -> UniqueValue<'_> {
    (change.core.id().0, &change.key)
}

fn is_unique(change: &&EntryWrite) -> bool {
    !change.primary_key.is_empty()
}

/// An entry, by its keyspace and its key, and the primary key that it holds.
type Holder = (Arc<KeyspaceCore>, Vec<u8>, Vec<u8>);

/// What is stored in the place of each of some changes, as far as it was read.
pub(super) type StoredEntries = Vec<Option<StoredPut>>;

/// Returns the entries that have expired among the unique values that `changes` give to other
/// documents, and what was read for that.
pub(super) fn expired_holders(
    held: &HeldBatch<'_>,
    changes: &[EntryWrite],
) -> Result<(Vec<Holder>, StoredEntries)> {
    let (mut expired, mut stored) = (Vec::new(), Vec::new());
    for (at, change) in changes.iter().enumerate().filter(|(_, change)| is_unique(change)) {
        if change.put.is_none() || !change.core.expires() {
            continue;
        }
        stored.resize(at, None);
        let found = held.get_stored(&change.core, &change.key)?;
        let expiry = found.expiry;
        let holder = found.value.as_deref().and_then(holder);
        let holder = holder.filter(|holder| *holder != change.primary_key);
        if let (Some(holder), Some(expiry)) = (holder, expiry)
            && expiry <= held.moment()
        {
            expired.push((Arc::clone(&change.core), change.key.clone(), holder.to_vec()));
        }
        stored.push(Some(found));
    }
    Ok((expired, stored))
}

/// Returns the unique values that `changes` give and take.
pub(super) fn values(changes: &[EntryWrite]) -> Vec<(Arc<KeyspaceCore>, Vec<u8>)> {
    let unique = changes.iter().filter(is_unique);
    unique.map(|change| (Arc::clone(&change.core), change.key.clone())).collect()
}

/// Refuses unique values, which are locked, that another document has. `stored` is what was read
/// under the locks already. Drops removals of entries that another document holds: while an index
/// is built, the entry of a document may be missing, and its value be given to another one.
///
/// # Errors
/// Duplicate; errors of reading.
pub(super) fn check(
    held: &HeldBatch<'_>,
    changes: &mut Vec<EntryWrite>,
    mut stored: StoredEntries,
) -> Result<()> {
    if !changes.iter().any(|change| is_unique(&change)) {
        return Ok(());
    }
    let mut given: HashMap<UniqueValue<'_>, &[u8]> = HashMap::new();
    let mut taken: HashSet<(UniqueValue<'_>, &[u8])> = HashSet::new();
    for change in changes.iter().filter(is_unique) {
        if change.put.is_none() {
            taken.insert((place(change), &change.primary_key));
        } else if let Some(other) = given.insert(place(change), &change.primary_key)
            && other != change.primary_key
        {
            return Err(duplicate(change, other));
        }
    }
    let mut stale = Vec::new();
    for (at, change) in changes.iter().enumerate().filter(|(_, change)| is_unique(change)) {
        let StoredPut { value, expiry, .. } = match stored.get_mut(at).and_then(Option::take) {
            Some(found) => found,
            None => held.get_stored(&change.core, &change.key)?,
        };
        let Some(holder) = value.as_deref().and_then(holder) else { continue };
        if holder == change.primary_key {
            continue;
        }
        let has_expired = expiry.is_some_and(|expiry| expiry <= held.moment());
        if change.put.is_none() {
            stale.push(at);
        } else if !has_expired && !taken.contains(&(place(change), holder)) {
            return Err(duplicate(change, holder));
        }
    }
    for at in stale.into_iter().rev() {
        changes.remove(at);
    }
    Ok(())
}

/// Returns the primary key in the value of a unique entry.
pub(super) fn holder(value: &[u8]) -> Option<&[u8]> {
    value.split_first().map(|(_flags, primary_key)| primary_key)
}

#[cold]
fn duplicate(change: &EntryWrite, holder: &[u8]) -> Error {
    violation(&change.core, &change.key, &change.primary_key, holder)
}

/// Returns the error for the document `key`, which cannot have the value of the entry `entry`
/// because the document `holder` has it.
#[cold]
pub(super) fn violation(core: &KeyspaceCore, entry: &[u8], key: &[u8], holder: &[u8]) -> Error {
    match index_of(core) {
        Some(index) => duplicate_of(&index.definition, entry, key, holder),
        None => Error::new(ErrorKind::Duplicate, ""),
    }
}

/// The same, for an index of this definition.
#[cold]
pub(crate) fn duplicate_of(
    definition: &Definition,
    entry: &[u8],
    key: &[u8],
    holder: &[u8],
) -> Error {
    let text = format!(
        "unique index {:?} has the value {} of key {} already: key {} cannot have it",
        definition.name,
        shown_components(definition, entry),
        shown_key(holder),
        shown_key(key),
    );
    Error::new(ErrorKind::Duplicate, text).with_detail(DuplicateValue::new(definition, entry, key))
}
