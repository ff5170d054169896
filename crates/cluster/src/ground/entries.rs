//! Entries of the documents that one batch copies into another generation.
//!
//! They are made of the documents. Those of a unique index have the value alone as their key: two
//! documents of one new bucket that had a value one after the other share a row, though they were
//! read at different moments. Claims are in a generation of their own and stay where they are.
//!
//! - An entry is removed only if it is the document's own: another one may have got the value, and
//!   been copied before. The rows are read after the number of the last copy, on which the batch
//!   rests, so they do not change before it is applied.
//! - A document is copied with all its unique entries, not only those that differ from its last
//!   copy: another one may have got such a value, been copied, and have given it back.
//! - Where one document of a batch has lost a value and another one has got it, the row is only
//!   set. Of a removal and a set in one batch, Cassandra would take the removal.
//! - A document whose token is that of its copy has its entries still. To take one, another copy
//!   must have read a document that had the value since, and no token comes again.
//! - Of two documents that have one value at the same moment, one had expired before the index was
//!   built, and has no claim. So the entry of one that expires takes the place of another one's
//!   only if the claim is its own.
//!
//! After the switch each document is as it was when its old bucket was closed, and so are its
//! entries. A writer that takes a value changes the token of the document that had it, and notes
//! that change as any other. A writer whose bucket was closed after it had claimed values reads the
//! documents again, in the new bucket, and claims again. So every batch, also one behind the
//! switch, is made from a document that was read before its values were claimed.

use super::core::{Ground, View, place};
use crate::form::{is_nothing, unpacked};
use crate::store::{Change, Freshness, Kind, Partition, RowKey, RowsRequest, StoredRow};
use flagstone::remote::{Catalog, Changes, EntryChange, RemoteIndex, Row, shown_key};
use flagstone_base::{ErrorKind, Result, Slice};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The changes of the entries of documents of one new bucket.
pub(super) struct Entries<'g> {
    ground: &'g Ground,
    view: Arc<View>,
    /// The unique indexes alone.
    unique: Catalog,
    /// Of the other indexes.
    changes: Vec<Change>,
    /// The unique entries that documents have ..
    has: Vec<Entry>,
    /// .. and those that they have lost.
    lost: Vec<(RowKey, Slice)>,
    /// What the catalog must say before the documents are copied.
    pub(super) notes: Vec<(u32, Vec<u8>)>,
}

/// An entry of a unique index, and the key of its document.
struct Entry {
    row: RowKey,
    document: Slice,
    stored: StoredRow,
}

impl Entry {
    const fn expires(&self) -> bool {
        self.stored.expiry.is_some()
    }

    fn set(self) -> Change {
        Change::Set { kind: self.row.kind, row: self.stored }
    }
}

impl<'g> Entries<'g> {
    pub(super) fn new(ground: &'g Ground) -> Self {
        let view = ground.view();
        let unique = view.catalog.indexes().iter().filter(|index| index.is_unique());
        let unique = Catalog::new(view.catalog.version, unique.cloned().collect());
        let (changes, has, lost, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { ground, view, unique, changes, has, lost, notes }
    }

    fn unique(&self, index: u32) -> Option<&Arc<RemoteIndex>> {
        self.unique.indexes().iter().find(|one| one.id == index)
    }

    /// Returns how many there are, at most.
    pub(super) const fn count(&self) -> usize {
        self.changes.len() + self.has.len() + self.lost.len()
    }

    /// Adds those of a document: `there` is its copy, `here` what it is now. Returns how many bytes
    /// they have, at most.
    pub(super) fn add(
        &mut self,
        key: &Slice,
        there: Option<&StoredRow>,
        here: Option<&StoredRow>,
    ) -> Result<usize> {
        if self.view.catalog.indexes().is_empty() {
            return Ok(0);
        }
        let (differ, all) = self.changes_of(key, there, here).map_err(|error| {
            let (name, key) = (&self.ground.name, shown_key(key));
            error.context(format!("collection {name:?}, document of key {key}"))
        })?;
        self.notes.extend(differ.notes);
        let expiry = here.and_then(|row| row.expiry);
        let stored = |key: &Slice, value: Vec<u8>| StoredRow {
            key: key.clone(),
            value: value.into(),
            token: None,
            expiry,
        };
        let mut bytes = 0;
        for EntryChange { index, key: entry, value } in differ.entries {
            let is_unique = self.unique(index).is_some();
            bytes += entry.len() + value.as_ref().map_or(0, Vec::len);
            let row = RowKey { kind: Kind(index as i32), key: entry.into() };
            match value {
                None if is_unique => self.lost.push((row, key.clone())),
                None => self.changes.push(Change::Delete(row)),
                // It is one of all.
                Some(_) if is_unique => {}
                Some(value) => {
                    let stored = stored(&row.key, value);
                    self.changes.push(Change::Set { kind: row.kind, row: stored });
                }
            }
        }
        for EntryChange { index, key: entry, value } in all.entries {
            let Some(value) = value else { continue };
            bytes += entry.len() + value.len();
            let row = RowKey { kind: Kind(index as i32), key: entry.into() };
            let stored = stored(&row.key, value);
            self.has.push(Entry { row, document: key.clone(), stored });
        }
        Ok(bytes)
    }

    /// Returns what differs from the copy of a document, and all its unique entries.
    fn changes_of(
        &self,
        key: &Slice,
        there: Option<&StoredRow>,
        here: Option<&StoredRow>,
    ) -> Result<(Changes, Changes)> {
        let row = |row: Option<&StoredRow>| -> Result<Option<Row>> {
            let row = row.filter(|row| !is_nothing(&row.value));
            row.map(|row| Ok(Row { document: unpacked(&row.value)?, expiry: row.expiry }))
                .transpose()
        };
        let (there, here) = (row(there)?, row(here)?);
        let of = |here: Option<&Row>| -> Result<_> {
            let differ = self.view.catalog.changes(key, there.as_ref(), here)?;
            Ok((differ, self.unique.changes(key, None, here)?))
        };
        let expiry = here.as_ref().and_then(|row| row.expiry);
        match of(here.as_ref()) {
            // A unique index that cannot hold it was built without it, because it had expired.
            Err(error)
                if error.kind() == ErrorKind::InvalidInput
                    && expiry.is_some_and(|at| at <= self.ground.now()) =>
            {
                of(None)
            }
            changes => changes,
        }
    }

    /// Returns the changes, at most one of a row. The number of the last copy into the bucket `to`
    /// must have been read before.
    pub(super) fn changes(mut self, to: Partition) -> Result<Vec<Change>> {
        let (has, mut lost) = (std::mem::take(&mut self.has), std::mem::take(&mut self.lost));
        let mut unique: BTreeMap<RowKey, Change> = BTreeMap::new();
        let mut unsure: BTreeMap<RowKey, Vec<Entry>> = BTreeMap::new();
        for entry in has {
            if entry.expires() {
                unsure.entry(entry.row.clone()).or_default().push(entry);
            } else {
                unique.insert(entry.row.clone(), entry.set());
            }
        }
        unsure.retain(|row, _| !unique.contains_key(row));
        lost.retain(|(row, _)| !unique.contains_key(row));
        let there = self.there(to, unsure.keys().chain(lost.iter().map(|(row, _)| row)))?;
        let is_free = |row: &RowKey, entries: &[Entry]| {
            let is_own = |entry: &Entry| there.get(row).is_none_or(|of| *of == entry.document);
            matches!(entries, [one] if is_own(one))
        };
        let contested = unsure.iter().filter(|(row, entries)| !is_free(row, entries));
        let claims = self.claims(contested.map(|(row, _)| row))?;
        for (row, entries) in unsure {
            let is_free = is_free(&row, &entries);
            let is_own = |entry: &Entry| is_free || claims.get(&row) == Some(&entry.document);
            if let Some(own) = entries.into_iter().find(is_own) {
                unique.insert(row, own.set());
            }
        }
        for (row, document) in lost {
            if there.get(&row) == Some(&document) {
                unique.entry(row.clone()).or_insert(Change::Delete(row));
            }
        }
        self.changes.extend(unique.into_values());
        Ok(self.changes)
    }

    /// Reads whose the unique entries of these rows are in the new bucket.
    fn there<'r>(
        &self,
        to: Partition,
        rows: impl Iterator<Item = &'r RowKey>,
    ) -> Result<BTreeMap<RowKey, Slice>> {
        let keys: BTreeSet<&RowKey> = rows.collect();
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let found = self.rows([(to, keys.into_iter().cloned().collect())])?;
        let mut there = BTreeMap::new();
        for (row, stored) in found {
            let Some(index) = self.unique(row.kind.0 as u32) else { continue };
            let document = index.primary_key((&stored.key, &stored.value));
            let document = document.map_err(|error| {
                let name = index.name();
                error.context(format!("index {name:?} of {}", place(&self.ground.name, to)))
            })?;
            there.insert(row, document.into());
        }
        Ok(there)
    }

    /// Reads whose these values are.
    fn claims<'r>(
        &self,
        values: impl Iterator<Item = &'r RowKey>,
    ) -> Result<BTreeMap<RowKey, Slice>> {
        let mut values = values.peekable();
        if values.peek().is_none() {
            return Ok(BTreeMap::new());
        }
        let claims = self.ground.claims(&self.view)?;
        let mut buckets: BTreeMap<Partition, Vec<RowKey>> = BTreeMap::new();
        for row in values {
            let partition = claims.partition(claims.buckets.bucket_of(&row.key));
            buckets.entry(partition).or_default().push(row.clone());
        }
        let found = self.rows(buckets)?;
        Ok(found.into_iter().map(|(row, claim)| (row, claim.value)).collect())
    }

    /// Reads rows in the order of the batches.
    fn rows(
        &self,
        wanted: impl IntoIterator<Item = (Partition, Vec<RowKey>)>,
    ) -> Result<Vec<(RowKey, StoredRow)>> {
        let request = |(partition, keys)| {
            let freshness = Freshness::Serial;
            RowsRequest { partition, keys, freshness }
        };
        let requests: Vec<RowsRequest> = wanted.into_iter().map(request).collect();
        let answers = self.ground.rows_of(&requests)?;
        let mut found = Vec::new();
        for (request, answer) in requests.into_iter().zip(answers) {
            let rows = request.keys.into_iter().zip(answer.rows);
            found.extend(rows.filter_map(|(row, stored)| Some((row, stored?))));
        }
        Ok(found)
    }
}
