//! A view of a value in the binary form, read in place.

use super::body::Body;
use super::walk::{FieldKey, Fields, Items};
use crate::datetime::DateTime;
use crate::depth::DEPTH_MAX;
use crate::field_name::FieldName;
use crate::layout::{self, form as forms, heap_len, signed, tag, unsigned, width};
use crate::map::Map;
use crate::names::Names;
use crate::number::Number;
use crate::utf8::from_utf8;
use crate::value::Value;
use crate::value_type::ValueType;
use flagstone_base::Malformed;
use std::fmt;
use std::ops::Range;

/// A document, or a value inside one, read in place. A view is a few words and cheap to copy.
///
/// A view checks only the bytes that it reads. Malformed bytes give an error when a read reaches
/// them, never a panic. [`validate`](super::validate) checks all of a document.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) tag: u8,
    /// For a container, how its keys and tags are stored.
    pub(super) form: u8,
    /// The offset of the payload in the document.
    pub(super) at: usize,
    pub(super) payload: &'a [u8],
    pub(super) names: Option<&'a Names>,
}

/// A view that is opened to look up several fields: it costs less than to open it for each.
#[derive(Clone, Copy)]
pub struct OpenView<'a> {
    pub(crate) view: View<'a>,
    /// The inside of a map whose names are in the table.
    body: Option<(Body<'a>, &'a Names)>,
}

impl<'a> OpenView<'a> {
    /// As [`View::len`], without opening the map again.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub fn count(&self) -> Result<usize, Malformed> {
        self.body.as_ref().map_or_else(|| self.view.len(), |(body, _names)| Ok(body.count))
    }

    /// Returns the field `name` of a map; remembers the id of the name for the next document.
    #[inline]
    pub(crate) fn field(&self, name: &FieldName) -> Result<Option<View<'a>>, Malformed> {
        let Some((body, names)) = &self.body else { return self.view.get(name.as_str()) };
        let Some(id) = name.id(names) else { return Ok(None) };
        body.find_id(id).map(|index| body.value(body.place(index))).transpose()
    }
}

impl View<'static> {
    /// A null that refers to no bytes.
    pub(crate) const NULL: Self =
        View { tag: tag::NULL, form: 0, at: 0, payload: &[], names: None };
}

impl<'a> View<'a> {
    /// Creates a view of the document in `bytes`. `names` is the table of its field names; `None`
    /// if the document is self-contained. Checks only the first bytes.
    ///
    /// # Errors
    /// If the first bytes are not those of a document, or the document has a version that this
    /// release cannot read.
    // Inlined for the reason that `Body::next` gives; `of_bare`, which is rare, is not.
    #[inline]
    pub fn of(bytes: &'a [u8], names: Option<&'a Names>) -> Result<Self, Malformed> {
        let refuse = |at, expected| Malformed { at, expected };
        let (header, rest) = bytes.split_first().ok_or(refuse(0, "a document's first byte"))?;
        if header >> 4 != layout::VERSION {
            return Err(refuse(0, "a document of version 1"));
        }
        if header & layout::USES_NAMES != 0 && names.is_none() {
            return Err(refuse(0, "a self-contained document, or its names table"));
        }
        let form = header & layout::FORM_BITS;
        let container = |tag| Self { tag, form, at: 1, payload: rest, names };
        match form {
            forms::ARRAY | forms::ARRAY_OF_ONE_TAG => Ok(container(tag::ARRAY_4)),
            forms::INLINE_NAMES | forms::IDS_1 | forms::IDS_2 | forms::PAIRS => {
                Ok(container(tag::MAP_4))
            }
            forms::SHAPE => Err(refuse(0, "a document without a shape")),
            _ => Self::of_bare(rest, names),
        }
    }

    /// Creates the view of a document that is a single value: a tag, and its bytes.
    #[inline(never)]
    fn of_bare(rest: &'a [u8], names: Option<&'a Names>) -> Result<Self, Malformed> {
        let refuse = |at, expected| Malformed { at, expected };
        let (tag, rest) = rest.split_first().ok_or(refuse(1, "a tag"))?;
        if tag::is_reserved(*tag) {
            return Err(refuse(1, "a tag that this version knows"));
        }
        if (tag::ARRAY_2..=tag::MAP_4).contains(tag) {
            return Err(refuse(1, "an array or a map without a tag of its own"));
        }
        let fixed = rest.get(..width(*tag)).ok_or(refuse(2, "the bytes of a value"))?;
        let heap = &rest[fixed.len()..];
        if heap.len() != heap_len(*tag, fixed) {
            return Err(refuse(2, "one value and nothing after it"));
        }
        let is_in_heap = tag::is_in_heap(*tag);
        let (at, payload) = if is_in_heap { (2 + fixed.len(), heap) } else { (2, fixed) };
        Ok(Self { tag: *tag, form: 0, at, payload, names })
    }

    /// Creates the view of a value whose payload is in the heap.
    #[inline]
    pub(super) fn of_heap(
        tag: u8,
        payload: &'a [u8],
        at: usize,
        names: Option<&'a Names>,
    ) -> Result<Self, Malformed> {
        if !(tag::ARRAY_2..=tag::MAP_4).contains(&tag) {
            return Ok(Self { tag, form: 0, at, payload, names });
        }
        let is_array = tag <= tag::ARRAY_4;
        let (form, payload) = match payload.split_first() {
            Some((form, payload)) if (*form <= forms::ARRAY_OF_ONE_TAG) == is_array => {
                (*form, payload)
            }
            _ => return Err(Malformed { at, expected: "the form of a container" }),
        };
        let tag = if is_array { tag::ARRAY_4 } else { tag::MAP_4 };
        Ok(Self { tag, form, at: at + 1, payload, names })
    }

    /// Returns whether the value is an array.
    pub const fn is_array(&self) -> bool {
        matches!(self.tag, tag::ARRAY_4 | tag::EMPTY_ARRAY)
    }

    /// Returns whether the value is a map.
    pub const fn is_map(&self) -> bool {
        matches!(self.tag, tag::MAP_4 | tag::EMPTY_MAP)
    }

    /// Returns the type of the value.
    #[inline]
    pub const fn value_type(&self) -> ValueType {
        match self.tag {
            tag::NULL => ValueType::Null,
            tag::FALSE | tag::TRUE => ValueType::Bool,
            tag::TEXT..=0xFF | tag::TEXT_2 | tag::TEXT_4 => ValueType::Text,
            tag::BYTES_1 | tag::BYTES_4 => ValueType::Bytes,
            tag::DATE_TIME => ValueType::DateTime,
            tag::UUID => ValueType::Uuid,
            tag::EMPTY_ARRAY | tag::ARRAY_2 | tag::ARRAY_4 => ValueType::Array,
            tag::EMPTY_MAP | tag::MAP_2 | tag::MAP_4 => ValueType::Map,
            _ => ValueType::Number,
        }
    }

    /// Returns whether the value is an array or map that has a payload; an empty one has none.
    pub(crate) const fn is_full_container(&self) -> bool {
        matches!(self.tag, tag::ARRAY_4 | tag::MAP_4)
    }

    /// Returns where in the document the payload is. No two containers have one start.
    pub(crate) const fn range(&self) -> Range<usize> {
        self.at..self.at + self.payload.len()
    }

    /// Returns whether the value is null.
    pub const fn is_null(&self) -> bool {
        self.tag == tag::NULL
    }

    /// Returns whether the value is a number.
    pub const fn is_number(&self) -> bool {
        matches!(self.tag, tag::INT_1..=tag::FLOAT | tag::LITERAL_1 | tag::LITERAL_4
            | tag::SMALL_INT..tag::TEXT)
    }

    /// Returns the boolean, if the value is one.
    pub const fn as_bool(&self) -> Option<bool> {
        match self.tag {
            tag::FALSE => Some(false),
            tag::TRUE => Some(true),
            _ => None,
        }
    }

    /// Returns the integer, if the value is a number equal to an integer that fits `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_small_int().or_else(|| self.number()?.as_i64())
    }

    /// Returns the integer, if the value is a number equal to an integer that fits `u64`.
    pub fn as_u64(&self) -> Option<u64> {
        match self.as_small_int() {
            Some(int) => int.try_into().ok(),
            None => self.number()?.as_u64(),
        }
    }

    /// Returns the nearest float, if the value is a number.
    pub fn as_f64(&self) -> Option<f64> {
        self.number()?.as_f64()
    }

    /// Returns the text, if the value is text in UTF-8. All text of a valid document is UTF-8.
    pub fn as_str(&self) -> Option<&'a str> {
        from_utf8(self.as_text_bytes()?)
    }

    /// Returns the bytes, if the value is bytes.
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        match self.tag {
            tag::BYTES_1 | tag::BYTES_4 => Some(self.payload),
            _ => None,
        }
    }

    /// Returns the point in time, if the value is one.
    pub fn as_datetime(&self) -> Option<DateTime> {
        (self.tag == tag::DATE_TIME).then(|| DateTime::from_micros(signed(self.payload)))
    }

    /// Returns the 16 bytes of the UUID, if the value is one.
    pub fn as_uuid(&self) -> Option<&'a [u8; 16]> {
        if self.tag == tag::UUID { self.payload.first_chunk() } else { None }
    }

    #[inline]
    pub(crate) const fn as_text_bytes(&self) -> Option<&'a [u8]> {
        match self.tag {
            tag::TEXT..=0xFF | tag::TEXT_2 | tag::TEXT_4 => Some(self.payload),
            _ => None,
        }
    }

    /// Returns the integer, if it is stored as a signed one of at most 64 bits.
    #[inline]
    pub(crate) fn as_small_int(&self) -> Option<i64> {
        match self.tag {
            tag::SMALL_INT..tag::TEXT => Some(i64::from(self.tag) - i64::from(tag::SMALL_INT_ZERO)),
            tag::INT_1..=tag::INT_8 => Some(signed(self.payload)),
            _ => None,
        }
    }

    /// Returns the literal, if the value is a number stored as its literal.
    pub(crate) const fn as_literal(&self) -> Option<&'a [u8]> {
        match self.tag {
            tag::LITERAL_1 | tag::LITERAL_4 => Some(self.payload),
            _ => None,
        }
    }

    /// Returns coefficient and scale, if the value is a number stored as a decimal.
    pub(crate) fn as_decimal(&self) -> Option<(i64, u8)> {
        let (scale, coefficient) = match self.tag {
            tag::DECIMAL_4 | tag::DECIMAL_8 => self.payload.split_first()?,
            _ => return None,
        };
        Some((signed(coefficient), *scale))
    }

    /// Returns the integer, if it is stored as an unsigned one of 64 bits.
    #[cfg(feature = "serde")]
    pub(crate) fn as_stored_u64(&self) -> Option<u64> {
        (self.tag == tag::U64).then(|| unsigned(self.payload))
    }

    /// Returns the float, if the value is stored as one.
    pub(crate) fn as_stored_float(&self) -> Option<f64> {
        (self.tag == tag::FLOAT).then(|| f64::from_bits(unsigned(self.payload)))
    }

    /// Returns tag and payload of a value that is not a container.
    pub(crate) const fn raw_scalar(&self) -> (u8, &'a [u8]) {
        (self.tag, self.payload)
    }

    /// Returns form and payload of an array or map that has a payload.
    pub(crate) const fn raw_container(&self) -> (u8, &'a [u8]) {
        (self.form, self.payload)
    }

    /// Returns whether the value is a map with a key that is not text.
    pub(crate) const fn has_keys_of_any_type(&self) -> bool {
        self.tag == tag::MAP_4 && self.form == forms::PAIRS
    }

    /// Returns the offset of the payload in the document. No two containers that are not empty have
    /// the same.
    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    /// Returns the table of the document's field names.
    pub(crate) const fn names(&self) -> Option<&'a Names> {
        self.names
    }

    pub(crate) const fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed { at: self.at, expected }
    }

    /// Decodes the number; `None` if the value is not a number or is malformed.
    fn number(&self) -> Option<Value> {
        if let Some(int) = self.as_small_int() {
            return Some(Value::Int(int));
        }
        if let Some(literal) = self.as_literal() {
            let number = Number::parse(std::str::from_utf8(literal).ok()?)?;
            return Some(Value::Number(number));
        }
        if let Some((coefficient, scale)) = self.as_decimal() {
            return Some(Value::Number(decimal(coefficient, scale)));
        }
        match self.tag {
            tag::U64 => Some(Value::from(unsigned(self.payload))),
            tag::FLOAT => Some(Value::Float(f64::from_bits(unsigned(self.payload)))),
            _ => None,
        }
    }

    /// Iterates over the elements of an array, in order. There are none if the value is not an
    /// array.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn items(&self) -> Result<Items<'a>, Malformed> {
        Items::new(if self.tag == tag::ARRAY_4 { Some(Body::open(self)?) } else { None })
    }

    /// Iterates over the keys and values of a map, in stored order. There are none if the value is
    /// not a map.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn fields(&self) -> Result<Fields<'a>, Malformed> {
        Fields::new(if self.tag == tag::MAP_4 { Some(Body::open(self)?) } else { None })
    }

    /// Returns the inside of a map whose names are all in the table, and the table.
    #[inline]
    pub(crate) fn known_names(&self) -> Result<Option<(Body<'a>, &'a Names)>, Malformed> {
        let has_ids = matches!(self.form, forms::IDS_1 | forms::IDS_2) && self.tag == tag::MAP_4;
        match self.names.filter(|_| has_ids) {
            Some(names) => Ok(Some((Body::open(self)?, names))),
            None => Ok(None),
        }
    }

    /// Returns the number of elements of an array or of pairs of a map; 0 for other values.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn len(&self) -> Result<usize, Malformed> {
        if !matches!(self.tag, tag::ARRAY_4 | tag::MAP_4) {
            return Ok(0);
        }
        let body = Body::open(self)?;
        Ok(if self.form == forms::PAIRS { body.count / 2 } else { body.count })
    }

    /// Returns whether [`View::len`] is 0.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn is_empty(&self) -> Result<bool, Malformed> {
        self.len().map(|len| len == 0)
    }

    /// Returns the field `name` of a map; `None` if there is none or the value is not a map.
    ///
    /// Decodes nothing else: the lookup searches the keys for the name's id, then adds up widths.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn get(&self, name: &str) -> Result<Option<View<'a>>, Malformed> {
        if self.tag != tag::MAP_4 {
            return Ok(None);
        }
        if self.form == forms::PAIRS {
            for field in self.fields()? {
                let (FieldKey::Value(key), value) = field? else { continue };
                if key.as_text_bytes() == Some(name.as_bytes()) {
                    return Ok(Some(value));
                }
            }
            return Ok(None);
        }
        let body = Body::open(self)?;
        body.find(name)?.map(|index| body.value(body.place(index))).transpose()
    }

    /// Returns the field `name` of a map; remembers the id of the name for the next document.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub(crate) fn field(&self, name: &FieldName) -> Result<Option<View<'a>>, Malformed> {
        self.opened()?.field(name)
    }

    /// Opens a map to look up several fields.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub fn opened(&self) -> Result<OpenView<'a>, Malformed> {
        Ok(OpenView { view: *self, body: self.known_names()? })
    }

    /// Returns the element `index` of an array; `None` beyond its end or if the value is not an
    /// array.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn at(&self, index: usize) -> Result<Option<View<'a>>, Malformed> {
        if self.tag != tag::ARRAY_4 {
            return Ok(None);
        }
        let body = Body::open(self)?;
        (index < body.count).then(|| body.value(body.place(index))).transpose()
    }

    /// Returns the value at a dotted path: `id`, `a.b`, `tags.0`. A path cannot reach a name that
    /// contains a dot.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn path(&self, path: &str) -> Result<Option<View<'a>>, Malformed> {
        let mut view = *self;
        for step in path.split('.') {
            let next = match view.tag {
                tag::MAP_4 => view.get(step)?,
                tag::ARRAY_4 => match step.parse() {
                    Ok(index) => view.at(index)?,
                    Err(_no_index) => None,
                },
                _ => None,
            };
            let Some(next) = next else { return Ok(None) };
            view = next;
        }
        Ok(Some(view))
    }

    /// Decodes the value into memory, independent of the bytes.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn to_value(&self) -> Result<Value, Malformed> {
        self.decoded(DEPTH_MAX)
    }

    fn decoded(&self, depth: usize) -> Result<Value, Malformed> {
        if let Some(text) = self.as_text_bytes() {
            let text = from_utf8(text).ok_or_else(|| self.malformed("text in UTF-8"))?;
            return Ok(Value::Text(text.to_owned()));
        }
        let is_container = matches!(self.tag, tag::ARRAY_4 | tag::MAP_4);
        if is_container && depth == 0 {
            return Err(self.malformed("nesting of at most 512 levels"));
        }
        Ok(match self.tag {
            tag::NULL => Value::Null,
            tag::FALSE => Value::Bool(false),
            tag::TRUE => Value::Bool(true),
            tag::EMPTY_ARRAY => Value::Array(Vec::new()),
            tag::EMPTY_MAP => Value::object(),
            tag::DATE_TIME => Value::DateTime(DateTime::from_micros(signed(self.payload))),
            tag::UUID => Value::Uuid(*self.as_uuid().ok_or(self.malformed("a uuid"))?),
            tag::BYTES_1 | tag::BYTES_4 => Value::Bytes(self.payload.to_vec()),
            tag::ARRAY_4 => {
                let items: Result<_, _> =
                    self.items()?.map(|item| item?.decoded(depth - 1)).collect();
                Value::Array(items?)
            }
            tag::MAP_4 => Value::Map(self.decoded_map(depth)?),
            _ => self.number().ok_or(self.malformed("a number"))?,
        })
    }

    fn decoded_map(&self, depth: usize) -> Result<Map, Malformed> {
        let mut pairs = Vec::new();
        for field in self.fields()? {
            let (key, value) = field?;
            let key = match key {
                FieldKey::Name(name) => Value::Text(name.to_owned()),
                FieldKey::Value(key) => key.decoded(depth - 1)?,
            };
            pairs.push((key, value.decoded(depth - 1)?));
        }
        Ok(Map::from_distinct(pairs))
    }
}

/// Makes the number `coefficient / 10^scale`, with `scale` digits after the point.
fn decimal(coefficient: i64, scale: u8) -> Number {
    let mut literal = Vec::new();
    crate::print::put_decimal(coefficient, scale, &mut literal);
    Number::from_checked(std::str::from_utf8(&literal).unwrap_or("0"))
}

impl fmt::Display for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_value() {
            Ok(value) => write!(f, "{value}"),
            Err(malformed) => write!(f, "<malformed {malformed}>"),
        }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
