//! A change of the catalog, checked before it is applied.

use super::keyspaces::{Catalog, CatalogChange, CatalogCounters};
use super::owned::OwnedRecord;
use super::record::KeyspaceRecord;
use crate::partition::Route;
use flagstone_base::sorted::{SortedMap, SortedSet};
use flagstone_base::{Error, ErrorKind, KeyspaceId, Result, TreeId};
use std::collections::BTreeMap;

/// A catalog as it will be with a change that is not applied yet.
pub(crate) struct ChangedCatalog<'a> {
    catalog: &'a Catalog,
    /// The records that the change creates or alters.
    records: SortedMap<KeyspaceId, &'a KeyspaceRecord>,
    names: BTreeMap<(KeyspaceId, &'a str), KeyspaceId>,
    trees: SortedMap<TreeId, KeyspaceId>,
    dropped: SortedSet<KeyspaceId>,
    /// Trees that others have replaced.
    replaced: SortedSet<TreeId>,
    counters: CatalogCounters,
}

impl<'a> ChangedCatalog<'a> {
    /// Checks that `change` fits `catalog`, and returns the catalog as it will be. Nothing changes.
    ///
    /// # Errors
    /// Corruption when the change does not fit.
    pub(crate) fn of(catalog: &'a Catalog, change: &CatalogChange<'a>) -> Result<Self> {
        let mut next = Self {
            catalog,
            records: SortedMap::new(),
            names: BTreeMap::new(),
            trees: SortedMap::new(),
            dropped: SortedSet::new(),
            replaced: SortedSet::new(),
            counters: catalog.counters(),
        };
        for record in change.created {
            next.create(record)?;
        }
        for record in change.altered {
            next.alter(record)?;
        }
        for &id in change.dropped {
            next.drop(id)?;
        }
        next.check_owners()?;
        if let Some(given) = change.counters
            && (given.next_keyspace < next.counters.next_keyspace
                || given.next_tree < next.counters.next_tree)
        {
            return Err(wrong("a snapshot whose next numbers are assigned already"));
        }
        Ok(next)
    }

    fn record(&self, id: KeyspaceId) -> Option<&'a KeyspaceRecord> {
        let known = || self.catalog.by_id(id).map(|record| &**record);
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
        let is_gone = |id: &KeyspaceId| self.dropped.contains(id) || self.replaced.contains(&tree);
        found.filter(|id| !is_gone(id))
    }

    fn create(&mut self, record: &'a KeyspaceRecord) -> Result<()> {
        let (id, free) = (record.id, self.catalog.counters());
        if id < free.next_keyspace || self.has(id) {
            return Err(wrong(format!("{id} is created, but that number was assigned before")));
        }
        self.take_name(record)?;
        for &tree in &record.trees {
            let is_assigned = tree < free.next_tree || self.catalog.keyspace_of(tree).is_some();
            if is_assigned || self.trees.insert(tree, id).is_some() {
                let text =
                    format!("{tree} is created in {id}, but that number was assigned before");
                return Err(wrong(text));
            }
        }
        self.counters.assign(record);
        self.records.insert(id, record);
        Ok(())
    }

    /// Refuses a name that another keyspace has, or had until this change.
    fn take_name(&mut self, record: &'a KeyspaceRecord) -> Result<()> {
        let name = (record.scope(), record.name.as_str());
        let known = self.catalog.id_of(name.0, name.1);
        let Some(other) = known.or_else(|| self.names.insert(name, record.id)) else {
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
            former: record.former.clone(),
            tables: record.tables,
            trees: record.trees.clone(),
            route: record.route.clone(),
            given: record.given.clone(),
            given_hashes: record.given_hashes,
            // The mark may be set, and is never cleared.
            expires: found.expires || record.expires,
            // Another version of the fold. Whether it can read the operands of the present one is
            // up to the layer above.
            fold: match (&found.fold, &record.fold) {
                (Some(_), Some(upgraded)) => Some(upgraded.clone()),
                (fold, _) => fold.clone(),
            },
            // Its note and its doubt may change.
            owned: match (&found.owned, &record.owned) {
                (Some(found), Some(owned)) => {
                    Some(OwnedRecord { owner: found.owner, ..owned.clone() })
                }
                (found, _) => found.clone(),
            },
            ..found.clone()
        };
        if may_become != *record {
            return Err(wrong(format!(
                "{} {:?} is altered in more than name, options of tables, fold, note, \
                 partitions, first expiry",
                found.id, found.name
            )));
        }
        if (&found.trees, &found.route) != (&record.trees, &record.route) {
            self.divide(found, record)?;
        }
        if found.name != record.name {
            self.take_name(record)?;
        }
        self.records.insert(record.id, record);
        Ok(())
    }

    /// Checks a split or a merge. A partition that keeps its tree keeps its bounds; other trees are
    /// new.
    fn divide(&mut self, found: &KeyspaceRecord, record: &'a KeyspaceRecord) -> Result<()> {
        let id = record.id;
        let is_same = found.route.is_range() == record.route.is_range()
            && found.route.seed() == record.route.seed()
            && found.routing() == record.routing();
        if !is_same {
            return Err(wrong(format!("{id} is divided in another way than before")));
        }
        if let (Route::Hash { starts: before, .. }, Route::Hash { starts, .. }) =
            (&found.route, &record.route)
            && before.iter().any(|start| starts.binary_search(start).is_err())
        {
            return Err(wrong(format!("{id} has hash partitions merged, which stay apart")));
        }
        let mut kept = SortedSet::new();
        for (partition, &tree) in record.trees.iter().enumerate() {
            if let Some(before) = found.trees.iter().position(|known| *known == tree) {
                let part =
                    |of: &KeyspaceRecord, at| (of.route.bounds_of(at), of.route.hashes_of(at));
                if !kept.insert(tree) || part(found, before) != part(record, partition) {
                    return Err(wrong(format!("{id} keeps {tree} with other bounds")));
                }
            } else if tree < self.catalog.counters().next_tree
                || self.trees.insert(tree, id).is_some()
            {
                return Err(wrong(format!("{id} gets {tree}, a number that was assigned before")));
            }
        }
        self.replaced.extend(found.trees.iter().filter(|tree| !kept.contains(tree)).copied());
        self.counters.assign(record);
        Ok(())
    }

    fn drop(&mut self, id: KeyspaceId) -> Result<()> {
        if !self.has(id) {
            return Err(wrong(format!("{id} is dropped, but there is none")));
        }
        self.dropped.insert(id);
        Ok(())
    }

    /// Refuses owned keyspaces whose owner is missing, or owned itself.
    fn check_owners(&self) -> Result<()> {
        for record in self.records.values().filter(|record| self.has(record.id)) {
            let Some(owner) = record.owner() else { continue };
            if self.record(owner).is_none_or(|owner| owner.owned.is_some()) {
                let (id, name) = (record.id, &record.name);
                return Err(wrong(format!(
                    "{id} {name:?} is owned by {owner}, which cannot own it"
                )));
            }
        }
        let owned = self.dropped.iter().flat_map(|&id| self.catalog.owned_by(id));
        match owned.into_iter().find(|&id| self.has(id)) {
            None => Ok(()),
            Some(id) => Err(wrong(format!("the owner of {id} is dropped without it"))),
        }
    }
}

#[cold]
fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corruption, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{KeyspaceContent, NewKeyspace, check_name};
    use crate::options::{KeyspaceOptions, Routing};

    const NOTHING: CatalogChange<'_> =
        CatalogChange { created: &[], altered: &[], dropped: &[], counters: None };

    fn try_plan(
        catalog: &Catalog,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<KeyspaceRecord> {
        let wanted =
            NewKeyspace { name, content: &KeyspaceContent::of("bytes"), options, owned: None };
        catalog.plan(wanted, 0, &mut catalog.counters())
    }

    fn plan(catalog: &Catalog, name: &str) -> KeyspaceRecord {
        let options = KeyspaceOptions::new().routing(Routing::Hash(2));
        try_plan(catalog, name, &options).unwrap()
    }

    fn changed(catalog: &Catalog, change: &CatalogChange<'_>) -> Result<Catalog> {
        ChangedCatalog::of(catalog, change)?;
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
    fn a_number_is_never_assigned_twice() {
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
        assert_eq!(error.to_string(), "keyspace 2 is created, but that number was assigned before");
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
    fn a_split_replaces_one_tree_and_a_wrong_one_is_refused() {
        let options = KeyspaceOptions::new().routing(Routing::Range(vec![b"g".to_vec()]));
        let created = [try_plan(&Catalog::default(), "r", &options).unwrap()];
        let change = CatalogChange { created: &created, ..NOTHING };
        let catalog = changed(&Catalog::default(), &change).unwrap();
        let before = (**catalog.get("r").unwrap()).clone();
        let altered = |record: &KeyspaceRecord| {
            let records = [record.clone()];
            changed(&catalog, &CatalogChange { altered: &records, ..NOTHING })
        };
        let split = before.split(1, &[b"p".to_vec()], &[TreeId(3), TreeId(4)]);
        let after = altered(&split).unwrap();
        assert_eq!(after.trees().collect::<Vec<_>>(), [TreeId(1), TreeId(3), TreeId(4)]);
        assert_eq!(after.counters().next_tree, TreeId(5));
        assert_eq!(after.keyspace_of(TreeId(2)), None);
        let refused = |record: KeyspaceRecord, text: &str| {
            let error = altered(&record).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        refused(before.split(1, &[b"p".to_vec()], &[TreeId(2), TreeId(4)]), "other bounds");
        refused(before.split(1, &[b"p".to_vec()], &[TreeId(4), TreeId(4)]), "assigned before");
        let given = Some(vec![b"p".to_vec()]);
        refused(KeyspaceRecord { given, ..split.clone() }, "another way");
        let route = Route::Range { bounds: vec![b"h".to_vec()], seed: before.route.seed() };
        refused(KeyspaceRecord { route, ..before.clone() }, "another way");
        let hashed = with(&catalog, &["h"]);
        let before = (**hashed.get("h").unwrap()).clone();
        let altered = |record: KeyspaceRecord| {
            changed(&hashed, &CatalogChange { altered: &[record], ..NOTHING })
        };
        let new = [hashed.counters().next_tree, TreeId(hashed.counters().next_tree.0 + 1)];
        let split = before.split_hashes(1, &[3 << 62], &new);
        let after = altered(split.clone()).unwrap();
        let change = CatalogChange { altered: std::slice::from_ref(&before), ..NOTHING };
        let error = changed(&after, &change).unwrap_err().to_string();
        assert!(error.contains("merged"), "{error}");
        assert!(altered(before.split_hashes(0, &[3 << 60], &[before.trees[1], new[0]])).is_err());
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
        let counters = CatalogCounters { next_keyspace: KeyspaceId(2), ..catalog.counters() };
        refused(CatalogChange { counters: Some(counters), ..NOTHING }, "assigned already");
        assert_eq!(changed(&catalog, &NOTHING).unwrap(), catalog);
    }
}
