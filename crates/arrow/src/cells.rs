//! The values of Arrow arrays, row by row.
//!
//! ```text
//!   null, boolean, utf8, binary          null, bool, text, bytes; of each width and as views
//!   int, uint                            the integer
//!   float                                the float of 64 bits of the same value
//!   decimal                              the number with all digits of its scale: 1.10
//!   date                                 the datetime at which the day begins in UTC; one with a
//!                                        time of day does not fit
//!   timestamp with a zone                the datetime; one finer than microseconds does not fit
//!   timestamp without a zone             the same, taken as UTC, if that is asked for
//!   list, struct, map                    array, map with names, map
//!   dictionary, run-end encoded, union   the value that it stands for
//!   arrow.uuid, arrow.json               a UUID, what the text says
//! ```
//! Times of day, durations and intervals are not supported. What the values of another
//! extension type mean is not known: a period of pandas is no integer.

use crate::cast::{Cells, Unread, decimals, floats, integers, micros, times, unread};
use crate::interface::extension;
use crate::kind::{JSON, UUID};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int16Type, Int32Type, Int64Type, RunEndIndexType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, OffsetSizeTrait, RecordBatch};
use arrow_schema::{DataType, Field, TimeUnit};
use flagstone::doc::Map;
use flagstone::doc::json::{JsonOptions, JsonParser};
use flagstone::{Error, Result, Value};

/// The unit of `Date64`.
const DAY_MILLIS: i64 = 86_400_000;

/// What the caller decides.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reading {
    pub(crate) naive_is_utc: bool,
    pub(crate) drops_nulls: bool,
}

/// Refuses a column of a type that is not supported in a document.
pub(crate) fn check(fields: &[impl AsRef<Field>], reading: Reading) -> Result<()> {
    for (at, field) in fields.iter().map(AsRef::as_ref).enumerate() {
        if fields[..at].iter().any(|other| other.as_ref().name() == field.name()) {
            return Err(Error::invalid(format!("two columns named {:?}", field.name())));
        }
        check_field(field, reading)
            .map_err(|reason| Error::invalid(format!("column {}: {reason}", field.name())))?;
    }
    Ok(())
}

fn check_field(field: &Field, reading: Reading) -> Result<(), String> {
    let data_type = field.data_type();
    let is_known = match extension(field) {
        None => true,
        Some(UUID) => matches!(stored(data_type), DataType::FixedSizeBinary(16)),
        Some(JSON) => {
            matches!(stored(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        }
        Some(_) => false,
    };
    match extension(field).filter(|_| !is_known) {
        Some(name) => Err(format!(
            "the extension type {name} of {data_type} is not supported in a document; cast it \
             to its storage type"
        )),
        None => check_type(data_type, reading),
    }
}

/// Returns the type of what a dictionary or runs stand for.
fn stored(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored(values),
        DataType::RunEndEncoded(_, values) => stored(values.data_type()),
        other => other,
    }
}

fn check_type(data_type: &DataType, reading: Reading) -> Result<(), String> {
    match data_type {
        DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Interval(_) => {
            Err(format!("{data_type} is not supported in a document; cast it to text or integers"))
        }
        DataType::Timestamp(_, None) if !reading.naive_is_utc => Err(format!(
            "{data_type} has no time zone, so its values are no points in time; give it one, or \
             pass naive=\"utc\", or --naive-utc to the tool"
        )),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => check_field(item, reading),
        DataType::Struct(fields) => check(fields, reading).map_err(|error| error.to_string()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                fields.iter().try_for_each(|field| check_field(field, reading))
            }
            _ => Err(format!("{data_type} is no map")),
        },
        DataType::Union(fields, _) => {
            fields.iter().try_for_each(|(_, field)| check_field(field, reading))
        }
        DataType::Dictionary(_, values) => check_type(values, reading),
        DataType::RunEndEncoded(_, values) => check_field(values, reading),
        _ => Ok(()),
    }
}

/// Reads whole rows as maps.
pub(crate) fn rows(batch: &RecordBatch, reading: Reading) -> Result<Cells<'_>> {
    let schema = batch.schema_ref();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns
        .map(|(field, array)| Ok((field.name().clone(), cells(field, array, reading)?)))
        .collect::<Result<Vec<_>>>()?;
    Ok(map_of(columns, reading))
}

fn map_of(columns: Vec<(String, Cells<'_>)>, reading: Reading) -> Cells<'_> {
    Box::new(move |row| {
        let mut pairs = Vec::with_capacity(columns.len());
        for (name, read) in &columns {
            let value = read(row).map_err(|unread| unread.inside(&format!(".{name}")))?;
            if !(reading.drops_nulls && value.is_null()) {
                pairs.push((Value::Text(name.clone()), value));
            }
        }
        Ok(Value::Map(pairs.into_iter().collect()))
    })
}

/// Reads the values of `array`, whose type [`check`] has taken.
fn cells<'a>(field: &Field, array: &'a dyn Array, reading: Reading) -> Result<Cells<'a>> {
    let extension = extension(field);
    let read: Cells<'a> = match array.data_type() {
        DataType::Null => return Ok(Box::new(|_| Ok(Value::Null))),
        DataType::Boolean => {
            let array = of(array, array.as_boolean_opt())?;
            Box::new(|row| Ok(Value::Bool(array.value(row))))
        }
        DataType::Utf8 => text(of(array, array.as_string_opt::<i32>())?, extension),
        DataType::LargeUtf8 => text(of(array, array.as_string_opt::<i64>())?, extension),
        DataType::Utf8View => text(of(array, array.as_string_view_opt())?, extension),
        DataType::Binary => bytes(of(array, array.as_binary_opt::<i32>())?),
        DataType::LargeBinary => bytes(of(array, array.as_binary_opt::<i64>())?),
        DataType::BinaryView => bytes(of(array, array.as_binary_view_opt())?),
        DataType::FixedSizeBinary(16) if extension == Some(UUID) => {
            let array = of(array, array.as_fixed_size_binary_opt())?;
            Box::new(|row| match array.value(row).try_into() {
                Ok(uuid) => Ok(Value::Uuid(uuid)),
                Err(_) => Err(unread("expected a UUID of 16 bytes")),
            })
        }
        DataType::FixedSizeBinary(_) => {
            let array = of(array, array.as_fixed_size_binary_opt())?;
            Box::new(|row| Ok(Value::Bytes(array.value(row).to_vec())))
        }
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
            let per_unit = match array.data_type() {
                DataType::Timestamp(TimeUnit::Nanosecond, _) => None,
                DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1),
                DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Date64 => Some(1_000),
                DataType::Timestamp(TimeUnit::Second, _) => Some(1_000_000),
                _ => Some(86_400_000_000),
            };
            let is_day = *array.data_type() == DataType::Date64;
            let times = times(array).ok_or_else(|| other(array))?;
            Box::new(move |row| {
                let time = times(row);
                if is_day && time % DAY_MILLIS != 0 {
                    return Err(unread(format!("the date64 {time} ms is no whole number of days")));
                }
                micros(time, per_unit).map_err(unread)
            })
        }
        DataType::Struct(fields) => {
            let array = of(array, array.as_struct_opt())?;
            let columns = fields.iter().zip(array.columns());
            let columns = columns
                .map(|(field, array)| Ok((field.name().clone(), cells(field, array, reading)?)))
                .collect::<Result<Vec<_>>>()?;
            map_of(columns, reading)
        }
        DataType::Map(..) => map(array, reading)?,
        DataType::Union(..) => return union(array, reading),
        DataType::Dictionary(key, _) => return dictionary(key, field, array, reading),
        DataType::RunEndEncoded(ends, _) => {
            return match ends.data_type() {
                DataType::Int16 => runs::<Int16Type>(field, array, reading),
                DataType::Int32 => runs::<Int32Type>(field, array, reading),
                _ => runs::<Int64Type>(field, array, reading),
            };
        }
        data_type if data_type.is_nested() => list(array, reading)?,
        _ => integers(array)
            .or_else(|| floats(array))
            .or_else(|| decimals(array))
            .ok_or_else(|| other(array))?,
    };
    Ok(match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            Box::new(move |row| if nulls.is_null(row) { Ok(Value::Null) } else { read(row) })
        }
        _ => read,
    })
}

/// Returns the array as one of the class that its type says.
fn of<'a, A: ?Sized>(array: &dyn Array, found: Option<&'a A>) -> Result<&'a A> {
    found.ok_or_else(|| other(array))
}

fn other(array: &dyn Array) -> Error {
    Error::new(
        flagstone::ErrorKind::Unsupported,
        format!("an array of the unknown type {}", array.data_type()),
    )
}

fn text<'a, A>(array: A, extension: Option<&str>) -> Cells<'a>
where
    A: arrow_array::ArrayAccessor<Item = &'a str> + 'a,
{
    let is_json = extension == Some(JSON);
    Box::new(move |row| {
        // The interface over which arrays come does not check their bytes.
        let text = str::from_utf8(array.value(row).as_bytes())
            .map_err(|error| unread(format!("text that is not UTF-8: {error}")))?;
        if !is_json {
            return Ok(Value::Text(text.to_owned()));
        }
        // As deep as documents, which a column of JSON may have been made of.
        let options = JsonOptions::new().depth_max(usize::MAX);
        let value = JsonParser::new(options).parse_value(text.as_bytes());
        value.map_err(|error| unread(error.to_string()))
    })
}

fn bytes<'a, A: arrow_array::ArrayAccessor<Item = &'a [u8]> + 'a>(array: A) -> Cells<'a> {
    Box::new(move |row| Ok(Value::Bytes(array.value(row).to_vec())))
}

/// Where the items of a row are.
type Range<'a> = Box<dyn Fn(usize) -> Option<std::ops::Range<usize>> + 'a>;

fn list(array: &dyn Array, reading: Reading) -> Result<Cells<'_>> {
    fn offsets<O: OffsetSizeTrait>(offsets: &[O]) -> Range<'_> {
        Box::new(|row| Some(offsets.get(row)?.as_usize()..offsets.get(row + 1)?.as_usize()))
    }
    fn views<'a, O: OffsetSizeTrait>(offsets: &'a [O], sizes: &'a [O]) -> Range<'a> {
        Box::new(|row| {
            let start = offsets.get(row)?.as_usize();
            Some(start..start.checked_add(sizes.get(row)?.as_usize())?)
        })
    }
    let (field, items, range) = match array.data_type() {
        DataType::List(field) => {
            let array = of(array, array.as_list_opt::<i32>())?;
            (field, array.values(), offsets(array.value_offsets()))
        }
        DataType::LargeList(field) => {
            let array = of(array, array.as_list_opt::<i64>())?;
            (field, array.values(), offsets(array.value_offsets()))
        }
        DataType::ListView(field) => {
            let array = of(array, array.as_list_view_opt::<i32>())?;
            (field, array.values(), views(array.value_offsets(), array.value_sizes()))
        }
        DataType::LargeListView(field) => {
            let array = of(array, array.as_list_view_opt::<i64>())?;
            (field, array.values(), views(array.value_offsets(), array.value_sizes()))
        }
        DataType::FixedSizeList(field, _) => {
            let array = of(array, array.as_fixed_size_list_opt())?;
            let size = usize::try_from(array.value_length()).unwrap_or(0);
            let range: Range<'_> = Box::new(move |row| Some(row * size..(row + 1) * size));
            (field, array.values(), range)
        }
        _ => return Err(other(array)),
    };
    let (read, length) = (cells(field, items, reading)?, items.len());
    Ok(Box::new(move |row| {
        let range = within(range(row), length)?;
        let start = range.start;
        let item = |at| read(at).map_err(|unread| unread.inside(&format!("[{}]", at - start)));
        range.map(item).collect::<Result<_, _>>().map(Value::Array)
    }))
}

fn within(
    range: Option<std::ops::Range<usize>>,
    length: usize,
) -> Result<std::ops::Range<usize>, Unread> {
    range
        .filter(|range| range.start <= range.end && range.end <= length)
        .ok_or_else(|| unread("a list whose offsets are wrong"))
}

fn map(array: &dyn Array, reading: Reading) -> Result<Cells<'_>> {
    let array = of(array, array.as_map_opt())?;
    let DataType::Map(entries, _) = array.data_type() else { return Err(other(array)) };
    let DataType::Struct(fields) = entries.data_type() else { return Err(other(array)) };
    let [key, value] = &fields[..] else { return Err(other(array)) };
    let keys = cells(key, array.keys(), reading)?;
    let values = cells(value, array.values(), reading)?;
    let (offsets, length) = (array.value_offsets(), array.keys().len());
    Ok(Box::new(move |row| {
        let range = offsets.get(row).zip(offsets.get(row + 1));
        let range = within(range.map(|(start, end)| *start as usize..*end as usize), length)?;
        let count = range.len();
        let pair = |at| {
            let key = keys(at)?;
            let value = values(at).map_err(|unread| unread.inside(&format!("[{key}]")))?;
            Ok((key, value))
        };
        let map: Map = range.map(pair).collect::<Result<_, _>>()?;
        if map.len() < count {
            return Err(unread("a map with two equal keys"));
        }
        Ok(Value::Map(map))
    }))
}

fn union(array: &dyn Array, reading: Reading) -> Result<Cells<'_>> {
    let array = of(array, array.as_union_opt())?;
    let mut children = std::collections::HashMap::new();
    for (id, field) in array.fields().iter() {
        let child = array.child(id);
        children.insert(id, (cells(field, child, reading)?, child.len()));
    }
    Ok(Box::new(move |row| {
        let (read, length) = children
            .get(&array.type_id(row))
            .ok_or_else(|| unread("a union of a type that it does not have"))?;
        let at = array.value_offset(row);
        if at >= *length {
            return Err(unread("a union whose offsets are wrong"));
        }
        read(at)
    }))
}

fn dictionary<'a>(
    key: &DataType,
    field: &Field,
    array: &'a dyn Array,
    reading: Reading,
) -> Result<Cells<'a>> {
    use arrow_array::types::Int8Type;
    match key {
        DataType::Int8 => dictionary_of::<Int8Type>(field, array, reading),
        DataType::Int16 => dictionary_of::<Int16Type>(field, array, reading),
        DataType::Int32 => dictionary_of::<Int32Type>(field, array, reading),
        DataType::Int64 => dictionary_of::<Int64Type>(field, array, reading),
        DataType::UInt8 => dictionary_of::<UInt8Type>(field, array, reading),
        DataType::UInt16 => dictionary_of::<UInt16Type>(field, array, reading),
        DataType::UInt32 => dictionary_of::<UInt32Type>(field, array, reading),
        DataType::UInt64 => dictionary_of::<UInt64Type>(field, array, reading),
        _ => Err(other(array)),
    }
}

/// Returns the field of the values that an array of `field` stands for: they are of its extension
/// type, if it has one.
fn values_of(field: &Field, data_type: &DataType) -> Field {
    field.clone().with_data_type(data_type.clone())
}

fn dictionary_of<'a, K: arrow_array::types::ArrowDictionaryKeyType>(
    field: &Field,
    array: &'a dyn Array,
    reading: Reading,
) -> Result<Cells<'a>>
where
    <K as ArrowPrimitiveType>::Native: TryInto<usize>,
{
    let array = of(array, array.as_dictionary_opt::<K>())?;
    let field = values_of(field, array.values().data_type());
    let (read, length) = (cells(&field, array.values(), reading)?, array.values().len());
    Ok(Box::new(move |row| {
        if array.is_null(row) {
            return Ok(Value::Null);
        }
        match array.keys().value(row).try_into() {
            Ok(at) if at < length => read(at),
            _ => Err(unread(format!("a dictionary of {length} values without the one asked for"))),
        }
    }))
}

fn runs<'a, R: RunEndIndexType>(
    field: &Field,
    array: &'a dyn Array,
    reading: Reading,
) -> Result<Cells<'a>> {
    let array = of(array, array.as_run_opt::<R>())?;
    let DataType::RunEndEncoded(_, values) = array.data_type() else { return Err(other(array)) };
    // A mark is that of the array, or of its values.
    let field = match extension(field) {
        Some(_) => values_of(field, values.data_type()),
        None => Field::clone(values),
    };
    let (read, length) = (cells(&field, array.values(), reading)?, array.values().len());
    Ok(Box::new(move |row| match array.get_physical_index(row) {
        at if at < length => read(at),
        _ => Err(unread("a run-end encoded array that ends early")),
    }))
}
