//! The catalog: all keyspaces by name, by number and by tree; the next numbers; the epoch.
//!
//! The rule that must never break: a number is assigned once, even if its keyspace or tree is gone.
//! So the manifest also holds the next numbers.

use super::name::check_name;
use super::owned::OwnedRecord;
use super::record::{KeyspaceContent, KeyspaceRecord, TOP};
use crate::options::KeyspaceOptions;
use flagstone_base::{Error, ErrorKind, KeyspaceId, Result, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The next numbers, and the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatalogCounters {
    /// The number of the next keyspace.
    pub(crate) next_keyspace: KeyspaceId,
    /// The number of the next tree.
    pub(crate) next_tree: TreeId,
    /// How many edits have changed the catalog.
    pub(crate) epoch: u64,
}

/// All keyspaces. The cost of a change does not depend on how many keyspaces there are; a clone
/// copies the maps and shares the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Catalog {
    by_id: BTreeMap<KeyspaceId, Arc<KeyspaceRecord>>,
    /// The names of the keyspaces of each owner, and at [`TOP`] those of the keyspaces without one.
    names: BTreeMap<KeyspaceId, BTreeMap<String, KeyspaceId>>,
    by_tree: BTreeMap<TreeId, KeyspaceId>,
    counters: CatalogCounters,
}

impl Default for Catalog {
    fn default() -> Self {
        let counters =
            CatalogCounters { next_keyspace: KeyspaceId(1), next_tree: TreeId(1), epoch: 0 };
        Self { by_id: BTreeMap::new(), names: BTreeMap::new(), by_tree: BTreeMap::new(), counters }
    }
}

/// A keyspace that a caller wants to create.
#[derive(Clone, Copy)]
pub(crate) struct NewKeyspace<'a> {
    pub(crate) name: &'a str,
    pub(crate) content: &'a KeyspaceContent,
    pub(crate) options: &'a KeyspaceOptions,
    /// The owner, if there is one, and what the record says of it.
    pub(crate) owned: Option<&'a OwnedRecord>,
}

/// The change of the catalog by one edit: creates, then alters, then drops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogChange<'a> {
    pub(crate) created: &'a [KeyspaceRecord],
    pub(crate) altered: &'a [KeyspaceRecord],
    pub(crate) dropped: &'a [KeyspaceId],
    /// Set only by a snapshot.
    pub(crate) counters: Option<CatalogCounters>,
}

impl CatalogChange<'_> {
    const fn is_empty(&self) -> bool {
        self.created.is_empty()
            && self.altered.is_empty()
            && self.dropped.is_empty()
            && self.counters.is_none()
    }
}

impl Catalog {
    /// Returns the keyspace named `name`.
    #[cfg(test)]
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<KeyspaceRecord>> {
        self.by_id.get(&self.id_of(TOP, name)?)
    }

    /// Returns the number of the keyspace named `name` of the owner `scope`, or of none at [`TOP`].
    pub(super) fn id_of(&self, scope: KeyspaceId, name: &str) -> Option<KeyspaceId> {
        self.names.get(&scope)?.get(name).copied()
    }

    /// Returns the numbers of the keyspaces that `owner` owns.
    pub(crate) fn owned_by(&self, owner: KeyspaceId) -> impl Iterator<Item = KeyspaceId> {
        self.names.get(&owner).into_iter().flat_map(|names| names.values().copied())
    }

    /// Returns the keyspace with number `id`.
    pub(crate) fn by_id(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceRecord>> {
        self.by_id.get(&id)
    }

    /// Returns the keyspace of which `tree` is a partition.
    pub(crate) fn keyspace_of(&self, tree: TreeId) -> Option<KeyspaceId> {
        self.by_tree.get(&tree).copied()
    }

    /// Returns all keyspaces in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<KeyspaceRecord>> {
        self.by_id.values()
    }

    /// Returns the numbers of all trees in ascending order.
    #[cfg(test)]
    pub(crate) fn trees(&self) -> impl Iterator<Item = TreeId> {
        self.by_tree.keys().copied()
    }

    /// Returns the next numbers and the epoch.
    pub(crate) const fn counters(&self) -> CatalogCounters {
        self.counters
    }

    /// Returns the epoch: the number of edits that created, altered or dropped keyspaces.
    #[cfg(test)]
    pub(crate) const fn epoch(&self) -> u64 {
        self.counters.epoch
    }

    /// Returns the record of a keyspace to be created. It takes its numbers from `free`: a copy of
    /// [`Catalog::counters`], passed on from one call to the next when an edit creates several
    /// keyspaces. The catalog changes only when that edit is appended to the manifest, so plan and
    /// append happen under the manifest's lock.
    ///
    /// # Errors
    /// InvalidInput for a bad name, options out of range, or a name that is taken; OutOfSpace when
    /// the 32-bit numbers are used up.
    pub(crate) fn plan(
        &self,
        wanted: NewKeyspace<'_>,
        seed: u64,
        free: &mut CatalogCounters,
    ) -> Result<KeyspaceRecord> {
        let NewKeyspace { name, content, options, owned } = wanted;
        check_name(name)?;
        options.check()?;
        content.check().map_err(|expected| {
            Error::invalid(format!("keyspace {name:?} holds {content}: expected {expected}"))
        })?;
        if self.id_of(owned.map_or(TOP, |owned| owned.owner), name).is_some() {
            return Err(Error::invalid(format!("there is a keyspace {name:?} already")));
        }
        let CatalogCounters { next_keyspace, next_tree, .. } = *free;
        let partitions = options.routing_of_new().partitions() as u32;
        if next_keyspace.0 == u32::MAX || next_tree.0.checked_add(partitions).is_none() {
            let text = "the 2^32 numbers of keyspaces and trees are used up";
            return Err(Error::new(ErrorKind::OutOfSpace, text));
        }
        let mut record =
            KeyspaceRecord::new(next_keyspace, name, next_tree, content.clone(), options, seed);
        record.owned = owned.cloned();
        free.assign(&record);
        Ok(record)
    }

    /// Applies a change that was checked against this state of the catalog, by
    /// [`ChangedCatalog`](super::ChangedCatalog).
    pub(crate) fn apply(&mut self, change: &CatalogChange<'_>) {
        if change.is_empty() {
            return;
        }
        for record in change.created {
            self.counters.assign(record);
            self.insert_name(record);
            self.by_tree.extend(record.trees.iter().map(|&tree| (tree, record.id)));
            self.by_id.insert(record.id, Arc::new(record.clone()));
        }
        for record in change.altered {
            let before = self.by_id.insert(record.id, Arc::new(record.clone()));
            let Some(before) = before else { continue };
            if before.name != record.name {
                self.remove_name(&before);
                self.insert_name(record);
            }
            if before.trees != record.trees {
                for tree in &before.trees {
                    self.by_tree.remove(tree);
                }
                self.by_tree.extend(record.trees.iter().map(|&tree| (tree, record.id)));
                self.counters.assign(record);
            }
        }
        for id in change.dropped {
            let Some(record) = self.by_id.remove(id) else { continue };
            self.remove_name(&record);
            for tree in &record.trees {
                self.by_tree.remove(tree);
            }
        }
        match change.counters {
            Some(counters) => self.counters = counters,
            None => self.counters.epoch += 1,
        }
    }

    fn insert_name(&mut self, record: &KeyspaceRecord) {
        let names = self.names.entry(record.scope()).or_default();
        names.insert(record.name.clone(), record.id);
    }

    fn remove_name(&mut self, record: &KeyspaceRecord) {
        let Some(names) = self.names.get_mut(&record.scope()) else { return };
        names.remove(&record.name);
        if names.is_empty() {
            self.names.remove(&record.scope());
        }
    }
}

impl CatalogCounters {
    /// Raises the next numbers above those of `record`.
    pub(super) fn assign(&mut self, record: &KeyspaceRecord) {
        let last = record.trees.iter().max().map_or(0, |tree| tree.0.saturating_add(1));
        self.next_tree = TreeId(self.next_tree.0.max(last));
        self.next_keyspace = KeyspaceId(self.next_keyspace.0.max(record.id.0.saturating_add(1)));
    }
}
