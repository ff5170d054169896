//! Columns that are filled value by value from stored bytes.

use super::indexed::LastText;
use super::json_text;
use crate::column::Column;
use crate::digits::Digits;
use crate::infer::float_of;
use crate::kind::{Kind, PRECISION_128};
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Decimal128Builder, Decimal256Builder, FixedSizeBinaryBuilder,
    Float64Builder, Int64Builder, StringBuilder, StringViewBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, i256};
use arrow_schema::{ArrowError, DataType, Fields};
use flagstone::View;
use flagstone::doc::{DateTime, FieldKey, Malformed};
use std::sync::Arc;

/// What becomes of a value that does not fit the type of its column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMismatch {
    /// The stream ends with an error that names key, column and value.
    #[default]
    Error,
    /// It becomes null; in an array or a map, only the part that does not fit.
    Null,
}

/// A value that does not fit its column.
pub(crate) enum Unfit {
    /// The type that was expected, and the value that was found.
    Here(String, String),
    /// As `Here`, of a document that has what no column has.
    Beside(String, String),
    Malformed(Malformed),
}

impl From<Malformed> for Unfit {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

type Filled<T = ()> = Result<T, Unfit>;

/// A column that is being filled.
pub(crate) struct Filler {
    pub(crate) kind: Kind,
    pub(crate) values: Values,
    /// About how many bytes the values take.
    pub(crate) bytes: usize,
    /// Whether what does not fit becomes null.
    nulls: bool,
    /// Whether text by RFC 3339 is a timestamp.
    pub(super) is_cast: bool,
    /// Whether UUIDs and JSON inside of it are marked.
    is_marked: bool,
    /// For text that is not in one piece.
    pub(crate) buffer: Vec<u8>,
    pub(super) last: LastText,
}

pub(crate) enum Values {
    Bool(BooleanBuilder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    Decimal128(Decimal128Builder),
    Decimal256(Decimal256Builder),
    Text(StringBuilder),
    TextView(StringViewBuilder),
    Bytes(BinaryBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
    List { ends: Vec<i32>, valid: NullBufferBuilder, items: Box<Filler> },
    Struct { valid: NullBufferBuilder, fields: Vec<(String, Filler)> },
}

impl Filler {
    /// A filler of a whole column.
    pub(crate) fn of(column: &Column, nulls: bool, is_for_polars: bool) -> Self {
        let mut filler = Self::new(&column.kind(), (nulls, column.is_cast, !is_for_polars));
        if is_for_polars && filler.kind == Kind::Text {
            filler.values = Values::TextView(StringViewBuilder::new());
        }
        filler
    }

    /// What becomes of misfits, whether text is cast, and whether UUIDs and JSON are marked.
    fn new(kind: &Kind, options: (bool, bool, bool)) -> Self {
        let (nulls, is_cast, is_marked) = options;
        let values = match kind {
            Kind::Bool => Values::Bool(BooleanBuilder::new()),
            Kind::Int64 => Values::Int64(Int64Builder::new()),
            Kind::Float64 => Values::Float64(Float64Builder::new()),
            Kind::Decimal(precision, _) if *precision <= PRECISION_128 => {
                let builder = Decimal128Builder::new();
                Values::Decimal128(builder.with_data_type(kind.data_type()))
            }
            Kind::Decimal(..) => {
                let builder = Decimal256Builder::new();
                Values::Decimal256(builder.with_data_type(kind.data_type()))
            }
            Kind::NumberText | Kind::Text | Kind::ObjectId | Kind::Json => {
                Values::Text(StringBuilder::new())
            }
            Kind::Bytes => Values::Bytes(BinaryBuilder::new()),
            Kind::Timestamp => {
                let builder = TimestampMicrosecondBuilder::new();
                Values::Timestamp(builder.with_data_type(kind.data_type()))
            }
            Kind::Uuid => Values::Uuid(FixedSizeBinaryBuilder::new(16)),
            Kind::List(items) => Values::List {
                ends: vec![0],
                valid: NullBufferBuilder::new(0),
                items: Box::new(Self::new(items, options)),
            },
            Kind::Struct(fields) => Values::Struct {
                valid: NullBufferBuilder::new(0),
                fields: fields
                    .iter()
                    .map(|(name, kind)| (name.clone(), Self::new(kind, options)))
                    .collect(),
            },
        };
        Self {
            kind: kind.clone(),
            values,
            bytes: 0,
            nulls,
            is_cast,
            is_marked,
            buffer: Vec::new(),
            last: LastText::default(),
        }
    }

    /// Appends a value; null if it is missing. After an error the column cannot be used.
    pub(crate) fn append(&mut self, view: Option<&View<'_>>) -> Filled {
        match view.filter(|view| !view.is_null()) {
            None => self.append_null(),
            Some(view) => {
                if !self.append_value(view)? {
                    if !self.nulls {
                        return Err(Unfit::Here(self.kind.to_string(), shown(view)));
                    }
                    self.append_null();
                }
            }
        }
        Ok(())
    }

    pub(crate) fn append_null(&mut self) {
        self.bytes += 1;
        match &mut self.values {
            Values::Bool(values) => values.append_null(),
            Values::Int64(values) => values.append_null(),
            Values::Float64(values) => values.append_null(),
            Values::Decimal128(values) => values.append_null(),
            Values::Decimal256(values) => values.append_null(),
            Values::Text(values) => values.append_null(),
            Values::TextView(values) => values.append_null(),
            Values::Bytes(values) => values.append_null(),
            Values::Timestamp(values) => values.append_null(),
            Values::Uuid(values) => values.append_null(),
            Values::List { ends, valid, .. } => {
                ends.push(ends.last().copied().unwrap_or(0));
                valid.append_null();
            }
            Values::Struct { valid, fields } => {
                valid.append_null();
                fields.iter_mut().for_each(|(_, field)| field.append_null());
            }
        }
    }

    /// Appends a value that is not null. Returns false, and appends nothing, if it does not fit.
    pub(crate) fn append_value(&mut self, view: &View<'_>) -> Filled<bool> {
        self.bytes += 8;
        let appended = match (&mut self.values, &self.kind) {
            (Values::Bool(values), _) => view.as_bool().map(|bool| values.append_value(bool)),
            (Values::Int64(values), _) => view.as_i64().map(|int| values.append_value(int)),
            (Values::Float64(values), _) => float_of_view(view)?.map(|f| values.append_value(f)),
            (Values::Timestamp(values), _) => {
                let text = || view.as_str().filter(|_| self.is_cast);
                let at = view.as_datetime().or_else(|| DateTime::parse_rfc3339(text()?));
                at.map(|at| values.append_value(at.as_micros()))
            }
            (Values::Bytes(values), _) => view.as_bytes().map(|bytes| {
                self.bytes += bytes.len();
                values.append_value(bytes);
            }),
            (Values::Uuid(values), _) => {
                // Every UUID has the width of the column.
                view.as_uuid().and_then(|uuid| values.append_value(uuid).ok())
            }
            (Values::Decimal128(values), Kind::Decimal(precision, scale)) => {
                let scaled = scaled(view, *precision, *scale)?;
                scaled.and_then(|text| text.parse().ok()).map(|int| values.append_value(int))
            }
            (Values::Decimal256(values), Kind::Decimal(precision, scale)) => {
                let scaled = scaled(view, *precision, *scale)?;
                scaled.and_then(|text| i256::from_string(&text)).map(|int| values.append_value(int))
            }
            (Values::Text(values), Kind::Text) => view.as_str().map(|text| {
                self.bytes += text.len();
                values.append_value(text);
            }),
            (Values::TextView(values), _) => view.as_str().map(|text| {
                self.bytes += text.len();
                values.append_value(text);
            }),
            (Values::Text(values), Kind::ObjectId) => view.as_object_id().map(|id| {
                self.bytes += 24;
                values.append_value(id.to_string());
            }),
            (Values::Text(values), Kind::NumberText) if view.is_number() => {
                let text = view.to_value()?.to_string();
                self.bytes += text.len();
                values.append_value(text);
                Some(())
            }
            (Values::Text(values), Kind::Json) => {
                let text = json_text::of(view, &mut self.buffer)?;
                self.bytes += text.len();
                values.append_value(text);
                Some(())
            }
            (Values::List { ends, valid, items }, _) if view.is_array() => {
                for (at, item) in view.items()?.enumerate() {
                    let appended = items.append(Some(&item?));
                    appended.map_err(|unfit| unfit.inside(&format!("[{at}]")))?;
                }
                self.bytes += std::mem::take(&mut items.bytes);
                // A batch ends long before this many items: each counts a byte at least.
                ends.push(i32::try_from(items.len()).unwrap_or(i32::MAX));
                valid.append_non_null();
                Some(())
            }
            (Values::Struct { valid, fields }, _) if view.is_map() => {
                // A map that becomes null leaves no parts behind.
                if self.nulls && surplus("struct", view, fields)?.is_some() {
                    return Ok(false);
                }
                let mut found = 0;
                for (name, field) in fields.iter_mut() {
                    let value = view.get(name)?;
                    found += usize::from(value.is_some());
                    field.append(value.as_ref()).map_err(|unfit| unfit.inside(name))?;
                    self.bytes += std::mem::take(&mut field.bytes);
                }
                if found < view.len()?
                    && let Some((expected, found)) = surplus("struct", view, fields)?
                {
                    return Err(Unfit::Here(expected, found));
                }
                valid.append_non_null();
                Some(())
            }
            _ => None,
        };
        Ok(appended.is_some())
    }

    fn len(&self) -> usize {
        use arrow_array::builder::ArrayBuilder;
        match &self.values {
            Values::Bool(values) => values.len(),
            Values::Int64(values) => values.len(),
            Values::Float64(values) => values.len(),
            Values::Decimal128(values) => values.len(),
            Values::Decimal256(values) => values.len(),
            Values::Text(values) => values.len(),
            Values::TextView(values) => values.len(),
            Values::Bytes(values) => values.len(),
            Values::Timestamp(values) => values.len(),
            Values::Uuid(values) => values.len(),
            Values::List { ends, .. } => ends.len() - 1,
            Values::Struct { valid, .. } => valid.len(),
        }
    }

    /// Returns the array of all values, and begins a new one.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.bytes = 0;
        Ok(match &mut self.values {
            Values::Bool(values) => Arc::new(values.finish()),
            // The next batch is about as large, and need not grow.
            Values::Int64(values) => {
                let array = values.finish();
                *values = Int64Builder::with_capacity(array.len());
                Arc::new(array)
            }
            Values::Float64(values) => {
                let array = values.finish();
                *values = Float64Builder::with_capacity(array.len());
                Arc::new(array)
            }
            Values::Decimal128(values) => Arc::new(values.finish()),
            Values::Decimal256(values) => Arc::new(values.finish()),
            Values::Text(values) => {
                let array = values.finish();
                *values = StringBuilder::with_capacity(array.len(), array.value_data().len());
                Arc::new(array)
            }
            Values::TextView(values) => {
                let array = values.finish();
                *values = StringViewBuilder::with_capacity(array.len());
                Arc::new(array)
            }
            Values::Bytes(values) => Arc::new(values.finish()),
            Values::Timestamp(values) => Arc::new(values.finish()),
            Values::Uuid(values) => Arc::new(values.finish()),
            Values::List { ends, valid, items } => {
                let ends = OffsetBuffer::new(std::mem::replace(ends, vec![0]).into());
                let DataType::List(field) = self.kind.type_of(self.is_marked) else {
                    return Err(ArrowError::SchemaError("a list of another type".into()));
                };
                Arc::new(ListArray::try_new(field, ends, items.finish()?, valid.finish())?)
            }
            Values::Struct { valid, fields } => {
                let DataType::Struct(of) = self.kind.type_of(self.is_marked) else {
                    return Err(ArrowError::SchemaError("a struct of another type".into()));
                };
                let (of, valid): (Fields, _) = (of, valid.finish());
                let arrays = fields.iter_mut().map(|(_, field)| field.finish());
                Arc::new(StructArray::try_new(of, arrays.collect::<Result<_, _>>()?, valid)?)
            }
        })
    }
}

impl Unfit {
    fn inside(self, name: &str) -> Self {
        match self {
            Self::Here(expected, found) => Self::Here(format!("{name}: {expected}"), found),
            other => other,
        }
    }
}

/// Returns what a map has that a struct or a document of `fields` would lose, for messages: what
/// was expected instead, and what was found. A field that is null is none: in columns it is as one
/// that is missing.
pub(crate) fn surplus(
    what: &str,
    view: &View<'_>,
    fields: &[impl Named],
) -> Result<Option<(String, String)>, Malformed> {
    const REMEDY: &str = "a larger sample (all documents: sample=None, or no --sample), or a type \
                          that is given, may have the field";
    if !view.is_map() {
        return Ok(Some(("a map".to_owned(), shown(view))));
    }
    // Documents often have their fields in the same order.
    let mut next = 0;
    for field in view.fields()? {
        let (name, value) = match field? {
            (FieldKey::Name(name), value) => (name, value),
            (FieldKey::Value(key), value) => match key.as_str() {
                Some(name) => (name, value),
                None => {
                    let expected = format!("a {what} without the key {}", shown(&key));
                    return Ok(Some((expected, shown(&value))));
                }
            },
        };
        let mut places = (next..fields.len()).chain(0..next.min(fields.len()));
        match places.find(|at| fields[*at].name() == name) {
            Some(at) => next = at + 1,
            None if value.is_null() => {}
            None => {
                let expected = format!("a {what} without the field {name}");
                return Ok(Some((expected, format!("{}; {REMEDY}", shown(&value)))));
            }
        }
    }
    Ok(None)
}

/// What [`surplus`] looks a name up in.
pub(crate) trait Named {
    fn name(&self) -> &str;
}

impl Named for (String, Filler) {
    fn name(&self) -> &str {
        &self.0
    }
}

impl Named for &str {
    fn name(&self) -> &str {
        self
    }
}

/// Returns the float that the number equals, or whose shortest text it equals.
fn float_of_view(view: &View<'_>) -> Result<Option<f64>, Malformed> {
    if !view.is_number() {
        return Ok(None);
    }
    Ok(float_of(&view.to_value()?))
}

fn scaled(view: &View<'_>, precision: u8, scale: u8) -> Result<Option<String>, Malformed> {
    if !view.is_number() {
        return Ok(None);
    }
    Ok(Digits::of(&view.to_value()?).and_then(|digits| digits.scaled(precision, scale)))
}

/// Returns a value for messages.
fn shown(view: &View<'_>) -> String {
    const MOST: usize = 60;
    let text = view.to_string();
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}..", &text[..at]),
        None => text,
    }
}
