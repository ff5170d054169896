//! Arrays that come from elsewhere, checked and with the offsets that this library reads.
//!
//! `StructArray::from` of arrow 58 applies an offset twice to a struct in a struct. Here structs,
//! sparse unions and lists of a fixed size lose their offsets, and their children are cut instead.

use arrow_array::{RecordBatch, RecordBatchOptions, StructArray};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, SchemaRef, UnionMode};

/// Returns the columns of a struct array that came over the C data interface.
///
/// # Errors
/// Buffers, offsets, keys of dictionaries or text that break the rules of Arrow.
pub(crate) fn imported(schema: SchemaRef, data: &ArrayData) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(data.len()));
    let (_, columns, nulls) = StructArray::from(settled(data, 0, data.len())?).into_parts();
    if let Some(row) = nulls.and_then(|nulls| nulls.iter().position(|is_there| !is_there)) {
        // Its columns have values there all the same, which nobody has meant.
        let text = format!("row {row} of a batch is null: expected a struct of columns");
        return Err(ArrowError::SchemaError(text));
    }
    RecordBatch::try_new_with_options(schema, columns, &options)
}

/// Returns `length` values from `start` on.
fn settled(data: &ArrayData, start: usize, length: usize) -> Result<ArrayData, ArrowError> {
    let end = start.checked_add(length).filter(|end| *end <= data.len());
    if end.is_none() {
        return Err(ArrowError::InvalidArgumentError(format!(
            "an array of {} values where {length} from {start} on were expected",
            data.len()
        )));
    }
    let from = data.offset() + start;
    let mut buffers = data.buffers().to_vec();
    let (offset, (first, count)) = match data.data_type() {
        DataType::Struct(_) => (0, (from, Some(length))),
        DataType::Union(_, UnionMode::Sparse) => {
            buffers = buffers.iter().map(|ids| ids.slice_with_length(from, length)).collect();
            (0, (from, Some(length)))
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            (0, (from * size, Some(length * size)))
        }
        _ => (from, (0, None)),
    };
    let children = data.child_data().iter();
    let children = children.map(|child| settled(child, first, count.unwrap_or(child.len())));
    ArrayData::builder(data.data_type().clone())
        .len(length)
        .offset(offset)
        .buffers(buffers)
        .child_data(children.collect::<Result<_, _>>()?)
        .nulls(data.nulls().map(|nulls| nulls.slice(start, length)))
        .align_buffers(true)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Array, ArrayRef, Int64Array};
    use arrow_schema::{Field, Schema};
    use std::sync::Arc;

    fn wrapped(name: &str, array: ArrayRef) -> StructArray {
        let field = Field::new(name, array.data_type().clone(), true);
        StructArray::from(vec![(Arc::new(field), array)])
    }

    /// What a producer sends that keeps its children whole.
    fn with_offset(array: &StructArray, offset: usize, length: usize) -> ArrayData {
        let data = array.to_data().into_builder().offset(offset).len(length);
        data.build().expect("it is within the children")
    }

    #[test]
    fn a_struct_in_a_struct_is_cut_once() {
        let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let outer = with_offset(&wrapped("b", Arc::new(wrapped("c", ints))), 3, 4);
        let field = Field::new("a", outer.data_type().clone(), true);
        let root = ArrayData::builder(DataType::Struct(vec![field.clone()].into()));
        let root = root.len(4).add_child_data(outer).build().expect("it has one child");
        let batch = imported(Arc::new(Schema::new(vec![field])), &root).expect("it is whole");
        let b = batch.column(0).as_struct().column(0).as_struct();
        assert_eq!(b.column(0).as_primitive::<Int64Type>().values(), &[3, 4, 5, 6]);
    }

    /// It was loaded as a document of the values that are below a null: zeros.
    #[test]
    fn a_row_that_is_null_is_an_error() {
        let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let whole = wrapped("a", ints);
        let (fields, columns, _) = whole.into_parts();
        let nulls = (0..10).map(|row| row != 7).collect::<Vec<_>>();
        let array = StructArray::new(fields.clone(), columns, Some(nulls.into()));
        let schema = Arc::new(Schema::new(fields));
        let error = imported(SchemaRef::clone(&schema), &array.to_data()).expect_err("a null");
        assert!(error.to_string().contains("row 7 of a batch is null"), "{error}");
        let without = imported(schema, &array.slice(0, 7).to_data()).expect("no null in it");
        assert_eq!(without.num_rows(), 7);
    }

    #[test]
    fn a_child_that_is_too_short_is_an_error() {
        let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let data = wrapped("a", ints).to_data();
        assert!(settled(&data, 5, 6).is_err());
        assert_eq!(settled(&data, 5, 5).expect("it is within").len(), 5);
    }
}
