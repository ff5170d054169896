//! Record batches from a cursor, one after another.

use crate::column::{Columns, Place, malformed};
use crate::fill::{Filler, Unfit};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use flagstone::{Cursor, Document, Error, Result};

/// What becomes of a value that does not fit the type of its column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMismatch {
    /// The stream ends with an error that names key, column and value.
    #[default]
    Error,
    /// It becomes null; in an array or a map, only the part that does not fit.
    Null,
}

/// A batch ends with the document that exceeds this many bytes, far below the 2 GiB that the
/// offsets of text reach.
const BATCH_BYTES: usize = 64 << 20;

/// An iterator over record batches. It ends after an error. Memory is bounded by one batch.
pub struct Stream {
    schema: SchemaRef,
    columns: Columns,
    fillers: Vec<Filler>,
    /// `None` after the end.
    cursor: Option<Cursor<'static>>,
    rows: usize,
}

impl Stream {
    /// Creates a stream of batches of at most `rows` documents, at least one.
    pub fn new(
        columns: Columns,
        cursor: Cursor<'static>,
        on_mismatch: OnMismatch,
        rows: usize,
    ) -> Self {
        let nulls = on_mismatch == OnMismatch::Null;
        let fillers = columns.0.iter().map(|column| Filler::new(&column.kind(), nulls)).collect();
        Self { schema: columns.schema(), columns, fillers, cursor: Some(cursor), rows: rows.max(1) }
    }

    /// Returns the schema of all batches.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn fill(&mut self, cursor: &mut Cursor<'static>) -> Result<usize> {
        let mut rows = 0;
        while rows < self.rows && self.fillers.iter().map(|f| f.bytes).sum::<usize>() < BATCH_BYTES
        {
            if !cursor.advance()? {
                break;
            }
            rows += 1;
            for (column, filler) in self.columns.0.iter().zip(&mut self.fillers) {
                let filled = if let Place::Key = column.place {
                    let key = Document::from_value(&cursor.key()?)?;
                    filler.append(Some(&key.root()))
                } else {
                    let view = cursor.view()?;
                    let found = column.place.find(&view).map_err(malformed)?;
                    filler.append(found.as_ref())
                };
                match filled {
                    Ok(()) => {}
                    Err(Unfit::Malformed(error)) => return Err(malformed(error)),
                    Err(Unfit::Here(expected, found)) => {
                        return Err(Error::invalid(format!(
                            "document {}, column {}: expected {expected}, found {found}",
                            cursor.key()?,
                            column.name
                        )));
                    }
                }
            }
        }
        Ok(rows)
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut cursor = self.cursor.take()?;
        let rows = match self.fill(&mut cursor) {
            Ok(0) => return None,
            Ok(rows) => rows,
            Err(error) => return Some(Err(error)),
        };
        let arrays = self.fillers.iter_mut().map(Filler::finish).collect::<Result<_, _>>();
        let batch = arrays.and_then(|arrays| RecordBatch::try_new(self.schema(), arrays));
        Some(match batch {
            Ok(batch) => {
                debug_assert_eq!(batch.num_rows(), rows);
                self.cursor = Some(cursor);
                Ok(batch)
            }
            Err(error) => Err(Error::invalid(format!("a record batch: {error}"))),
        })
    }
}

impl std::iter::FusedIterator for Stream {}
