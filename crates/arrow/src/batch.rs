//! Record batches that are filled from the values of documents.

use crate::column::{Columns, Lookup, malformed};
use crate::fill::{Filler, OnMismatch, Unfit};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use flagstone::{
    Document, EntryValues, Error, ErrorKind, IndexedValue, Result, ValueRow, Values, View,
};

/// One batch after another, filled from any number of cursors.
pub(crate) struct Batcher {
    schema: SchemaRef,
    columns: Columns,
    lookups: Vec<Lookup>,
    fillers: Vec<Filler>,
    rows: usize,
    /// A batch ends with the document that exceeds this many rows or bytes.
    rows_max: usize,
    bytes_max: usize,
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
    pub(crate) fn new(columns: &Columns, on_mismatch: OnMismatch, limits: (usize, usize)) -> Self {
        let nulls = on_mismatch == OnMismatch::Null;
        let fillers: Vec<_> =
            columns.0.iter().map(|column| Filler::new(&column.kind(), nulls)).collect();
        Self {
            schema: columns.schema(),
            columns: columns.clone(),
            lookups: columns.0.iter().map(|column| Lookup::new(&column.place)).collect(),
            fillers,
            rows: 0,
            rows_max: limits.0.max(1),
            bytes_max: limits.1,
        }
    }

    /// Takes documents of `values` until the batch is full.
    pub(crate) fn fill(&mut self, values: &mut Values<'_>) -> Result<Filled> {
        while self.rows < self.rows_max
            && self.fillers.iter().map(|filler| filler.bytes).sum::<usize>() < self.bytes_max
        {
            if !values.advance()? {
                return Ok(Filled::All);
            }
            self.add(values)?;
        }
        Ok(Filled::Batch)
    }

    /// Adds the current document: by the entry of an index, as far as that says what it holds.
    #[inline]
    fn add(&mut self, values: &mut Values<'_>) -> Result<()> {
        let mut from = 0;
        let mut added = match values.row()? {
            ValueRow::Document(root, key) => Some(self.add_document(0, &root, key)),
            ValueRow::Entry(entry) => {
                from = self.add_entry(&entry)?;
                (from == self.fillers.len()).then_some(Ok(()))
            }
        };
        if added.is_none() {
            if !values.read_document()? && from == 0 {
                // An entry without a document expires at this moment.
                return Ok(());
            }
            added = match values.row()? {
                ValueRow::Document(root, key) => Some(self.add_document(from, &root, key)),
                ValueRow::Entry(_) => None,
            };
        }
        match added {
            Some(Ok(())) => self.rows += 1,
            Some(Err((at, unfit))) => return Err(self.refused(at, unfit, values)),
            None => return Err(lost(values)),
        }
        Ok(())
    }

    /// Appends what the entry says to the columns, up to the first that needs the document. Returns
    /// how many have got a value.
    #[inline]
    fn add_entry(&mut self, entry: &EntryValues<'_>) -> Result<usize> {
        let (is_faithful, mut path) = (entry.is_faithful(), 0);
        for (at, (lookup, filler)) in self.lookups.iter().zip(&mut self.fillers).enumerate() {
            let filled = if let Lookup::Key = lookup {
                filler.append_indexed(entry.key(), true)
            } else {
                // The paths that were asked for are those of the other columns.
                path += 1;
                filler.append_indexed(entry.get(path - 1), is_faithful)
            };
            if !filled.map_err(malformed)? {
                return Ok(at);
            }
        }
        Ok(self.fillers.len())
    }

    /// Appends the values of a document to the columns from number `from` on. The error has the
    /// number of the column.
    #[inline]
    fn add_document(
        &mut self,
        from: usize,
        root: &View<'_>,
        key: IndexedValue<'_>,
    ) -> Result<(), (usize, Unfit)> {
        let columns = self.lookups.iter().zip(&mut self.fillers).enumerate();
        for (at, (lookup, filler)) in columns.skip(from) {
            let filled = match lookup {
                Lookup::Key => append_key(filler, key),
                lookup => match lookup.find(root) {
                    Ok(found) => filler.append(found.as_ref()),
                    Err(malformed) => Err(Unfit::Malformed(malformed)),
                },
            };
            filled.map_err(|unfit| (at, unfit))?;
        }
        Ok(())
    }

    /// The error of a value that does not fit column number `at`.
    #[cold]
    fn refused(&self, at: usize, unfit: Unfit, values: &Values<'_>) -> Error {
        match (unfit, values.key()) {
            (Unfit::Malformed(error), _) => malformed(error),
            (_, Err(error)) => error,
            (Unfit::Here(expected, found), Ok(key)) => Error::invalid(format!(
                "document {key}, column {}: expected {expected}, found {found}",
                self.columns.0[at].name
            )),
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
    if filler.append_indexed(key, true)? {
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
