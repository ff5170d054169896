//! The catalog: all keyspaces by name, by number and by tree; the next numbers; the epoch.
//!
//! The rule that must never break: a number is assigned once, even if its keyspace or tree is gone.
//! So the manifest holds the next numbers beside the keyspaces.

use super::name::check_name;
use super::record::{KeyspaceContent, KeyspaceRecord};
use crate::options::KeyspaceOptions;
use flagstone_base::{Error, ErrorKind, KeyspaceId, Result, TreeId};
use std::collections::{BTreeMap, BTreeSet};
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
        self.by_id.get(self.by_name.get(name)?)
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
        free.give(&record);
        Ok(record)
    }

    /// Checks whether `change` fits this catalog, and returns the catalog as it will be. Nothing
    /// changes.
    ///
    /// # Errors
    /// Corruption when the change does not fit this catalog.
    pub(crate) fn check<'a>(&'a self, change: &CatalogChange<'a>) -> Result<Changed<'a>> {
        let mut next = Changed::of(self);
        for record in change.created {
            next.create(record)?;
        }
        for record in change.altered {
            next.alter(record)?;
        }
        for &id in change.dropped {
            next.drop(id)?;
        }
        if let Some(given) = change.counters
            && (given.next_keyspace < next.counters.next_keyspace
                || given.next_tree < next.counters.next_tree)
        {
            return Err(wrong("a snapshot whose next numbers are given already"));
        }
        Ok(next)
    }

    /// Applies a change that was checked against this state of the catalog.
    pub(crate) fn apply(&mut self, change: &CatalogChange<'_>) {
        if change.is_empty() {
            return;
        }
        for record in change.created {
            self.counters.give(record);
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
    fn give(&mut self, record: &KeyspaceRecord) {
        let last = record.trees.iter().max().map_or(0, |tree| tree.0.saturating_add(1));
        self.next_tree = TreeId(self.next_tree.0.max(last));
        self.next_keyspace = KeyspaceId(self.next_keyspace.0.max(record.id.0.saturating_add(1)));
    }
}

/// A catalog as it will be with a change that is not applied yet.
pub(crate) struct Changed<'a> {
    catalog: &'a Catalog,
    /// The records that the change creates or alters.
    records: BTreeMap<KeyspaceId, &'a KeyspaceRecord>,
    names: BTreeMap<&'a str, KeyspaceId>,
    trees: BTreeMap<TreeId, KeyspaceId>,
    dropped: BTreeSet<KeyspaceId>,
    counters: Counters,
}

impl<'a> Changed<'a> {
    const fn of(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            records: BTreeMap::new(),
            names: BTreeMap::new(),
            trees: BTreeMap::new(),
            dropped: BTreeSet::new(),
            counters: catalog.counters,
        }
    }

    fn record(&self, id: KeyspaceId) -> Option<&'a KeyspaceRecord> {
        let known = || self.catalog.by_id.get(&id).map(|record| &**record);
        self.records.get(&id).copied().or_else(known).filter(|_| !self.dropped.contains(&id))
    }

    /// Returns whether there is a keyspace with number `id`.
    pub(crate) fn has(&self, id: KeyspaceId) -> bool {
        self.record(id).is_some()
    }

    /// Returns the keyspace of which `tree` is a partition.
    pub(crate) fn keyspace_of(&self, tree: TreeId) -> Option<KeyspaceId> {
        let known = || self.catalog.keyspace_of(tree);
        let found = self.trees.get(&tree).copied().or_else(known);
        found.filter(|id| !self.dropped.contains(id))
    }

    fn create(&mut self, record: &'a KeyspaceRecord) -> Result<()> {
        let (id, free) = (record.id, self.catalog.counters);
        if id < free.next_keyspace || self.has(id) {
            return Err(wrong(format!("{id} is created, but that number was given before")));
        }
        self.take_name(record)?;
        for &tree in &record.trees {
            let is_given = tree < free.next_tree || self.catalog.by_tree.contains_key(&tree);
            if is_given || self.trees.insert(tree, id).is_some() {
                let text = format!("{tree} is created in {id}, but that number was given before");
                return Err(wrong(text));
            }
        }
        self.counters.give(record);
        self.records.insert(id, record);
        Ok(())
    }

    /// Refuses a name that another keyspace has, or had until this change.
    fn take_name(&mut self, record: &'a KeyspaceRecord) -> Result<()> {
        let known = self.catalog.by_name.get(&record.name).copied();
        let Some(other) = known.or_else(|| self.names.insert(&record.name, record.id)) else {
            return Ok(());
        };
        let KeyspaceRecord { id, name, .. } = record;
        Err(wrong(format!("{id} gets the name {name:?}, which {other} has")))
    }

    fn alter(&mut self, record: &'a KeyspaceRecord) -> Result<()> {
        let Some(found) = self.record(record.id) else {
            return Err(wrong(format!("{} is altered, but there is none", record.id)));
        };
        let may_become = KeyspaceRecord {
            name: record.name.clone(),
            tables: record.tables,
            // The mark may be set, and is never cleared.
            expires: found.expires || record.expires,
            ..found.clone()
        };
        if may_become != *record {
            return Err(wrong(format!(
                "{} {:?} is altered in more than name, options of tables and the first expiry",
                found.id, found.name
            )));
        }
        if found.name != record.name {
            self.take_name(record)?;
        }
        self.records.insert(record.id, record);
        Ok(())
    }

    fn drop(&mut self, id: KeyspaceId) -> Result<()> {
        if !self.has(id) {
            return Err(wrong(format!("{id} is dropped, but there is none")));
        }
        self.dropped.insert(id);
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

    fn try_plan(
        catalog: &Catalog,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<KeyspaceRecord> {
        let wanted = Wanted { name, content: &KeyspaceContent::of("bytes"), options };
        catalog.plan(wanted, 0, &mut catalog.counters())
    }

    fn plan(catalog: &Catalog, name: &str) -> KeyspaceRecord {
        let options = KeyspaceOptions::new().routing(Routing::Hash(2));
        try_plan(catalog, name, &options).unwrap()
    }

    fn changed(catalog: &Catalog, change: &CatalogChange<'_>) -> Result<Catalog> {
        catalog.check(change)?;
        let mut next = catalog.clone();
        next.apply(change);
        Ok(next)
    }

    fn with(catalog: &Catalog, names: &[&str]) -> Catalog {
        names.iter().fold(catalog.clone(), |catalog, name| {
            let created = [plan(&catalog, name)];
            changed(&catalog, &CatalogChange { created: &created, ..NOTHING }).unwrap()
        })
    }

    #[test]
    fn a_number_is_never_given_twice() {
        let catalog = with(&Catalog::default(), &["a", "b"]);
        assert_eq!(catalog.get("b").unwrap().trees, [TreeId(3), TreeId(4)]);
        let record = catalog.get("b").unwrap().as_ref().clone();
        let dropped = [record.id];
        let gone = changed(&catalog, &CatalogChange { dropped: &dropped, ..NOTHING }).unwrap();
        assert!(gone.get("b").is_none() && gone.keyspace_of(TreeId(3)).is_none());
        assert_eq!(gone.epoch(), 3);
        assert_eq!((plan(&gone, "b").id, plan(&gone, "b").trees[0]), (KeyspaceId(3), TreeId(5)));
        let again = [record];
        let error = changed(&gone, &CatalogChange { created: &again, ..NOTHING }).unwrap_err();
        assert_eq!(error.to_string(), "keyspace 2 is created, but that number was given before");
    }

    #[test]
    fn names_are_checked_and_taken_once() {
        let catalog = with(&Catalog::default(), &["a"]);
        let long = "x".repeat(256);
        for name in ["", "a\nb", "\u{85}", "a", &long] {
            let error = try_plan(&catalog, name, &KeyspaceOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}");
        }
        assert!(check_name(&long[1..]).is_ok() && check_name("Ünïcode ☃").is_ok());
    }

    #[test]
    fn a_renamed_keyspace_is_found_by_its_new_name_alone() {
        let catalog = with(&Catalog::default(), &["a", "b"]);
        let a = catalog.get("a").unwrap();
        let renamed = [KeyspaceRecord { name: "z".into(), ..(**a).clone() }];
        let next = changed(&catalog, &CatalogChange { altered: &renamed, ..NOTHING }).unwrap();
        assert!(next.get("a").is_none());
        assert_eq!(next.get("z").unwrap().id, a.id);
        assert_eq!(next.epoch(), catalog.epoch() + 1);
        let again = with(&next, &["a"]);
        assert_eq!(again.get("a").unwrap().id, KeyspaceId(3), "the old name is free");
    }

    #[test]
    fn changes_that_do_not_fit_are_refused() {
        let catalog = with(&Catalog::default(), &["a", "b"]);
        let refused = |change: CatalogChange<'_>, text: &str| {
            let error = changed(&catalog, &change).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().contains(text), "{error}");
        };
        let same_name = [KeyspaceRecord { name: "a".into(), ..plan(&catalog, "c") }];
        refused(CatalogChange { created: &same_name, ..NOTHING }, "which keyspace 1 has");
        let old_tree = [KeyspaceRecord { trees: vec![TreeId(2); 2], ..plan(&catalog, "c") }];
        refused(CatalogChange { created: &old_tree, ..NOTHING }, "tree 2 is created");
        let twice = [plan(&catalog, "c"), plan(&catalog, "d")];
        refused(CatalogChange { created: &twice, ..NOTHING }, "keyspace 3 is created");
        let absent = [plan(&catalog, "c")];
        refused(CatalogChange { altered: &absent, ..NOTHING }, "keyspace 3 is altered");
        let a = || (**catalog.get("a").unwrap()).clone();
        let renamed = [KeyspaceRecord { name: "b".into(), ..a() }];
        refused(CatalogChange { altered: &renamed, ..NOTHING }, "which keyspace 2 has");
        let folded = [KeyspaceRecord { fold: Some("sum".into()), ..a() }];
        refused(CatalogChange { altered: &folded, ..NOTHING }, "more than");
        let (expiring, plain) = ([KeyspaceRecord { expires: true, ..a() }], [a()]);
        let expires = changed(&catalog, &CatalogChange { altered: &expiring, ..NOTHING }).unwrap();
        assert!(expires.get("a").unwrap().expires);
        let unset = CatalogChange { altered: &plain, ..NOTHING };
        assert!(changed(&expires, &unset).unwrap_err().to_string().contains("more than"));
        refused(CatalogChange { dropped: &[KeyspaceId(9)], ..NOTHING }, "keyspace 9 is dropped");
        let counters = Counters { next_keyspace: KeyspaceId(2), ..catalog.counters() };
        refused(CatalogChange { counters: Some(counters), ..NOTHING }, "given already");
        assert_eq!(changed(&catalog, &NOTHING).unwrap(), catalog);
    }
}
