//! Record batches that are filled from the values of documents.

use crate::column::{Columns, Lookup, malformed};
use crate::fill::{Filler, OnMismatch, Unfit, surplus};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use flagstone::doc::Malformed;
use flagstone::query::{EntryValues, IndexedValue, ValueRow, Values};
use flagstone::{Document, Error, ErrorKind, Result, View};

/// One batch after another, filled from any number of cursors.
pub(crate) struct Batcher {
    schema: SchemaRef,
    columns: Columns,
    lookups: Vec<Lookup>,
    /// For each column, which of the paths that are asked for is its own.
    paths: Vec<usize>,
    fillers: Vec<Filler>,
    rows: usize,
    /// The number of columns that have a value of the next row.
    filled: usize,
    limits: BatchLimits,
}

/// Where a batch ends: with the document that exceeds this many rows or bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// How far a batch was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// It is full.
    Batch,
    /// The cursor has ended.
    All,
}

impl Batcher {
    pub(crate) fn new(columns: &Columns, on_mismatch: OnMismatch, limits: BatchLimits) -> Self {
        let nulls = on_mismatch == OnMismatch::Null;
        let lookups: Vec<_> = columns.all.iter().map(|column| Lookup::new(&column.place)).collect();
        // The key is not asked for by a path.
        let paths = lookups.iter().scan(0, |next, lookup| {
            let path = *next;
            *next += usize::from(!matches!(lookup, Lookup::Key));
            Some(path)
        });
        let filler = |column| Filler::of(column, nulls, columns.are_for_polars);
        let fillers = columns.all.iter().map(filler).collect();
        Self {
            schema: columns.schema(),
            columns: columns.clone(),
            paths: paths.collect(),
            lookups,
            fillers,
            rows: 0,
            filled: 0,
            limits: BatchLimits { rows: limits.rows.max(1), ..limits },
        }
    }

    /// Takes documents of `values` until the batch is full.
    pub(crate) fn fill(&mut self, values: &mut Values<'_>) -> Result<Filled> {
        while !self.is_full() {
            if !values.advance()? {
                return Ok(Filled::All);
            }
            self.add(values)?;
            // What is not taken is the next document.
            values.visit_near(self.limits.rows - self.rows, |row| self.takes(&row));
        }
        Ok(Filled::Batch)
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.rows >= self.limits.rows
            || self.fillers.iter().map(|filler| filler.bytes).sum::<usize>() >= self.limits.bytes
    }

    /// Adds the current document: by the entry of an index, as far as that says what it holds.
    fn add(&mut self, values: &mut Values<'_>) -> Result<()> {
        if self.add_row(&values.row()?).map_err(|unfit| self.refused(unfit, values))? {
            return Ok(());
        }
        if !values.read_document()? && self.filled == 0 {
            // An entry without a document expires at this moment.
            return Ok(());
        }
        if self.add_row(&values.row()?).map_err(|unfit| self.refused(unfit, values))? {
            Ok(())
        } else {
            Err(lost(values))
        }
    }

    /// Returns whether the row is added. [`Batcher::add`] does the rest for one that is not.
    #[inline]
    fn takes(&mut self, row: &ValueRow<'_>) -> bool {
        !self.is_full() && self.add_row(row).unwrap_or(false)
    }

    /// Appends the row to the columns that have no value of it yet. Returns false if the entry does
    /// not say enough: its document is to be added instead.
    #[inline]
    fn add_row(&mut self, row: &ValueRow<'_>) -> Result<bool, Unfit> {
        match row {
            ValueRow::Document(root, key) => self.add_document(root, *key)?,
            // An entry does not say which other fields the document has.
            ValueRow::Entry(_) if self.columns.are_whole => return Ok(false),
            ValueRow::Entry(entry) if !self.add_entry(entry)? => return Ok(false),
            ValueRow::Entry(_) => {}
        }
        self.filled = 0;
        self.rows += 1;
        Ok(true)
    }

    /// Appends what the entry says, up to the first column that needs the document. Returns whether
    /// all columns have a value.
    #[inline]
    fn add_entry(&mut self, entry: &EntryValues<'_>) -> Result<bool, Malformed> {
        let is_faithful = entry.is_faithful();
        let columns = self.lookups.iter().zip(&mut self.fillers).zip(&self.paths);
        for ((lookup, filler), path) in columns.skip(self.filled) {
            let is_appended = match lookup {
                Lookup::Key => {
                    let is_faithful = true;
                    filler.append_indexed(entry.key(), is_faithful)
                }
                _ => filler.append_indexed(entry.get(*path), is_faithful),
            };
            if !is_appended? {
                return Ok(false);
            }
            self.filled += 1;
        }
        Ok(true)
    }

    /// Appends the values of a document. After an error the batch cannot be used.
    #[inline]
    fn add_document(&mut self, root: &View<'_>, key: IndexedValue<'_>) -> Result<(), Unfit> {
        // What is returned is borrowed, not moved. A move loads a value as a whole right after its
        // parts were stored, and the processor waits for these stores.
        let opened = root.opened();
        let opened = opened.as_ref().map_err(|malformed| *malformed)?;
        let columns = self.lookups.iter().zip(&mut self.fillers);
        let mut fields = 0;
        for (lookup, filler) in columns.skip(self.filled) {
            match lookup {
                Lookup::Key => append_key(filler, key)?,
                lookup => {
                    let found = lookup.find(root, opened);
                    let found = found.as_ref().map_err(|malformed| *malformed)?.as_ref();
                    fields += usize::from(found.is_some());
                    filler.append(found)?;
                }
            }
            self.filled += 1;
        }
        if self.columns.are_whole && (fields < opened.count()? || !root.is_map()) {
            self.check_fields(root)?;
        }
        Ok(())
    }

    /// Refuses a document that has more than the columns.
    #[cold]
    fn check_fields(&self, root: &View<'_>) -> Result<(), Unfit> {
        let names = self.columns.all.iter().zip(&self.lookups);
        let names = names.filter(|(_, lookup)| !matches!(lookup, Lookup::Key));
        let names: Vec<&str> = names.map(|(column, _)| column.name.as_str()).collect();
        match surplus("document", root, &names)? {
            Some((field, found)) => Err(Unfit::Beside(field, found)),
            None => Ok(()),
        }
    }

    /// The error of a value that does not fit the next column.
    #[cold]
    fn refused(&self, unfit: Unfit, values: &Values<'_>) -> Error {
        match (unfit, values.key()) {
            (Unfit::Malformed(error), _) => malformed(error),
            (_, Err(error)) => error,
            (Unfit::Here(expected, found), Ok(key)) => Error::invalid(format!(
                "document {key}, column {}: expected {expected}, found {found}",
                self.columns.all[self.filled].name
            )),
            (Unfit::Beside(expected, found), Ok(key)) => {
                Error::invalid(format!("document {key}: expected {expected}, found {found}"))
            }
        }
    }

    /// Returns the rows since the last batch; `None` if there are none.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(None);
        }
        let arrays = self.fillers.iter_mut().map(Filler::finish).collect::<Result<_, _>>();
        let schema = SchemaRef::clone(&self.schema);
        let batch = arrays.and_then(|arrays| RecordBatch::try_new(schema, arrays));
        let batch = batch.map_err(|error| Error::invalid(format!("a record batch: {error}")))?;
        debug_assert_eq!(batch.num_rows(), rows);
        Ok(Some(batch))
    }
}

fn append_key(filler: &mut Filler, key: IndexedValue<'_>) -> Result<(), Unfit> {
    let is_faithful = true;
    if filler.append_indexed(key, is_faithful)? {
        return Ok(());
    }
    match Document::from_value(&key.to_value()?) {
        Ok(key) => filler.append(Some(&key.root())),
        Err(error) => Err(Unfit::Here(filler.kind.to_string(), error.to_string())),
    }
}

/// The error of an entry whose document is not there.
#[cold]
fn lost(values: &Values<'_>) -> Error {
    let text = match values.key() {
        Ok(key) => format!("an index has an entry of {key}, which is no document"),
        Err(error) => return error,
    };
    Error::new(ErrorKind::Corruption, text)
}
