//! Reads and writes of a keyspace or a collection, through whatever its handle belongs to.

use crate::ahead::Source;
use crate::chunks::Chunks;
use crate::rows::Row;
use crate::scan::Part;
use crate::selection::{Selected, Selection};
use crate::through::{Through, no_reads, no_writes, read_snapshot};
use flagstone::doc::{JsonMode, JsonOptions, json};
use flagstone::internal::{insert_in, put_in, remote_of, take_remote};
use flagstone::remote::Remote;
use flagstone::{
    Collection, Database, Document, Error, ErrorKind, Expect, Expires, Json, Keyspace, Moment,
    Patch, Patched, Result, Slice, Space, TryGet, Value,
};
use flagstone_pipeline::update::Update;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// A keyspace, and what it is read and written through.
pub(crate) struct Entries {
    pub(crate) keyspace: Keyspace,
    pub(crate) through: Through,
}

impl Entries {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        match &self.through {
            Through::Live => self.keyspace.get(key),
            Through::Snapshot(snapshot) => {
                read_snapshot(snapshot, |snapshot| snapshot.get(&self.keyspace, key))
            }
            Through::Transaction(tx) => tx.with(|tx| tx.get(&self.keyspace, key)),
            Through::Batch(_) => Err(no_reads()),
        }
    }

    /// Calls `read` with the value of a key, but reads no file and waits for nothing.
    pub(crate) fn try_look<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<TryGet<R>> {
        match &self.through {
            Through::Live => self.keyspace.try_look(key, read),
            _ => Ok(TryGet::WouldRead),
        }
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8], expires: Option<Moment>) -> Result<()> {
        match &self.through {
            Through::Live => self.keyspace.put(key, value.expires(expires)),
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => {
                tx.with(|tx| tx.put(&self.keyspace, key, value.expires(expires)))
            }
            Through::Batch(batch) => {
                batch.with(|batch| batch.put(&self.keyspace, key, value.expires(expires)))
            }
        }
    }

    pub(crate) fn delete(&self, key: &[u8]) -> Result<()> {
        match &self.through {
            Through::Live => self.keyspace.delete(key),
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => tx.with(|tx| tx.delete(&self.keyspace, key)),
            Through::Batch(batch) => batch.with(|batch| batch.delete(&self.keyspace, key)),
        }
    }

    /// Removes a key and returns whether it was there. A batch does not know, and returns true.
    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool> {
        match &self.through {
            Through::Live => self.keyspace.remove(key),
            Through::Batch(_) => self.delete(key).map(|()| true),
            Through::Snapshot(_) | Through::Transaction(_) => {
                let is_there = self.get(key)?.is_some();
                self.delete(key)?;
                Ok(is_there)
            }
        }
    }

    /// Removes a key and returns its value, if it is there. No other write of it comes between.
    pub(crate) fn take(&self, database: &Database, key: &[u8]) -> Result<Option<Slice>> {
        self.through.transact(database, |tx| {
            let value = tx.get(&self.keyspace, key)?;
            if value.is_some() {
                tx.delete(&self.keyspace, key)?;
            }
            Ok(value)
        })
    }

    /// Removes the first key and returns it with its value; `None` only if no key is left.
    pub(crate) fn take_first(&self, database: &Database) -> Result<Option<(Slice, Slice)>> {
        self.through.transact(database, |tx| {
            let first = tx.scan(&self.keyspace, ..).next().transpose()?;
            if let Some((key, _)) = &first {
                tx.delete(&self.keyspace, key)?;
            }
            Ok(first)
        })
    }

    /// Returns the value of a key. Sets it to `value` first if there is none.
    pub(crate) fn get_or_put(
        &self,
        database: &Database,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Slice>> {
        self.through.transact(database, |tx| {
            let found = tx.get(&self.keyspace, key)?;
            if found.is_none() {
                tx.put(&self.keyspace, key, value)?;
            }
            Ok(found)
        })
    }

    pub(crate) fn get_many<K: AsRef<[u8]>>(&self, keys: Vec<K>) -> Result<Vec<Option<Slice>>> {
        match &self.through {
            Through::Live => self.keyspace.multi_get(keys),
            _ => keys.iter().map(|key| self.get(key.as_ref())).collect(),
        }
    }

    pub(crate) fn scan(
        &self,
        range: (Bound<Slice>, Bound<Slice>),
        is_reverse: bool,
        part: Part,
    ) -> Result<Source<(Slice, Slice)>> {
        let scan = match &self.through {
            Through::Live => self.keyspace.scan(range),
            Through::Snapshot(snapshot) => {
                read_snapshot(snapshot, |snapshot| Ok(snapshot.scan(&self.keyspace, range)))?
            }
            Through::Transaction(tx) => {
                return Ok(Box::new(Chunks {
                    transaction: tx.clone(),
                    of: self.keyspace.clone(),
                    range,
                    is_reverse,
                    ready: VecDeque::new(),
                    has_ended: false,
                }));
            }
            Through::Batch(_) => return Err(no_reads()),
        };
        let mut scan = if is_reverse { scan.rev() } else { scan };
        Ok(Box::new(std::iter::from_fn(move || match scan.advance() {
            Ok(false) => None,
            Err(error) => Some(Err(error)),
            Ok(true) => {
                let (mut key, mut value) = (Slice::default(), Slice::default());
                if part != Part::Values {
                    key = Slice::copy_of(scan.key());
                }
                if part != Part::Keys {
                    value = scan.value();
                }
                Some(Ok((key, value)))
            }
        })))
    }

    pub(crate) fn count(&self) -> Result<u64> {
        match &self.through {
            Through::Live => self.keyspace.count(),
            _ => {
                let keys = self.scan((Bound::Unbounded, Bound::Unbounded), false, Part::Keys)?;
                count(keys)
            }
        }
    }
}

/// A collection, and what it is read and written through.
#[derive(Clone)]
pub(crate) struct Documents {
    pub(crate) collection: Collection,
    pub(crate) through: Through,
}

/// How often a step is done that another writer may undo.
const TRIES: u32 = 100;

impl Documents {
    /// Returns what has the documents, if that is a cluster.
    fn remote(&self) -> Option<&Arc<dyn Remote>> {
        remote_of(&self.collection)
    }

    pub(crate) fn get(&self, key: &Value) -> Result<Option<Document>> {
        match &self.through {
            Through::Live => self.collection.get(key),
            Through::Snapshot(snapshot) => {
                read_snapshot(snapshot, |snapshot| snapshot.get(&self.collection, key))
            }
            Through::Transaction(tx) => tx.with(|tx| tx.get(&self.collection, key)),
            Through::Batch(_) => Err(no_reads()),
        }
    }

    /// As [`Documents::get`], but reads no file and waits for nothing.
    pub(crate) fn try_get(&self, key: &Value) -> Result<TryGet<Document>> {
        match &self.through {
            Through::Live if self.remote().is_none() => self.collection.try_get(key),
            _ => Ok(TryGet::WouldRead),
        }
    }

    /// Returns what a path selects in a document; `None` without a document.
    pub(crate) fn select(&self, key: &Value, selection: &Selection) -> Result<Option<Selected>> {
        if let Through::Live = self.through {
            return self.collection.look(key, |root| selection.select(root));
        }
        let wrong = |error| Error::new(ErrorKind::Corruption, format!("{error}"));
        let document = self.get(key)?;
        document.map(|document| selection.select(&document.root()).map_err(wrong)).transpose()
    }

    /// Appends the document as JSON text, which is checked. Returns whether there is one.
    pub(crate) fn json(&self, key: Value, mode: JsonMode, out: &mut Vec<u8>) -> Result<bool> {
        if let Through::Live = self.through {
            let found = self.collection.look(key, |root| json::append_json_as(root, mode, out))?;
            return Ok(found.is_some());
        }
        let Some(document) = self.get(&key)? else { return Ok(false) };
        json::append_json_as(&document.root(), mode, out)
            .map_err(|malformed| malformed.in_file("a document", 0))?;
        Ok(true)
    }

    /// As [`Documents::json`] of plain JSON, but reads no file and waits for nothing, and does not
    /// check that the text is UTF-8.
    pub(crate) fn try_json(&self, key: Value, out: &mut Vec<u8>) -> Result<TryGet<()>> {
        match &self.through {
            Through::Live if self.remote().is_none() => {
                self.collection.try_look(key, |root| json::append_json_bytes(root, out))
            }
            _ => Ok(TryGet::WouldRead),
        }
    }

    pub(crate) fn put(&self, key: Value, value: &Value, expires: Option<Moment>) -> Result<()> {
        let collection = &self.collection;
        match &self.through {
            Through::Live => collection.put(key, value.expires(expires)),
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => {
                tx.with(|tx| tx.put(collection, key, value.expires(expires)))
            }
            Through::Batch(batch) => {
                batch.with(|batch| batch.put(collection, key, value.expires(expires)))
            }
        }
    }

    /// Sets a document whose key has none. A batch notices at its commit that the key has one.
    pub(crate) fn insert(
        &self,
        database: &Database,
        key: Value,
        value: &Value,
        expires: Option<Moment>,
    ) -> Result<()> {
        let collection = &self.collection;
        let exists = |key: &Value| {
            let name = collection.name();
            let text = format!("collection {name:?} has a document of the key {key}");
            Error::new(ErrorKind::Duplicate, text)
        };
        match &self.through {
            Through::Live => {
                let mut batch = database.batch();
                insert_in(&mut batch, collection, key.clone(), value.expires(expires))?;
                database.commit(batch).map_err(|error| match error.kind() {
                    ErrorKind::Conflict => exists(&key),
                    _ => error,
                })
            }
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => tx.with(|tx| {
                if tx.get(collection, &key)?.is_some() {
                    return Err(exists(&key));
                }
                tx.put(collection, key, value.expires(expires))
            }),
            Through::Batch(batch) => batch.with(|batch| {
                batch.put(collection, key.clone(), value.expires(expires))?;
                batch.expect(collection, key, Expect::Absent)
            }),
        }
    }

    pub(crate) fn put_json(&self, key: Value, text: &str, mode: JsonMode) -> Result<()> {
        let collection = &self.collection;
        if mode == JsonMode::Extended {
            let document = Document::from_json_with(text, JsonOptions::new().mode(mode))?;
            return self.put_document(key, &document);
        }
        match &self.through {
            Through::Live => collection.put(key, Json(text)),
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => tx.with(|tx| tx.put(collection, key, Json(text))),
            Through::Batch(batch) => {
                let document = Document::from_json(text)?;
                batch.with(|batch| batch.put(collection, key, &document))
            }
        }
    }

    fn put_document(&self, key: Value, document: &Document) -> Result<()> {
        let collection = &self.collection;
        match &self.through {
            Through::Live => collection.put(key, document),
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => tx.with(|tx| tx.put(collection, key, document)),
            Through::Batch(batch) => batch.with(|batch| batch.put(collection, key, document)),
        }
    }

    /// Sets documents: a live collection in batches of about `bytes`.
    pub(crate) fn put_all(
        &self,
        documents: Vec<(Value, Value)>,
        bytes: usize,
        database: &Database,
    ) -> Result<()> {
        let mut batch = database.batch();
        for (key, document) in documents {
            if !matches!(self.through, Through::Live) {
                self.put(key, &document, None)?;
                continue;
            }
            put_in(&mut batch, &self.collection, key, &document)?;
            if batch.bytes() >= bytes {
                database.commit(std::mem::take(&mut batch))?;
            }
        }
        if batch.is_empty() { Ok(()) } else { database.commit(batch) }
    }

    pub(crate) fn delete(&self, key: Value) -> Result<()> {
        let collection = &self.collection;
        match &self.through {
            Through::Live => collection.delete(key),
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => tx.with(|tx| tx.delete(collection, key)),
            Through::Batch(batch) => batch.with(|batch| batch.delete(collection, key)),
        }
    }

    /// Removes a document and returns whether it was there. A batch does not know: it returns true.
    pub(crate) fn remove(&self, key: Value) -> Result<bool> {
        match &self.through {
            Through::Live => self.collection.remove(key),
            Through::Batch(_) => self.delete(key).map(|()| true),
            Through::Snapshot(_) | Through::Transaction(_) => {
                let is_there = self.get(&key)?.is_some();
                self.delete(key)?;
                Ok(is_there)
            }
        }
    }

    /// Removes a document and returns it, if it is there. No other write of it comes between.
    pub(crate) fn take(&self, database: &Database, key: &Value) -> Result<Option<Document>> {
        if self.remote().is_some() {
            return take_remote(&self.collection, key);
        }
        self.through.transact(database, |tx| {
            let document = tx.get(&self.collection, key)?;
            if document.is_some() {
                tx.delete(&self.collection, key)?;
            }
            Ok(document)
        })
    }

    /// Removes the first document and returns it with its key; `None` only if none is left.
    pub(crate) fn take_first(&self, database: &Database) -> Result<Option<(Value, Document)>> {
        if self.remote().is_some() {
            // Others may take the first one meanwhile.
            while let Some(key) = self.collection.scan(..).keys().next().transpose()? {
                if let Some(document) = take_remote(&self.collection, &key)? {
                    return Ok(Some((key, document)));
                }
            }
            return Ok(None);
        }
        self.through.transact(database, |tx| {
            let first = tx.scan(&self.collection, ..).next().transpose()?;
            if let Some((key, _)) = &first {
                tx.delete(&self.collection, key)?;
            }
            Ok(first)
        })
    }

    /// Returns a document. Sets it to `value` first if there is none.
    pub(crate) fn get_or_put(
        &self,
        database: &Database,
        key: &Value,
        value: &Value,
    ) -> Result<Option<Document>> {
        if self.remote().is_some() {
            // Others may remove what they or this call have put.
            for _ in 0..TRIES {
                if let Some(found) = self.collection.get(key)? {
                    return Ok(Some(found));
                }
                match self.insert(database, key.clone(), value, None) {
                    Err(error) if error.kind() == ErrorKind::Duplicate => {}
                    inserted => inserted?,
                }
            }
            return self.collection.get(key);
        }
        self.through.transact(database, |tx| {
            if let Some(found) = tx.get(&self.collection, key)? {
                return Ok(Some(found));
            }
            tx.put(&self.collection, key, value)?;
            tx.get(&self.collection, key)
        })
    }

    /// Changes a document by an update document and returns whether it was there.
    pub(crate) fn update(&self, key: Value, update: &Update) -> Result<Option<bool>> {
        let collection = &self.collection;
        let patched = match &self.through {
            Through::Live => update.run(collection, key),
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => tx.with(|tx| update.run_in(tx, collection, key)),
            Through::Batch(_) => Err(no_reads()),
        };
        patched.and_then(Patched::applied).map(Some)
    }

    /// Changes a document and returns whether it was there. A batch does not know: `None`.
    pub(crate) fn patch(&self, key: Value, patch: &Patch) -> Result<Option<bool>> {
        let collection = &self.collection;
        match &self.through {
            Through::Live => collection.patch_if(key, patch).and_then(Patched::applied).map(Some),
            Through::Snapshot(_) => Err(no_writes()),
            Through::Transaction(tx) => tx
                .with(|tx| tx.patch_if(collection, key, patch).and_then(Patched::applied))
                .map(Some),
            Through::Batch(batch) => {
                batch.with(|batch| batch.patch(collection, key, patch)).map(|()| None)
            }
        }
    }

    /// Sets the value at a path of names, or removes it. `expected` is what must be there.
    pub(crate) fn set_in(
        &self,
        key: Value,
        names: &[Box<str>],
        expected: Option<&Value>,
        value: Option<Value>,
    ) -> Result<()> {
        let Through::Transaction(tx) = &self.through else { return Err(no_writes()) };
        let change = |document: &mut flagstone::DocumentMut| {
            let gone = || Error::invalid("the document has changed: read it again");
            let is_expected =
                |now: Option<&Value>| expected.is_none_or(|expected| now == Some(expected));
            let mut place = document.value_mut();
            let Some((last, way)) = names.split_last() else {
                if !is_expected(Some(place)) {
                    return Err(gone());
                }
                *place = value.clone().unwrap_or(Value::Null);
                return Ok(());
            };
            for name in way {
                let Value::Map(inside) = place else { return Err(gone()) };
                place = inside.get_mut(name).ok_or_else(gone)?;
            }
            let Value::Map(map) = place else { return Err(gone()) };
            if !is_expected(map.get(last)) {
                return Err(gone());
            }
            match value.clone() {
                Some(value) => drop(map.insert(&**last, value)),
                None => drop(map.remove(last)),
            }
            Ok(())
        };
        if tx.with(|tx| tx.update(&self.collection, key, change))? {
            Ok(())
        } else {
            Err(Error::invalid("the document was removed"))
        }
    }

    pub(crate) fn scan(
        &self,
        range: (Bound<Value>, Bound<Value>),
        is_reverse: bool,
        part: Part,
    ) -> Result<Source<Row>> {
        let scan = match &self.through {
            Through::Live => self.collection.scan(range),
            Through::Snapshot(snapshot) => {
                read_snapshot(snapshot, |snapshot| Ok(snapshot.scan(&self.collection, range)))?
            }
            Through::Transaction(tx) => {
                let chunks = Chunks {
                    transaction: tx.clone(),
                    of: self.collection.clone(),
                    range,
                    is_reverse,
                    ready: VecDeque::new(),
                    has_ended: false,
                };
                return Ok(Box::new(chunks.map(row)));
            }
            Through::Batch(_) => return Err(no_reads()),
        };
        let scan = if is_reverse { scan.rev() } else { scan };
        Ok(match part {
            Part::Keys => Box::new(scan.keys().map(|key| key.map(|key| (key, None)))),
            Part::Values | Part::Items => Box::new(scan.map(row)),
        })
    }

    pub(crate) fn count(&self) -> Result<u64> {
        match &self.through {
            Through::Live => self.collection.count(),
            _ => count(self.scan((Bound::Unbounded, Bound::Unbounded), false, Part::Keys)?),
        }
    }
}

/// A key with its document, as iterators return it.
pub(crate) fn row(entry: Result<(Value, Document)>) -> Result<Row> {
    entry.map(|(key, document)| (key, Some(document)))
}

fn count<T>(mut entries: Source<T>) -> Result<u64> {
    entries.try_fold(0, |count, entry| entry.map(|_| count + 1))
}
