//! The catalog: all keyspaces by name, by number and by tree; the next numbers; the epoch.
//!
//! The rule that must never break: a number is assigned once, even if its keyspace or tree is gone.
//! So the manifest also holds the next numbers.

use super::name::check_name;
use super::record::{KeyspaceContent, KeyspaceRecord};
use crate::options::KeyspaceOptions;
use flagstone_base::{Error, ErrorKind, KeyspaceId, Result, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The next numbers, and the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
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
    by_name: BTreeMap<String, KeyspaceId>,
    by_tree: BTreeMap<TreeId, KeyspaceId>,
    counters: Counters,
}

impl Default for Catalog {
    fn default() -> Self {
        let counters = Counters { next_keyspace: KeyspaceId(1), next_tree: TreeId(1), epoch: 0 };
        Self {
            by_id: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_tree: BTreeMap::new(),
            counters,
        }
    }
}

/// A keyspace that a caller wants to create.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) content: &'a KeyspaceContent,
    pub(crate) options: &'a KeyspaceOptions,
}

/// The change of the catalog by one edit: creates, then alters, then drops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogChange<'a> {
    pub(crate) created: &'a [KeyspaceRecord],
    pub(crate) altered: &'a [KeyspaceRecord],
    pub(crate) dropped: &'a [KeyspaceId],
    /// Set only by a snapshot.
    pub(crate) counters: Option<Counters>,
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
        self.by_id.get(&self.id_of(name)?)
    }

    /// Returns the number of the keyspace named `name`.
    pub(super) fn id_of(&self, name: &str) -> Option<KeyspaceId> {
        self.by_name.get(name).copied()
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
    pub(crate) const fn counters(&self) -> Counters {
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
        wanted: Wanted<'_>,
        seed: u64,
        free: &mut Counters,
    ) -> Result<KeyspaceRecord> {
        let Wanted { name, content, options } = wanted;
        check_name(name)?;
        options.check()?;
        content.check().map_err(|expected| {
            Error::invalid(format!("keyspace {name:?} holds {content}: expected {expected}"))
        })?;
        if self.by_name.contains_key(name) {
            return Err(Error::invalid(format!("there is a keyspace {name:?} already")));
        }
        let Counters { next_keyspace, next_tree, .. } = *free;
        let partitions = options.routing_of_new().partitions() as u32;
        if next_keyspace.0 == u32::MAX || next_tree.0.checked_add(partitions).is_none() {
            let text = "the 2^32 numbers of keyspaces and trees are used up";
            return Err(Error::new(ErrorKind::OutOfSpace, text));
        }
        let record =
            KeyspaceRecord::new(next_keyspace, name, next_tree, content.clone(), options, seed);
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
            self.by_name.insert(record.name.clone(), record.id);
            self.by_tree.extend(record.trees.iter().map(|&tree| (tree, record.id)));
            self.by_id.insert(record.id, Arc::new(record.clone()));
        }
        for record in change.altered {
            let before = self.by_id.insert(record.id, Arc::new(record.clone()));
            if let Some(before) = before.filter(|before| before.name != record.name) {
                self.by_name.remove(&before.name);
                self.by_name.insert(record.name.clone(), record.id);
            }
        }
        for id in change.dropped {
            let Some(record) = self.by_id.remove(id) else { continue };
            self.by_name.remove(&record.name);
            for tree in &record.trees {
                self.by_tree.remove(tree);
            }
        }
        match change.counters {
            Some(counters) => self.counters = counters,
            None => self.counters.epoch += 1,
        }
    }
}

impl Counters {
    /// Raises the next numbers above those of `record`.
    pub(super) fn assign(&mut self, record: &KeyspaceRecord) {
        let last = record.trees.iter().max().map_or(0, |tree| tree.0.saturating_add(1));
        self.next_tree = TreeId(self.next_tree.0.max(last));
        self.next_keyspace = KeyspaceId(self.next_keyspace.0.max(record.id.0.saturating_add(1)));
    }
}
