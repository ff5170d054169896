//! Record batches into a collection.

use crate::cells::{self, Reading};
use crate::column::malformed;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, FieldRef, Schema};
use flagstone::doc::FieldPath;
use flagstone::internal::document::{Direction, sort_key};
use flagstone::internal::{Shard, insert_in, put_in, remote_of, write_remote};
use flagstone::query::Matcher;
use flagstone::{
    Batch, Collection, Database, Document, Error, ErrorKind, Filter, MergePatch, Result, Space,
    Value,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What becomes of a row whose key exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadMode {
    /// It replaces the document. Of several rows with one key the last one stays.
    #[default]
    Upsert,
    /// It is counted and left out. Of several rows with one key the first one stays.
    Insert,
    /// It is merged into the document (RFC 7396): null removes a field. Each row is committed by
    /// itself.
    Merge,
}

/// How rows become documents.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The path of the primary key in the documents.
    pub key: String,
    /// What becomes of a row whose key exists.
    pub mode: LoadMode,
    /// Whether the column that `key` names is left out of the documents.
    pub drops_key: bool,
    /// Whether fields that are null are left out, so that they are missing.
    pub drops_nulls: bool,
    /// Whether timestamps without a zone are taken as UTC. They are refused otherwise.
    pub naive_is_utc: bool,
    /// The rows that are loaded, as documents of all columns. It has no conditions on `$key`.
    pub filter: Option<Filter>,
    /// Only documents of this shard are loaded, if it is set: several loads of the same rows, one
    /// for each shard, load all of them. A row without a key is of the shard of its number.
    pub shard: Option<Shard>,
    /// The columns that become fields; without them all do. Filter and key may be of others.
    pub fields: Option<Vec<String>>,
    /// Rows before this one are not loaded: a load that was stopped has done so.
    pub first_row: u64,
    /// Whether a load that was stopped goes on: documents of a cluster behind its last mark, which
    /// may be before the first row, can be its own.
    pub continues: bool,
}

impl LoadOptions {
    /// Documents are put, with the key at this path.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            mode: LoadMode::Upsert,
            drops_key: false,
            drops_nulls: false,
            naive_is_utc: false,
            filter: None,
            shard: None,
            fields: None,
            first_row: 0,
            continues: false,
        }
    }

    /// Returns the numbers of the columns that a load reads: as fields, for the key and for the
    /// filter.
    ///
    /// # Errors
    /// InvalidInput for a field that is no column.
    pub fn columns(&self, schema: &Schema) -> Result<Vec<usize>> {
        for field in self.fields.iter().flatten() {
            if schema.column_with_name(field).is_none() {
                let names = names_of(schema);
                return Err(Error::invalid(format!("there is no column {field:?} among {names}")));
            }
        }
        let is_read = |at: &usize| self.reads(schema.field(*at).name());
        Ok((0..schema.fields().len()).filter(is_read).collect())
    }

    fn has_key_in(&self, column: &str) -> bool {
        self.key == column || self.key.split('.').next() == Some(column)
    }

    fn reads(&self, column: &str) -> bool {
        let Some(fields) = &self.fields else { return true };
        let is_of_key = self.has_key_in(column);
        let path = FieldPath::of_names([column]);
        let is_read = |filter: &Filter| filter.paths().iter().any(|read| read.overlaps(&path));
        let is_field = fields.iter().any(|field| field == column);
        is_field || is_of_key || self.filter.as_ref().is_some_and(is_read)
    }

    const fn reading(&self) -> Reading {
        Reading { naive_is_utc: self.naive_is_utc, drops_nulls: self.drops_nulls }
    }
}

fn names_of(schema: &Schema) -> String {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// What a load has done so far. All of it is acknowledged with the durability of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Documents that were put or merged.
    pub documents: u64,
    /// Rows that were left out, since their keys exist.
    pub existing: u64,
    /// Rows that were left out, since they cannot be loaded.
    pub bad: u64,
    /// Rows that were read, also those that the filter leaves out.
    pub rows: u64,
}

/// What a load tells its caller, and asks. A function of what was done so far is one.
pub trait LoadWatcher {
    /// Called after each commit with what was done so far. `Break` ends the load.
    fn watch(&mut self, so_far: Loaded) -> ControlFlow<()>;

    /// Called with a row that cannot be loaded, and its document, if it has one. The load goes on
    /// without it, unless an error is returned: by default `error`, which names the row.
    ///
    /// # Errors
    /// What ends the load.
    fn refuse(&mut self, error: Error, document: Option<&Value>) -> Result<()> {
        let _ = document;
        Err(error)
    }

    /// Called with a row that is not inserted, since its key exists.
    ///
    /// # Errors
    /// What ends the load.
    fn leave(&mut self, row: u64, document: &Value) -> Result<()> {
        let _ = (row, document);
        Ok(())
    }

    /// Returns whether [`refuse`](Self::refuse) and [`leave`](Self::leave) are called for a row
    /// only when all rows before it are committed, if rows are inserted. A watcher that marks how
    /// far its notes of such rows came needs it: none of them is then of a row after a mark.
    fn is_told_in_order(&self) -> bool {
        false
    }

    /// Called before a batch is committed: with it all rows before `row` are loaded.
    ///
    /// # Errors
    /// What ends the load.
    fn mark(&mut self, batch: &mut Batch, row: u64) -> Result<()> {
        let _ = (batch, row);
        Ok(())
    }
}

impl<F: FnMut(Loaded) -> ControlFlow<()>> LoadWatcher for F {
    fn watch(&mut self, so_far: Loaded) -> ControlFlow<()> {
        self(so_far)
    }
}

/// Checks whether [`load`] takes rows of this schema.
///
/// # Errors
/// InvalidInput for an unsupported column type, for two columns of one name, for a field or a key
/// that is no column, and for a filter that does not compile.
pub fn check(schema: &Schema, options: &LoadOptions) -> Result<()> {
    let columns = options.columns(schema)?;
    let is_of_key = |field: &FieldRef| options.has_key_in(field.name());
    if !schema.fields().is_empty() && !schema.fields().iter().any(is_of_key) {
        let (key, names) = (&options.key, names_of(schema));
        return Err(Error::invalid(format!("there is no column of the key {key:?} among {names}")));
    }
    options.filter.as_ref().map_or(Ok(()), |filter| filter.compile().map(|_matcher| ()))?;
    let read: Vec<_> = columns.into_iter().map(|at| &schema.fields()[at]).collect();
    cells::check(&read, options.reading())
}

/// A batch is committed when it exceeds this number of bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Loads all rows of `reader`, each as the document of its key. `watcher` may end the load.
///
/// Rows are committed in batches of about 1 MiB, in their order. Memory is bounded by one of these
/// and one batch of the reader.
///
/// # Errors
/// All rows before the one that failed are loaded, and the error says how many these are.
/// InvalidInput for an unsupported column type, before anything is read; for an unsupported value,
/// a missing key, and what [`Collection::put_value`] refuses, unless the watcher continues: these
/// name row and column. Io for a reader that fails. Those of the database.
pub fn load(
    database: &Database,
    collection: &Collection,
    reader: &mut dyn RecordBatchReader,
    options: &LoadOptions,
    mut watcher: impl LoadWatcher,
) -> Result<Loaded> {
    check(&reader.schema(), options)?;
    let mut load = Load {
        database,
        collection,
        options,
        watcher: &mut watcher,
        loaded: Loaded::default(),
        batch: database.batch(),
        pending: Vec::new(),
        keys: HashSet::new(),
        matcher: options.filter.as_ref().map(Filter::compile).transpose()?,
        sort_key: Vec::new(),
        row: 0,
    };
    let ended = load.all(reader);
    // What came before the row that failed is loaded.
    let ended = match (ended, load.commit()) {
        (Err(failed), Ok(())) | (_, Err(failed)) => Err(failed),
        (Ok(()), Ok(())) => Ok(()),
    };
    let loaded = load.loaded;
    match ended {
        Ok(()) => {
            let _at_the_end = watcher.watch(loaded);
            Ok(loaded)
        }
        Err(error) => Err(error.context(match loaded.documents {
            1 => "1 document was loaded, and then".to_owned(),
            more => format!("{more} documents were loaded, and then"),
        })),
    }
}

struct Load<'a> {
    database: &'a Database,
    collection: &'a Collection,
    options: &'a LoadOptions,
    watcher: &'a mut dyn LoadWatcher,
    loaded: Loaded,
    batch: Batch,
    /// The rows of the batch: their numbers, keys and documents.
    pending: Vec<(u64, Value, Value)>,
    /// The keys of the batch, if rows are inserted.
    keys: HashSet<Value>,
    matcher: Option<Matcher>,
    /// The last key, as the shard knows it.
    sort_key: Vec<u8>,
    /// The rows that were read.
    row: u64,
}

impl Load<'_> {
    fn all(&mut self, reader: &mut dyn RecordBatchReader) -> Result<()> {
        for batch in reader {
            let batch = batch.map_err(|error| {
                let text = format!("the Arrow stream failed after {} rows: {error}", self.row);
                let kind = match error {
                    ArrowError::SchemaError(_) => ErrorKind::InvalidInput,
                    _ => ErrorKind::Io,
                };
                Error::new(kind, text)
            })?;
            // A stream of small batches is watched, too.
            if self.rows(&batch)?.is_break() || self.watcher.watch(self.loaded).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<ControlFlow<()>> {
        let columns = self.options.columns(batch.schema_ref())?;
        let chosen = batch.project(&columns).map_err(|error| Error::invalid(error.to_string()))?;
        let read = cells::rows(&chosen, self.options.reading())?;
        let done = self.options.first_row.saturating_sub(self.row).min(batch.num_rows() as u64);
        self.row += done;
        for row in done as usize..batch.num_rows() {
            match read(row) {
                Ok(document) => self.add(document)?,
                Err(unread) => {
                    let column = unread.path.trim_start_matches('.');
                    let text = format!("row {}, column {column}: {}", self.row, unread.reason);
                    if self.has(&self.row.to_be_bytes()) {
                        self.refuse(Error::invalid(text), None)?;
                    }
                }
            }
            self.row += 1;
            self.loaded.rows = self.row;
            if self.batch.bytes() >= BATCH_BYTES || self.options.mode == LoadMode::Merge {
                self.commit()?;
                if self.watcher.watch(self.loaded).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.loaded.rows = self.row;
        Ok(ControlFlow::Continue(()))
    }

    /// Leaves out a row that cannot be loaded, if the watcher goes on.
    fn refuse(&mut self, error: Error, document: Option<&Value>) -> Result<()> {
        if !is_of_rows(error.kind()) {
            return Err(error);
        }
        self.commit_before()?;
        self.watcher.refuse(error, document)?;
        self.loaded.bad += 1;
        Ok(())
    }

    /// Leaves out a row whose key exists.
    fn leave(&mut self, row: u64, document: &Value) -> Result<()> {
        self.commit_before()?;
        self.watcher.leave(row, document)?;
        self.loaded.existing += 1;
        Ok(())
    }

    /// Commits the rows before one that is left out, if the watcher has to know of it after them.
    fn commit_before(&mut self) -> Result<()> {
        if self.options.mode == LoadMode::Insert && self.watcher.is_told_in_order() {
            self.commit()
        } else {
            Ok(())
        }
    }

    /// Adds a row to the batch, if the filter lets it pass and it is of the shard.
    fn add(&mut self, mut document: Value) -> Result<()> {
        let row = self.row;
        let put = match self.chosen_key(&mut document) {
            Err(_) if !self.has(&row.to_be_bytes()) => return Ok(()),
            Ok(Some(key)) => self.put(key, &mut document),
            other => other,
        };
        match put {
            Ok(Some(key)) => self.pending.push((row, key, document)),
            Ok(None) => {}
            Err(error) => self.refuse(error.context(format!("row {row}")), Some(&document))?,
        }
        Ok(())
    }

    /// Returns whether the shard has what these bytes are of.
    fn has(&self, bytes: &[u8]) -> bool {
        self.options.shard.is_none_or(|shard| shard.has(bytes))
    }

    /// Returns the key of a document that shall be loaded.
    fn chosen_key(&mut self, document: &mut Value) -> Result<Option<Value>> {
        if let Some(matcher) = &self.matcher
            && !matcher.matches(&Document::from_value(document)?.root()).map_err(malformed)?
        {
            return Ok(None);
        }
        let key = self.key(document)?;
        if self.options.shard.is_none() {
            return Ok(Some(key));
        }
        self.sort_key.clear();
        sort_key::encode(&key, Direction::Ascending, &mut self.sort_key);
        Ok(self.has(&self.sort_key).then_some(key))
    }

    /// Puts a document into the batch and returns its key, unless one of the batch has it. The
    /// document loses what is no field of it.
    fn put(&mut self, key: Value, document: &mut Value) -> Result<Option<Value>> {
        if let (Some(fields), Value::Map(map)) = (&self.options.fields, &mut *document) {
            let is_kept = |name: &Value| fields.iter().any(|field| name.as_str() == Some(field));
            *map = std::mem::take(map).into_iter().filter(|(name, _)| is_kept(name)).collect();
        }
        match self.options.mode {
            LoadMode::Merge => {}
            LoadMode::Insert => {
                if self.keys.contains(&key) {
                    self.leave(self.row, document)?;
                    return Ok(None);
                }
                insert_in(&mut self.batch, self.collection, key.clone(), &*document)?;
                self.keys.insert(key.clone());
            }
            LoadMode::Upsert => {
                put_in(&mut self.batch, self.collection, key.clone(), &*document)?;
            }
        }
        Ok(Some(key))
    }

    fn key(&self, document: &mut Value) -> Result<Value> {
        let path = &self.options.key;
        let missing = || Error::invalid(format!("column {path}: expected a key, found none"));
        let Value::Map(map) = document else { return Err(missing()) };
        if let Some(key) = map.get(path).filter(|key| !key.is_null()).cloned() {
            if self.options.drops_key {
                map.remove(path);
            }
            return Ok(key);
        }
        let mut value = &*document;
        for name in path.split('.') {
            value = value.get(name).ok_or_else(missing)?;
        }
        if value.is_null() { Err(missing()) } else { Ok(value.clone()) }
    }

    fn commit(&mut self) -> Result<()> {
        let mut batch = std::mem::replace(&mut self.batch, self.database.batch());
        let rows = std::mem::take(&mut self.pending);
        self.keys.clear();
        if rows.is_empty() {
            return Ok(());
        }
        // A cluster tells of each row whether it was inserted, and the mark comes after them.
        let inserts_remote =
            self.options.mode == LoadMode::Insert && remote_of(self.collection).is_some();
        let mut inserted = None;
        if inserts_remote {
            inserted = match write_remote(batch) {
                Err(error) if !is_of_rows(error.kind()) => return Err(error),
                inserted => inserted.ok(),
            };
        } else if self.options.mode != LoadMode::Merge {
            self.watcher.mark(&mut batch, self.row)?;
            match self.database.commit(batch) {
                Ok(()) => {
                    self.loaded.documents += rows.len() as u64;
                    return Ok(());
                }
                // Keys that exist, or a row that the database does not take.
                Err(error) if is_of_rows(error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
        let (mut done, mut ended) = (self.row, Ok(()));
        for (at, (row, key, document)) in rows.into_iter().enumerate() {
            let is_inserted = inserted.as_ref().map(|inserted| inserted.get(at) == Some(&true));
            // Of a load that continues, also before its first mark, or after an error, some may be
            // its own.
            let may_be_own = inserts_remote
                && is_inserted.is_none_or(|is_inserted| !is_inserted && self.options.continues);
            ended =
                if is_inserted == Some(true) || may_be_own && self.has_stored(&key, &document)? {
                    self.loaded.documents += 1;
                    Ok(())
                } else if is_inserted.is_some() {
                    self.leave(row, &document)
                } else {
                    self.write_one(row, key, &document)
                };
            if ended.is_err() {
                done = row;
                break;
            }
        }
        let mut mark = self.database.batch();
        self.watcher.mark(&mut mark, done)?;
        if !mark.is_empty() {
            self.database.commit(mark)?;
        }
        ended
    }

    /// Returns whether the collection has this document.
    fn has_stored(&self, key: &Value, document: &Value) -> Result<bool> {
        let stored = self.collection.get(key)?;
        Ok(stored.is_some_and(|stored| stored.to_value() == *document))
    }

    /// Writes a row by itself, or leaves it out.
    fn write_one(&mut self, row: u64, key: Value, document: &Value) -> Result<()> {
        match self.written(row, key, document) {
            Ok(true) => self.loaded.documents += 1,
            Ok(false) => self.leave(row, document)?,
            Err(error) => self.refuse(error.context(format!("row {row}")), Some(document))?,
        }
        Ok(())
    }

    /// Writes a document by itself. Returns whether it was written: its key may exist. One that is
    /// inserted has a mark of its own: a load that continues would take it for another's.
    fn written(&mut self, row: u64, key: Value, document: &Value) -> Result<bool> {
        match self.options.mode {
            LoadMode::Merge => {
                let patch = MergePatch::from_value(document.clone())?.upsert();
                self.collection.patch_if(key, &patch)?.applied()?;
            }
            LoadMode::Upsert => self.collection.put(key, document)?,
            LoadMode::Insert => {
                let mut batch = self.database.batch();
                insert_in(&mut batch, self.collection, key, document)?;
                self.watcher.mark(&mut batch, row + 1)?;
                match self.database.commit(batch) {
                    Err(error) if error.kind() == ErrorKind::Conflict => return Ok(false),
                    committed => committed?,
                }
            }
        }
        Ok(true)
    }
}

/// Returns whether an error is of single rows, so that others can be written.
const fn is_of_rows(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Duplicate | ErrorKind::InvalidInput)
}
