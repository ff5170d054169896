//! Record batches into a collection.

use crate::cells::{self, Reading};
use crate::column::malformed;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::Schema;
use flagstone::{
    Batch, Collection, Database, Document, Error, ErrorKind, FieldPath, Filter, Matcher,
    MergePatch, Result, Value,
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
    /// The columns that become fields; without them all do. Filter and key may be of others.
    pub fields: Option<Vec<String>>,
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
            fields: None,
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
                let names = schema.fields().iter().map(|field| field.name().as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                return Err(Error::invalid(format!("there is no column {field:?} among {names}")));
            }
        }
        let is_read = |at: &usize| self.reads(schema.field(*at).name());
        Ok((0..schema.fields().len()).filter(is_read).collect())
    }

    fn reads(&self, column: &str) -> bool {
        let Some(fields) = &self.fields else { return true };
        let is_of_key = self.key == column || self.key.split('.').next() == Some(column);
        let path = FieldPath::of_names([column]);
        let is_read = |filter: &Filter| filter.paths().iter().any(|read| read.overlaps(&path));
        let is_field = fields.iter().any(|field| field == column);
        is_field || is_of_key || self.filter.as_ref().is_some_and(is_read)
    }

    const fn reading(&self) -> Reading {
        Reading { naive_is_utc: self.naive_is_utc, drops_nulls: self.drops_nulls }
    }
}

/// What a load has done so far. All of it is acknowledged with the durability of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Documents that were put or merged.
    pub documents: u64,
    /// Rows that were left out, since their keys exist.
    pub existing: u64,
    /// Rows that were read, also those that the filter leaves out.
    pub rows: u64,
}

/// Checks whether [`load`] takes rows of this schema.
///
/// # Errors
/// InvalidInput for a type of a column that has no form in a document, for two columns of one
/// name, for a field that is no column, and for a filter that does not compile.
pub fn check(schema: &Schema, options: &LoadOptions) -> Result<()> {
    let columns = options.columns(schema)?;
    options.filter.as_ref().map_or(Ok(()), |filter| filter.compile().map(|_matcher| ()))?;
    let read: Vec<_> = columns.into_iter().map(|at| &schema.fields()[at]).collect();
    cells::check(&read, options.reading())
}

/// A batch is committed when it exceeds this number of bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Loads all rows of `reader`, each as the document of its key. `watch` is called after each
/// commit with what was done so far, and may end the load.
///
/// Rows are committed in batches of about 1 MiB, in their order. Memory is bounded by one of these
/// and one batch of the reader.
///
/// # Errors
/// All rows before the one that failed are loaded, and the error says how many these are.
/// InvalidInput for a type of a column that has no form in a document, before anything is read; for
/// a value without one, a missing key, and what [`Collection::put_value`] refuses: these name row
/// and column. Io for a reader that fails. Those of the database.
pub fn load(
    database: &Database,
    collection: &Collection,
    reader: &mut dyn RecordBatchReader,
    options: &LoadOptions,
    mut watch: impl FnMut(Loaded) -> ControlFlow<()>,
) -> Result<Loaded> {
    let reading = options.reading();
    check(&reader.schema(), options)?;
    let mut load = Load {
        database,
        collection,
        options,
        loaded: Loaded::default(),
        batch: database.batch(),
        pending: Vec::new(),
        keys: HashSet::new(),
        matcher: options.filter.as_ref().map(Filter::compile).transpose()?,
        row: 0,
    };
    let ended = load.all(reader, reading, &mut watch);
    // What came before the row that failed is loaded.
    let ended = match (ended, load.commit()) {
        (Err(failed), Ok(())) | (_, Err(failed)) => Err(failed),
        (Ok(()), Ok(())) => Ok(()),
    };
    match ended {
        Ok(()) => {
            let _at_the_end = watch(load.loaded);
            Ok(load.loaded)
        }
        Err(error) => {
            Err(error.context(format!("{} documents were loaded, and then", load.loaded.documents)))
        }
    }
}

struct Load<'a> {
    database: &'a Database,
    collection: &'a Collection,
    options: &'a LoadOptions,
    loaded: Loaded,
    batch: Batch,
    /// The rows of the batch: their numbers, keys and documents.
    pending: Vec<(u64, Value, Value)>,
    /// The keys of the batch, if rows are inserted.
    keys: HashSet<Value>,
    matcher: Option<Matcher>,
    /// The rows that were read.
    row: u64,
}

impl Load<'_> {
    fn all(
        &mut self,
        reader: &mut dyn RecordBatchReader,
        reading: Reading,
        watch: &mut dyn FnMut(Loaded) -> ControlFlow<()>,
    ) -> Result<()> {
        for batch in reader {
            let batch = batch.map_err(|error| {
                let text = format!("the Arrow stream failed after {} rows: {error}", self.row);
                Error::new(ErrorKind::Io, text)
            })?;
            if self.rows(&batch, reading, watch)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn rows(
        &mut self,
        batch: &RecordBatch,
        reading: Reading,
        watch: &mut dyn FnMut(Loaded) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let columns = self.options.columns(batch.schema_ref())?;
        let chosen = batch.project(&columns).map_err(|error| Error::invalid(error.to_string()))?;
        let read = cells::rows(&chosen, reading)?;
        for row in 0..batch.num_rows() {
            let document = read(row).map_err(|unread| {
                let column = unread.path.trim_start_matches('.');
                Error::invalid(format!("row {}, column {column}: {}", self.row, unread.reason))
            })?;
            self.add(document).map_err(|error| self.at(self.row, error))?;
            self.row += 1;
            self.loaded.rows = self.row;
            if self.batch.bytes() >= BATCH_BYTES || self.options.mode == LoadMode::Merge {
                self.commit()?;
                if watch(self.loaded).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        // A stream of small batches is watched, too.
        Ok(watch(self.loaded))
    }

    fn at(&self, row: u64, error: Error) -> Error {
        error.context(format!("row {row}"))
    }

    /// Adds a row to the batch, if the filter lets it pass.
    fn add(&mut self, mut document: Value) -> Result<()> {
        if let Some(matcher) = &self.matcher
            && !matcher.matches(&Document::from_value(&document)?.root()).map_err(malformed)?
        {
            return Ok(());
        }
        let key = self.key(&mut document)?;
        if let (Some(fields), Value::Map(map)) = (&self.options.fields, &mut document) {
            let is_kept = |name: &Value| fields.iter().any(|field| name.as_str() == Some(field));
            *map = std::mem::take(map).into_iter().filter(|(name, _)| is_kept(name)).collect();
        }
        match self.options.mode {
            LoadMode::Merge => {}
            LoadMode::Insert => {
                if !self.keys.insert(key.clone()) {
                    self.loaded.existing += 1;
                    return Ok(());
                }
                self.batch.put_value(self.collection, key.clone(), &document)?;
                self.batch.expect_no_document(self.collection, key.clone())?;
            }
            LoadMode::Upsert => self.batch.put_value(self.collection, key.clone(), &document)?,
        }
        self.pending.push((self.row, key, document));
        Ok(())
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
        let batch = std::mem::replace(&mut self.batch, self.database.batch());
        let rows = std::mem::take(&mut self.pending);
        self.keys.clear();
        if rows.is_empty() {
            return Ok(());
        }
        if self.options.mode != LoadMode::Merge {
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
        rows.into_iter().try_for_each(|(row, key, document)| {
            self.write_one(key, document).map_err(|error| self.at(row, error))
        })
    }

    /// Writes a row by itself.
    fn write_one(&mut self, key: Value, document: Value) -> Result<()> {
        match self.options.mode {
            LoadMode::Merge => {
                let patch = MergePatch::from_value(document)?.upsert();
                self.collection.merge_patch(key, &patch)?;
            }
            LoadMode::Upsert => self.collection.put_value(key, &document)?,
            LoadMode::Insert => {
                let mut batch = self.database.batch();
                batch.put_value(self.collection, key.clone(), &document)?;
                batch.expect_no_document(self.collection, key)?;
                match self.database.commit(batch) {
                    Err(error) if error.kind() == ErrorKind::Conflict => {
                        self.loaded.existing += 1;
                        return Ok(());
                    }
                    committed => committed?,
                }
            }
        }
        self.loaded.documents += 1;
        Ok(())
    }
}

/// Returns whether an error is of single rows, so that others can be written.
const fn is_of_rows(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Duplicate | ErrorKind::InvalidInput)
}
