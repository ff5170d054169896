//! Marks that say what text and bytes are, for files: without them JSON would come back as text,
//! and a UUID as bytes. They are the names of Arrow's extension types, which other readers know.

use crate::column::Columns;
use crate::kind::Kind;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// Marks the columns of record batches.
pub struct Marks {
    kinds: Vec<Kind>,
    schema: SchemaRef,
}

impl Marks {
    /// Creates the marks of these columns.
    pub fn new(columns: &Columns) -> Self {
        let fields: Vec<_> = columns.kinds().map(|(name, kind)| field(name, &kind)).collect();
        let kinds = columns.kinds().map(|(_, kind)| kind).collect();
        Self { kinds, schema: Arc::new(Schema::new(fields)) }
    }

    /// Returns the schema with the marks.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// Returns a batch of the columns with the marks. No value is copied.
    ///
    /// # Errors
    /// A batch of other columns.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let marked = batch.columns().iter().zip(&self.kinds).map(|(array, kind)| of(array, kind));
        RecordBatch::try_new(self.schema(), marked.collect::<Result<_, _>>()?)
    }
}

fn field(name: &str, kind: &Kind) -> Field {
    let (data_type, mark) = match kind {
        Kind::List(items) => (DataType::List(Arc::new(field("item", items))), None),
        Kind::Struct(fields) => {
            let fields = fields.iter().map(|(name, kind)| field(name, kind));
            (DataType::Struct(fields.collect()), None)
        }
        Kind::Uuid => (kind.data_type(), Some("arrow.uuid")),
        Kind::Json => (kind.data_type(), Some("arrow.json")),
        other => (other.data_type(), None),
    };
    let field = Field::new(name, data_type, true);
    let Some(mark) = mark else { return field };
    field.with_metadata(HashMap::from([
        ("ARROW:extension:name".to_owned(), mark.to_owned()),
        ("ARROW:extension:metadata".to_owned(), String::new()),
    ]))
}

fn of(array: &ArrayRef, kind: &Kind) -> Result<ArrayRef, ArrowError> {
    let other = || ArrowError::SchemaError(format!("{} where {kind} was", array.data_type()));
    Ok(match kind {
        Kind::List(items) => {
            let list = array.as_list_opt::<i32>().ok_or_else(other)?;
            let values = of(list.values(), items)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(ListArray::try_new(Arc::new(field("item", items)), offsets, values, nulls)?)
        }
        Kind::Struct(fields) => {
            let all = array.as_struct_opt().ok_or_else(other)?;
            let columns = all.columns().iter().zip(fields);
            let columns = columns.map(|(array, (_, kind))| of(array, kind));
            let fields = fields.iter().map(|(name, kind)| field(name, kind)).collect();
            let nulls = all.nulls().cloned();
            Arc::new(StructArray::try_new(fields, columns.collect::<Result<_, _>>()?, nulls)?)
        }
        _ => ArrayRef::clone(array),
    })
}
