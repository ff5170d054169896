//! The catalog: every keyspace by name, by number and by tree; the next numbers; the epoch.
//!
//! The rule that must never break: a number, once given, is never given again, even when what it
//! stood for is gone. So the next numbers stand in the manifest beside the keyspaces.

use super::record::{KeyspaceContent, KeyspaceRecord};
use crate::options::KeyspaceOptions;
use flagstone_base::{Error, ErrorKind, KeyspaceId, Result, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest name of a keyspace.
const NAME_BYTES_MAX: usize = 255;

/// Refuses a name that is empty, longer than 255 bytes or holds control characters.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a keyspace name has {} bytes: expected 1 to {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if let Some(control) = name.chars().find(|c| c.is_control()) {
        return Err(Error::invalid(format!(
            "the keyspace name {name:?} holds the control character {control:?}"
        )));
    }
    Ok(())
}

/// The numbers that outlive what they were given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// The number of the next keyspace.
    pub(crate) next_keyspace: KeyspaceId,
    /// The number of the next tree.
    pub(crate) next_tree: TreeId,
    /// How often the catalog changed.
    pub(crate) epoch: u64,
}

/// All keyspaces. A clone copies the maps and shares the records.
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

/// What an edit does to the catalog: creates, then alters, then drops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogChange<'a> {
    pub(crate) created: &'a [KeyspaceRecord],
    pub(crate) altered: &'a [KeyspaceRecord],
    pub(crate) dropped: &'a [KeyspaceId],
    /// Given by a snapshot only.
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
    /// The keyspace of this name.
    #[cfg(test)]
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<KeyspaceRecord>> {
        self.by_id.get(self.by_name.get(name)?)
    }

    /// The keyspace of this number.
    pub(crate) fn by_id(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceRecord>> {
        self.by_id.get(&id)
    }

    /// The keyspace that a tree is a partition of.
    pub(crate) fn keyspace_of(&self, tree: TreeId) -> Option<KeyspaceId> {
        self.by_tree.get(&tree).copied()
    }

    /// Every keyspace, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<KeyspaceRecord>> {
        self.by_id.values()
    }

    /// Every tree, by number.
    pub(crate) fn trees(&self) -> impl Iterator<Item = TreeId> {
        self.by_tree.keys().copied()
    }

    /// The next numbers and the epoch.
    pub(crate) const fn counters(&self) -> Counters {
        self.counters
    }

    /// How often the catalog changed: by one for each edit that creates, alters or drops.
    #[cfg(test)]
    pub(crate) const fn epoch(&self) -> u64 {
        self.counters.epoch
    }

    /// The record of a keyspace to be created, with the next free numbers. Nothing changes until an
    /// edit with it is appended to the manifest, so both happen under the manifest's lock.
    ///
    /// # Errors
    /// InvalidInput for a bad name, options out of range, or a name that is taken; OutOfSpace when
    /// the numbers of 32 bits are used up.
    pub(crate) fn plan(
        &self,
        name: &str,
        content: KeyspaceContent,
        options: &KeyspaceOptions,
        seed: u64,
    ) -> Result<KeyspaceRecord> {
        check_name(name)?;
        options.check()?;
        if self.by_name.contains_key(name) {
            return Err(Error::invalid(format!("there is a keyspace {name:?} already")));
        }
        let Counters { next_keyspace, next_tree, .. } = self.counters;
        let partitions = options.routing.partitions() as u32;
        if next_keyspace.0 == u32::MAX || next_tree.0.checked_add(partitions).is_none() {
            let text = "the 2^32 numbers of keyspaces and trees are used up";
            return Err(Error::new(ErrorKind::OutOfSpace, text));
        }
        Ok(KeyspaceRecord::new(next_keyspace, name, next_tree, content, options, seed))
    }

    /// The catalog after `change`, or `None` when it changes nothing.
    ///
    /// # Errors
    /// Corruption when the change does not fit this catalog.
    pub(crate) fn changed(&self, change: CatalogChange<'_>) -> Result<Option<Self>> {
        if change.is_empty() {
            return Ok(None);
        }
        let mut next = self.clone();
        for record in change.created {
            next.create(record, self.counters)?;
        }
        for record in change.altered {
            next.alter(record)?;
        }
        for &id in change.dropped {
            next.drop(id)?;
        }
        match change.counters {
            None => next.counters.epoch += 1,
            Some(counters)
                if counters.next_keyspace < next.counters.next_keyspace
                    || counters.next_tree < next.counters.next_tree =>
            {
                return Err(wrong("a snapshot whose next numbers are given already"));
            }
            Some(counters) => next.counters = counters,
        }
        Ok(Some(next))
    }

    fn create(&mut self, record: &KeyspaceRecord, free: Counters) -> Result<()> {
        let id = record.id;
        if id < free.next_keyspace || self.by_id.contains_key(&id) {
            return Err(wrong(format!("{id} is created, but that number was given before")));
        }
        if let Some(other) = self.by_name.insert(record.name.clone(), id) {
            let name = &record.name;
            return Err(wrong(format!("{id} is created as {name:?}, the name of {other}")));
        }
        for &tree in &record.trees {
            if tree < free.next_tree || self.by_tree.insert(tree, id).is_some() {
                let text = format!("{tree} is created in {id}, but that number was given before");
                return Err(wrong(text));
            }
            let next_tree = &mut self.counters.next_tree;
            *next_tree = TreeId(next_tree.0.max(tree.0.saturating_add(1)));
        }
        let next_keyspace = &mut self.counters.next_keyspace;
        *next_keyspace = KeyspaceId(next_keyspace.0.max(id.0.saturating_add(1)));
        self.by_id.insert(id, Arc::new(record.clone()));
        Ok(())
    }

    fn alter(&mut self, record: &KeyspaceRecord) -> Result<()> {
        let Some(found) = self.by_id.get_mut(&record.id) else {
            return Err(wrong(format!("{} is altered, but there is none", record.id)));
        };
        if found.with_options(&record.options()) != *record {
            return Err(wrong(format!(
                "{} {:?} is altered in more than compression, blocks and filters",
                found.id, found.name
            )));
        }
        *found = Arc::new(record.clone());
        Ok(())
    }

    fn drop(&mut self, id: KeyspaceId) -> Result<()> {
        let Some(record) = self.by_id.remove(&id) else {
            return Err(wrong(format!("{id} is dropped, but there is none")));
        };
        self.by_name.remove(&record.name);
        for tree in &record.trees {
            self.by_tree.remove(tree);
        }
        Ok(())
    }
}

#[cold]
fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corruption, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Routing;

    const NOTHING: CatalogChange<'_> =
        CatalogChange { created: &[], altered: &[], dropped: &[], counters: None };

    fn plan(catalog: &Catalog, name: &str) -> KeyspaceRecord {
        let options = KeyspaceOptions { routing: Routing::Hash(2), ..KeyspaceOptions::default() };
        catalog.plan(name, KeyspaceContent::Bytes, &options, 0).unwrap()
    }

    fn with(catalog: &Catalog, names: &[&str]) -> Catalog {
        let mut catalog = catalog.clone();
        for name in names {
            let created = [plan(&catalog, name)];
            catalog =
                catalog.changed(CatalogChange { created: &created, ..NOTHING }).unwrap().unwrap();
        }
        catalog
    }

    #[test]
    fn a_number_is_never_given_twice() {
        let catalog = with(&Catalog::default(), &["a", "b"]);
        assert_eq!(catalog.get("b").unwrap().trees, [TreeId(3), TreeId(4)]);
        let record = catalog.get("b").unwrap().as_ref().clone();
        let dropped = [record.id];
        let gone = catalog.changed(CatalogChange { dropped: &dropped, ..NOTHING });
        let gone = gone.unwrap().unwrap();
        assert!(gone.get("b").is_none() && gone.keyspace_of(TreeId(3)).is_none());
        assert_eq!(gone.epoch(), 3);
        assert_eq!((plan(&gone, "b").id, plan(&gone, "b").trees[0]), (KeyspaceId(3), TreeId(5)));
        let again = [record];
        let error = gone.changed(CatalogChange { created: &again, ..NOTHING }).unwrap_err();
        assert_eq!(error.to_string(), "keyspace 2 is created, but that number was given before");
    }

    #[test]
    fn names_are_checked_and_taken_once() {
        let catalog = with(&Catalog::default(), &["a"]);
        let long = "x".repeat(256);
        for name in ["", "a\nb", "\u{85}", "a", &long] {
            let options = KeyspaceOptions::default();
            let error = catalog.plan(name, KeyspaceContent::Bytes, &options, 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}");
        }
        assert!(check_name(&long[1..]).is_ok() && check_name("Ünïcode ☃").is_ok());
    }

    #[test]
    fn changes_that_do_not_fit_are_refused() {
        let catalog = with(&Catalog::default(), &["a", "b"]);
        let refused = |change: CatalogChange<'_>, text: &str| {
            let error = catalog.changed(change).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().contains(text), "{error}");
        };
        let same_name = [KeyspaceRecord { name: "a".into(), ..plan(&catalog, "c") }];
        refused(CatalogChange { created: &same_name, ..NOTHING }, "the name of keyspace 1");
        let old_tree = [KeyspaceRecord { trees: vec![TreeId(2); 2], ..plan(&catalog, "c") }];
        refused(CatalogChange { created: &old_tree, ..NOTHING }, "tree 2 is created");
        let twice = [plan(&catalog, "c"), plan(&catalog, "d")];
        refused(CatalogChange { created: &twice, ..NOTHING }, "keyspace 3 is created");
        let absent = [plan(&catalog, "c")];
        refused(CatalogChange { altered: &absent, ..NOTHING }, "keyspace 3 is altered");
        let renamed =
            [KeyspaceRecord { name: "z".into(), ..(**catalog.get("a").unwrap()).clone() }];
        refused(CatalogChange { altered: &renamed, ..NOTHING }, "more than");
        refused(CatalogChange { dropped: &[KeyspaceId(9)], ..NOTHING }, "keyspace 9 is dropped");
        let counters = Counters { next_keyspace: KeyspaceId(2), ..catalog.counters() };
        refused(CatalogChange { counters: Some(counters), ..NOTHING }, "given already");
        assert_eq!(catalog.changed(NOTHING).unwrap(), None);
    }
}
