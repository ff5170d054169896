//! What a producer hands over by Arrow's C data interface, checked before anything reads it.
//!
//! ```text
//!   schema:  pointers, text in UTF-8, counts of children, depth, sizes in types
//!   array:   pointers, counts of buffers and children, lengths, offsets of text; against the type
//!   values:  offsets, keys of dictionaries, views, runs, text: `import`
//! ```
//! The interface does not carry the sizes of buffers. What it carries is checked here: arrow itself
//! panics, or reads from null, where a producer breaks the rules. A buffer that is shorter than its
//! array says cannot be noticed.

use crate::import::imported;
use arrow_array::RecordBatch;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_data::layout;
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most types within one another, as in documents.
const DEPTH_MAX: usize = 512;
/// The most children of a type, and entries of its metadata.
const CHILDREN_MAX: i64 = 1 << 20;

/// Returns the schema that a producer describes.
///
/// # Errors
/// A type that is no struct, and whatever breaks the rules of the interface.
///
/// # Safety
/// The pointers in `schema` are null, or they are valid: the interface demands it.
#[expect(unsafe_code, reason = "the interface is one of C")]
pub unsafe fn schema_of(schema: &FFI_ArrowSchema) -> Result<Schema, ArrowError> {
    if schema.release.is_none() {
        return Err(wrong("a schema that was released".to_owned()));
    }
    // SAFETY: the caller's promise.
    unsafe { check_schema(schema, DEPTH_MAX) }.map_err(wrong)?;
    let refused = |what: String| ArrowError::SchemaError(what);
    if schema.format() != "+s" {
        let found = guarded(|| DataType::try_from(schema));
        let found = found.map_or_else(|_unknown| schema.format().to_owned(), |of| of.to_string());
        return Err(refused(format!("expected rows, which are structs of columns, found {found}")));
    }
    let fields = schema.children().map(|child| {
        let name = child.name().unwrap_or_default();
        let of_column = |why: String| refused(format!("column {name}: {why}"));
        let field = guarded(|| Field::try_from(child).and_then(|field| marked(field, child)))
            .map_err(|error| of_column(format!("unsupported Arrow type: {error}")))?;
        check_type(field.data_type()).map_err(wrong)?;
        Ok(field)
    });
    Ok(Schema::new(fields.collect::<Result<Vec<_>, ArrowError>>()?))
}

/// Puts the marks of extension types on dictionaries whose values have them, as `Field` would lose
/// them: a dictionary of UUIDs came as bytes, and one of months as integers.
fn marked(field: Field, schema: &FFI_ArrowSchema) -> Result<Field, ArrowError> {
    let child = |at: usize, field: &FieldRef| {
        marked(field.as_ref().clone(), schema.child(at)).map(FieldRef::new)
    };
    let mut field = field;
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(child(0, item)?),
        DataType::LargeList(item) => DataType::LargeList(child(0, item)?),
        DataType::ListView(item) => DataType::ListView(child(0, item)?),
        DataType::LargeListView(item) => DataType::LargeListView(child(0, item)?),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(child(0, item)?, *size),
        DataType::Map(entries, is_sorted) => DataType::Map(child(0, entries)?, *is_sorted),
        DataType::Struct(fields) => {
            let fields = fields.iter().enumerate().map(|(at, field)| child(at, field));
            DataType::Struct(fields.collect::<Result<_, _>>()?)
        }
        DataType::Union(fields, mode) => {
            let fields = fields.iter().enumerate();
            let fields = fields.map(|(at, (id, field))| Ok((id, child(at, field)?)));
            DataType::Union(fields.collect::<Result<_, ArrowError>>()?, *mode)
        }
        DataType::RunEndEncoded(ends, values) => {
            DataType::RunEndEncoded(FieldRef::clone(ends), child(1, values)?)
        }
        DataType::Dictionary(key, values) => {
            let Some(dictionary) = schema.dictionary() else { return Ok(field) };
            let values = Field::new("", values.as_ref().clone(), true);
            let values = values.with_metadata(dictionary.metadata()?);
            let values = marked(values, dictionary)?;
            let data_type = DataType::Dictionary(key.clone(), values.data_type().clone().into());
            if let (None, Some(mark)) = (extension(&field), extension(&values)) {
                let mut metadata = field.metadata().clone();
                metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), mark.to_owned());
                field = field.with_metadata(metadata);
            }
            data_type
        }
        _ => return Ok(field),
    };
    Ok(field.with_data_type(data_type))
}

/// Returns the batch that a producer describes, whose columns have this schema.
///
/// # Errors
/// Whatever breaks the rules of the interface, or of Arrow: offsets, keys of dictionaries, text.
///
/// # Safety
/// The pointers in `array` are null, or they are valid: the interface demands it. Its buffers have
/// the sizes that arrays of this schema need.
#[expect(unsafe_code, reason = "the interface is one of C")]
pub unsafe fn batch_of(
    mut array: FFI_ArrowArray,
    schema: SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    if array.is_released() {
        return Err(wrong("an array that was released".to_owned()));
    }
    let data_type = DataType::Struct(schema.fields().clone());
    // SAFETY: the caller's promise.
    unsafe { check_array(&mut array, &data_type) }.map_err(wrong)?;
    // SAFETY: the caller's promise, and what the checks have found.
    let data = guarded(|| unsafe { from_ffi_and_data_type(array, data_type) })?;
    guarded(|| imported(schema, &data))
}

/// Refuses columns of other names or types than were promised. What only describes a column, such
/// as whether it may be null, is free.
///
/// # Errors
/// SchemaError that names the column.
pub fn check_same(promised: &Schema, found: &Schema) -> Result<(), ArrowError> {
    let names = |schema: &Schema| {
        let names = schema.fields().iter().map(|field| format!("{:?}", field.name()));
        names.collect::<Vec<_>>().join(", ")
    };
    let differ = |a: &Field, b: &Field| a.name() != b.name();
    let pairs = || promised.fields().iter().zip(found.fields());
    let count = found.fields().len();
    if promised.fields().len() != count || pairs().any(|(a, b)| differ(a, b)) {
        return Err(ArrowError::SchemaError(format!(
            "a batch has other columns than the schema of its reader: expected {}, found {}",
            names(promised),
            names(found)
        )));
    }
    match pairs().find(|(a, b)| !is_same(a, b)) {
        None => Ok(()),
        Some((a, b)) => Err(ArrowError::SchemaError(format!(
            "a batch has another type than the schema of its reader: column {}: expected {}, found \
             {}",
            a.name(),
            shown(a),
            shown(b)
        ))),
    }
}

fn shown(field: &Field) -> String {
    match extension(field) {
        Some(name) => format!("{name} of {}", field.data_type()),
        None => field.data_type().to_string(),
    }
}

/// Returns the name of the extension type of a field.
pub(crate) fn extension(field: &Field) -> Option<&str> {
    let name = field.metadata().get(EXTENSION_TYPE_NAME_KEY)?;
    Some(name.as_str()).filter(|name| !name.is_empty())
}

fn is_same(a: &Field, b: &Field) -> bool {
    extension(a) == extension(b) && is_same_type(a.data_type(), b.data_type())
}

fn is_same_type(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b))
        | (DataType::LargeList(a), DataType::LargeList(b))
        | (DataType::ListView(a), DataType::ListView(b))
        | (DataType::LargeListView(a), DataType::LargeListView(b))
        | (DataType::Map(a, _), DataType::Map(b, _)) => is_same(a, b),
        (DataType::FixedSizeList(a, size), DataType::FixedSizeList(b, other)) => {
            size == other && is_same(a, b)
        }
        (DataType::Struct(a), DataType::Struct(b)) => {
            let mut pairs = a.iter().zip(b);
            a.len() == b.len() && pairs.all(|(a, b)| a.name() == b.name() && is_same(a, b))
        }
        (DataType::Union(a, mode), DataType::Union(b, other)) => {
            let mut pairs = a.iter().zip(b.iter());
            mode == other
                && a.len() == b.len()
                && pairs.all(|((a_id, a), (b_id, b))| a_id == b_id && is_same(a, b))
        }
        (DataType::Dictionary(key, value), DataType::Dictionary(other, b)) => {
            key == other && is_same_type(value, b)
        }
        (DataType::RunEndEncoded(ends, a), DataType::RunEndEncoded(other, b)) => {
            ends.data_type() == other.data_type() && is_same(a, b)
        }
        _ => a == b,
    }
}

/// Runs a conversion of arrow. A panic is an error as others are.
fn guarded<T>(convert: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(convert))
        .unwrap_or_else(|_panic| Err(wrong("what cannot be read".to_owned())))
}

fn wrong(why: String) -> ArrowError {
    ArrowError::CDataInterface(format!("the producer breaks the rules of the interface: {why}"))
}

/// # Safety
/// As [`schema_of`].
#[expect(unsafe_code, reason = "the interface is one of C")]
unsafe fn check_schema(schema: &FFI_ArrowSchema, depth: usize) -> Result<(), String> {
    let depth =
        depth.checked_sub(1).ok_or_else(|| format!("more than {DEPTH_MAX} nested types"))?;
    // SAFETY: the caller's promise.
    let format = unsafe { text(schema.format, "a format") }?.ok_or("a type without a format")?;
    // SAFETY: as above.
    unsafe { text(schema.name, "a name") }?;
    if !schema.metadata.is_null() {
        // SAFETY: metadata begins with a count of 4 bytes.
        let entries = unsafe { schema.metadata.cast::<i32>().read_unaligned() };
        if !(0..=CHILDREN_MAX).contains(&i64::from(entries)) {
            return Err(format!("metadata of {entries} entries"));
        }
    }
    let children = match format {
        "+l" | "+L" | "+vl" | "+vL" | "+m" => Some(1),
        "+r" => Some(2),
        "+s" => None,
        format => match format.split_once(':') {
            Some(("+w", _)) => Some(1),
            Some(("+ud" | "+us", _)) => None,
            _ => Some(0),
        },
    };
    let count = schema.n_children;
    if children.is_some_and(|expected| expected != count) || !(0..=CHILDREN_MAX).contains(&count) {
        return Err(format!("a type {format:?} with {count} children"));
    }
    if count > 0 && schema.children.is_null() {
        return Err("children at null".to_owned());
    }
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: there are as many pointers as there are children.
        let child = unsafe { schema.children.add(at).read_unaligned().as_ref() };
        // SAFETY: the caller's promise.
        unsafe { check_schema(child.ok_or("a child at null")?, depth) }?;
    }
    // SAFETY: the caller's promise.
    let Some(dictionary) = (unsafe { schema.dictionary.as_ref() }) else { return Ok(()) };
    if !["c", "C", "s", "S", "i", "I", "l", "L"].contains(&format) {
        return Err(format!("a dictionary with keys of the type {format:?}"));
    }
    // SAFETY: as above.
    unsafe { check_schema(dictionary, depth) }
}

/// Returns text that ends with 0, unless it is null.
///
/// # Safety
/// It is null, or valid as long as it is used.
#[expect(unsafe_code, reason = "the interface is one of C")]
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, String> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|error| format!("{what} that is not UTF-8: {error}"))
}

/// Refuses types that no array can have.
fn check_type(data_type: &DataType) -> Result<(), String> {
    match data_type {
        DataType::FixedSizeBinary(size) if *size < 0 => Err(format!("bytes of {size} bytes")),
        DataType::FixedSizeList(_, size) if *size < 0 => Err(format!("lists of {size} items")),
        DataType::RunEndEncoded(ends, values) => match ends.data_type() {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => check_type(values.data_type()),
            other => Err(format!("runs that end at {other}")),
        },
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => check_type(entries.data_type()),
            other => Err(format!("a map of {other}")),
        },
        other => children_of(other).into_iter().try_for_each(check_type),
    }
}

/// Returns the types of the children of an array. Its dictionary is none of them.
fn children_of(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => Vec::new(),
    }
}

/// # Safety
/// As [`batch_of`].
#[expect(unsafe_code, reason = "the interface is one of C")]
unsafe fn check_array(array: &mut FFI_ArrowArray, data_type: &DataType) -> Result<(), String> {
    if *data_type == DataType::Null && array.n_buffers == 1 {
        // polars hands over a buffer of nulls, which arrow does not expect.
        array.n_buffers = 0;
    }
    let FFI_ArrowArray { length, offset, null_count, n_buffers, .. } = *array;
    let found = |what: &str| format!("an array of {data_type} with {what}");
    // Of the widest values, the bits must have a number.
    let bits = match data_type {
        DataType::FixedSizeBinary(size) => i64::from(*size).max(16) * 8,
        _ => 256,
    };
    let rows = length.checked_add(offset).and_then(|rows| rows.checked_add(1));
    if length < 0 || offset < 0 || rows.and_then(|rows| rows.checked_mul(bits)).is_none() {
        return Err(found(&format!("the length {length} and the offset {offset}")));
    }
    // -1 says that nobody has counted.
    if !(-1..=length).contains(&null_count) {
        return Err(found(&format!("{null_count} nulls among {length} values")));
    }
    let layout = layout(data_type);
    let own = layout.buffers.len() + usize::from(layout.can_contain_null_mask);
    let own = i64::try_from(own).unwrap_or(i64::MAX);
    let is_right = if layout.variadic {
        // Any number of buffers of bytes, and their lengths.
        n_buffers > own
    } else {
        n_buffers == own
    };
    if !is_right || n_buffers > 0 && array.buffers.is_null() {
        return Err(found(&format!("{n_buffers} buffers, where {own} were expected")));
    }
    if layout.can_contain_null_mask && null_count > 0 && array.buffer(0).is_null() {
        return Err(found(&format!("{null_count} nulls and no buffer of them")));
    }
    // SAFETY: the caller's promise, and the number of buffers is right.
    unsafe { check_sizes(array, data_type) }.map_err(|what| found(&what))?;
    let children = children_of(data_type);
    if i64::try_from(children.len()) != Ok(array.n_children) {
        return Err(found(&format!("{} children", array.n_children)));
    }
    if !children.is_empty() && array.children.is_null() {
        return Err(found("children at null"));
    }
    for (at, child_type) in children.into_iter().enumerate() {
        // SAFETY: there are as many pointers as there are children.
        let child = unsafe { array.children.add(at).read_unaligned().as_mut() };
        // SAFETY: the caller's promise.
        unsafe { check_array(child.ok_or_else(|| found("a child at null"))?, child_type) }?;
    }
    // SAFETY: the caller's promise.
    match (data_type, unsafe { array.dictionary.as_mut() }) {
        // SAFETY: as above.
        (DataType::Dictionary(_, values), Some(array)) => unsafe { check_array(array, values) },
        (DataType::Dictionary(..), None) => Err(found("no values")),
        (_, Some(_)) => Err(found("a dictionary")),
        (_, None) => Ok(()),
    }
}

/// Checks the buffers that say how long others are, which arrow reads as they are.
///
/// # Safety
/// As [`batch_of`]. The number of buffers is right.
#[expect(unsafe_code, reason = "the interface is one of C")]
unsafe fn check_sizes(array: &FFI_ArrowArray, data_type: &DataType) -> Result<(), String> {
    if array.length == 0 && !matches!(data_type, DataType::Utf8View | DataType::BinaryView) {
        return Ok(());
    }
    let aligned = |at: usize, bytes: usize, what: &str| {
        let buffer = array.buffer(at);
        if buffer.is_null() || !buffer.addr().is_multiple_of(bytes) {
            Err(format!("{what} at {buffer:?}, which is no address of {bytes} bytes"))
        } else {
            Ok(buffer)
        }
    };
    // Both are at least 0.
    let rows = usize::try_from(array.length + array.offset).unwrap_or(0);
    let end = match data_type {
        DataType::Utf8 | DataType::Binary => {
            let offsets = aligned(1, 4, "offsets")?.cast::<i32>();
            // SAFETY: an array has an offset more than it has values.
            i64::from(unsafe { *offsets.add(rows) })
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let offsets = aligned(1, 8, "offsets")?.cast::<i64>();
            // SAFETY: as above.
            unsafe { *offsets.add(rows) }
        }
        DataType::Utf8View | DataType::BinaryView => {
            let last = usize::try_from(array.n_buffers).unwrap_or(0) - 1;
            // Before the last are the nulls, the views and the buffers of bytes.
            let count = last - 2;
            if count == 0 {
                return Ok(());
            }
            let lengths = aligned(last, 8, "lengths of buffers")?.cast::<i64>();
            // SAFETY: there is a length for each buffer of bytes.
            let lengths = (0..count).map(|at| unsafe { *lengths.add(at) });
            lengths.min().unwrap_or(0)
        }
        _ => 0,
    };
    if end < 0 { Err(format!("{end} bytes")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, StringArray, StringViewArray, StructArray};
    use std::ffi::c_void;
    use std::sync::Arc;

    fn exported(array: ArrayRef) -> (FFI_ArrowArray, SchemaRef) {
        let field = Arc::new(Field::new("a", array.data_type().clone(), true));
        let all = StructArray::from(vec![(Arc::clone(&field), array)]);
        let schema = Arc::new(Schema::new(vec![field]));
        (FFI_ArrowArray::new(&arrow_array::Array::to_data(&all)), schema)
    }

    /// Imports an array that was changed, and puts back what was there for its release.
    #[expect(unsafe_code, reason = "the interface is one of C")]
    fn refused(array: ArrayRef, change: impl FnOnce(&mut FFI_ArrowArray)) -> Option<String> {
        let (mut all, schema) = exported(array);
        // SAFETY: the struct has one child.
        let child = unsafe { &mut **all.children };
        let (buffers, dictionary, children) = (child.buffers, child.dictionary, child.children);
        change(child);
        let data_type = DataType::Struct(schema.fields().clone());
        // SAFETY: all pointers that are not null are valid.
        let refused = unsafe { check_array(&mut all, &data_type) }.err();
        (child.buffers, child.dictionary, child.children) = (buffers, dictionary, children);
        refused
    }

    fn texts() -> ArrayRef {
        Arc::new(StringArray::from(vec![Some("a"), None, Some("bc")]))
    }

    #[test]
    #[expect(unsafe_code, reason = "the interface is one of C")]
    fn an_array_as_it_should_be_is_taken() {
        let views: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "a text of many letters"]));
        let inline: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        for array in [texts(), views, inline, ints, Arc::new(StringArray::from(vec![""; 0]))] {
            assert_eq!(refused(Arc::clone(&array), |_| {}), None);
            let (all, schema) = exported(Arc::clone(&array));
            // SAFETY: arrow has made the array.
            let batch = unsafe { batch_of(all, schema) }.expect("it is as it should be");
            assert_eq!(batch.column(0), &array);
        }
    }

    /// Arrow would read from null, beyond buffers, or panic.
    #[test]
    fn counts_and_pointers_that_are_wrong_are_refused() {
        let null = std::ptr::null_mut;
        type Change = fn(&mut FFI_ArrowArray);
        let cases: [(&str, Change); 9] = [
            ("the length -1", |array| array.length = -1),
            ("the offset -3", |array| array.offset = -3),
            ("the length 9223372036854775807", |array| array.length = i64::MAX),
            ("4 nulls among 3 values", |array| array.null_count = 4),
            ("-2 nulls", |array| array.null_count = -2),
            ("2 buffers, where 3", |array| array.n_buffers = 2),
            ("-1 buffers", |array| array.n_buffers = -1),
            ("-5 children", |array| array.n_children = -5),
            ("1 children", |array| array.n_children = 1),
        ];
        for (text, change) in cases {
            let refused = refused(texts(), change).unwrap_or_default();
            assert!(refused.starts_with("an array of Utf8 with "), "{text}: {refused}");
            assert!(refused.contains(text), "{text}: {refused}");
        }
        let at_null = refused(texts(), |array| array.buffers = null());
        assert!(at_null.is_some_and(|refused| refused.contains("3 buffers")));
        let no_offsets: [*const c_void; 3] = [std::ptr::null(); 3];
        let offsets = |array: &mut FFI_ArrowArray| {
            array.null_count = 0;
            array.buffers = no_offsets.as_ptr().cast_mut();
        };
        assert!(refused(texts(), offsets).is_some_and(|refused| refused.contains("offsets at")));
    }

    #[test]
    fn offsets_that_go_back_before_0_are_refused() {
        let offsets: [i32; 4] = [0, 1, 1, -8];
        let buffers =
            [std::ptr::null(), offsets.as_ptr().cast::<c_void>(), offsets.as_ptr().cast()];
        let refused = refused(texts(), |array| {
            array.null_count = 0;
            array.buffers = buffers.as_ptr().cast_mut();
        });
        assert!(refused.is_some_and(|refused| refused.ends_with("-8 bytes")));
    }

    #[test]
    fn columns_that_were_not_promised_are_refused() {
        let schema = |fields: &[(&str, DataType)]| {
            let fields = fields.iter().map(|(name, of)| Field::new(*name, of.clone(), true));
            Schema::new(fields.collect::<Vec<_>>())
        };
        let list = |name: &str, of: DataType, is_nullable: bool| {
            DataType::List(Arc::new(Field::new(name, of, is_nullable)))
        };
        let promised = schema(&[("a", DataType::Int64), ("b", list("item", DataType::Utf8, true))]);
        let same = schema(&[("a", DataType::Int64), ("b", list("e", DataType::Utf8, false))]);
        assert!(check_same(&promised, &same).is_ok());
        for (found, text) in [
            (schema(&[("a", DataType::Int64)]), "expected \"a\", \"b\", found \"a\""),
            (
                schema(&[("b", DataType::Int64), ("a", DataType::Utf8)]),
                "expected \"a\", \"b\", found \"b\", \"a\"",
            ),
            (
                schema(&[("a", DataType::Int8), ("b", list("item", DataType::Utf8, true))]),
                "column a: expected Int64, found Int8",
            ),
            (
                schema(&[("a", DataType::Int64), ("b", list("item", DataType::LargeUtf8, true))]),
                "column b: expected List(Utf8), found List(LargeUtf8)",
            ),
        ] {
            let error = check_same(&promised, &found).expect_err("they differ").to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "the interface is one of C")]
    fn a_schema_without_a_format_or_with_wrong_children_is_refused() {
        let (_, schema) = exported(texts());
        let export = || FFI_ArrowSchema::try_from(&*schema).expect("it has a form");
        // SAFETY: arrow has made the schema.
        assert_eq!(unsafe { schema_of(&export()) }.ok(), Some((*schema).clone()));
        let refused = |change: fn(&mut FFI_ArrowSchema)| {
            let mut changed = export();
            let (format, children) = (changed.format, changed.children);
            change(&mut changed);
            // SAFETY: all pointers that are not null are valid.
            let refused = unsafe { schema_of(&changed) }.expect_err("it is wrong").to_string();
            (changed.format, changed.children) = (format, children);
            refused
        };
        assert!(refused(|schema| schema.format = std::ptr::null()).contains("without a format"));
        assert!(refused(|schema| schema.format = c"\xff".as_ptr()).contains("not UTF-8"));
        assert!(refused(|schema| schema.format = c"i".as_ptr()).contains("with 1 children"));
        let list = refused(|schema| schema.format = c"+l".as_ptr());
        assert!(list.contains("structs of columns, found List(Utf8"), "{list}");
        assert!(refused(|schema| schema.n_children = -1).contains("-1 children"));
        assert!(refused(|schema| schema.children = std::ptr::null_mut()).contains("at null"));
    }

    /// `Field` of arrow loses what the values of a dictionary are: UUIDs in one were loaded as
    /// bytes, and months of pandas as integers.
    #[test]
    #[expect(unsafe_code, reason = "the interface is one of C")]
    fn a_dictionary_has_the_extension_type_of_its_values() {
        let marked = |mark: &str, of: &DataType| {
            let metadata = [(EXTENSION_TYPE_NAME_KEY.to_owned(), mark.to_owned())];
            let values = Field::new("", of.clone(), true).with_metadata(metadata.into());
            let values = FFI_ArrowSchema::try_from(&values).expect("it has a form");
            let dictionary = DataType::Dictionary(DataType::Int8.into(), of.clone().into());
            let item = Field::new("item", dictionary, true);
            let list = DataType::List(Arc::new(item.clone()));
            let schema = Schema::new(vec![item, Field::new("list", list, true)]);
            let schema = FFI_ArrowSchema::try_from(&schema).expect("it has a form");
            let mut values = std::mem::ManuallyDrop::new(values);
            let mut old = Vec::new();
            // SAFETY: the struct has two children, the second of them has one.
            let places = unsafe {
                let (first, second) = (*schema.children, *schema.children.add(1));
                [&raw mut (*first).dictionary, &raw mut (**(*second).children).dictionary]
            };
            for place in places {
                // SAFETY: the places are within the schema.
                old.push(unsafe { place.replace(&mut *values) });
            }
            // SAFETY: all pointers are valid.
            let read = unsafe { schema_of(&schema) };
            for (place, old) in places.into_iter().zip(old) {
                // SAFETY: as above.
                unsafe { place.write(old) };
            }
            drop((schema, std::mem::ManuallyDrop::into_inner(values)));
            read.expect("it is as it should be")
        };
        let schema = marked("arrow.uuid", &DataType::FixedSizeBinary(16));
        assert_eq!(extension(schema.field(0)), Some("arrow.uuid"));
        let DataType::List(item) = schema.field(1).data_type() else { panic!("{schema}") };
        assert_eq!(extension(item), Some("arrow.uuid"));
        let months = marked("pandas.period", &DataType::Int64);
        let options = crate::LoadOptions::new("item");
        let refused = crate::check(&months, &options).expect_err("a month is no integer");
        assert!(refused.to_string().contains("extension type pandas.period"), "{refused}");
    }
}
