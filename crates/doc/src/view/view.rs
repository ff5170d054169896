//! A view of a value in the binary form: its type, and what is not inside of an array or a map.

use crate::datetime::DateTime;
use crate::layout::{
    self, form as forms, heap_len, is_small, signed, signed_width, tag, unsigned, width,
};
use crate::names::Names;
use crate::number::{LeastForm, Number, NumberLiteral, Width};
use crate::object_id::ObjectId;
use crate::utf8::from_utf8;
use crate::value::Value;
use crate::value_type::ValueType;
use flagstone_base::Malformed;
use std::ops::Range;

/// A document, or a value inside one, read in place. A view is a few words and cheap to copy.
///
/// A view checks only the bytes that it reads. Malformed bytes give an error when a read reaches
/// them, never a panic. [`validate`](super::validate) checks all of a document.
///
/// ```
/// use flagstone_doc::{Document, ValueType};
/// let document = Document::from_json(r#"{"id":7,"name":"ada","votes":[1.5,-2],"draft":null}"#)?;
/// let post = document.root();
/// assert!(post.is_map() && post.len()? == 4 && !post.is_empty()?);
/// let id = post.get("id")?.expect("it has one");
/// assert!(id.is_number() && id.value_type() == ValueType::Number);
/// assert_eq!((id.as_i64(), id.as_u64(), id.as_f64()), (Some(7), Some(7), Some(7.0)));
/// assert_eq!(id.as_str(), None);
/// assert_eq!(post.path("name")?.and_then(|name| name.as_str()), Some("ada"));
/// assert!(post.get("draft")?.is_some_and(|draft| draft.is_null() && draft.as_bool().is_none()));
///
/// let votes = post.get("votes")?.expect("it has some");
/// assert!(votes.is_array());
/// assert_eq!(votes.at(1)?.and_then(|vote| vote.as_i64()), Some(-2));
/// let mut sum = 0.0;
/// for vote in votes.items()? {
///     sum += vote?.as_f64().unwrap_or(0.0);
/// }
/// assert_eq!(sum, -0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The types that JSON lacks:
///
/// ```
/// use flagstone_doc::{DateTime, Document, ObjectId, Value, doc};
/// let (time, id) = (DateTime::from_micros(5), ObjectId::from_bytes([7; 12]));
/// let value = doc!([time, id, (Value::Uuid([9; 16])), (Value::Bytes(vec![1, 2]))]);
/// let document = Document::from_value(&value)?;
/// let part = |path: &str| document.get(path).expect("it is there");
/// assert_eq!(part("0").as_datetime(), Some(time));
/// assert_eq!(part("1").as_object_id(), Some(id));
/// assert_eq!(part("2").as_uuid(), Some(&[9; 16]));
/// assert_eq!(part("3").as_bytes(), Some([1, 2].as_slice()));
/// assert_eq!((part("0").as_i64(), part("2").as_bytes()), (None, None));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
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

/// A number of a document in the form in which it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StoredNumber<'a> {
    /// An integer in as few bytes as it needs.
    Int(i64),
    /// An integer in more bytes than it needs.
    Long(i64),
    /// An integer from 2^63 on.
    Unsigned(u64),
    /// A binary float.
    Float(f64),
    /// The number `coefficient / 10^scale`.
    Decimal {
        /// The digits.
        coefficient: i64,
        /// How many of the digits are after the point.
        scale: u8,
    },
    /// A number as its literal.
    Literal {
        /// The literal.
        text: &'a str,
        /// Whether it could be stored in a smaller form.
        is_wide: bool,
    },
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
    /// ```
    /// use flagstone_doc::{Document, View};
    /// let document = Document::from_json(r#"{"id":7}"#)?;
    /// let view = View::of(document.as_bytes(), None)?;
    /// assert_eq!(view.to_string(), r#"{"id":7}"#);
    /// assert!(View::of(b"no document", None).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
            tag::OBJECT_ID => ValueType::ObjectId,
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

    /// Returns the ObjectId, if the value is one.
    pub fn as_object_id(&self) -> Option<ObjectId> {
        self.as_object_id_bytes().copied().map(ObjectId::from_bytes)
    }

    pub(crate) fn as_object_id_bytes(&self) -> Option<&'a [u8; 12]> {
        if self.tag == tag::OBJECT_ID { self.payload.first_chunk() } else { None }
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
    pub(super) fn number(&self) -> Option<Value> {
        Some(match self.stored_number()? {
            StoredNumber::Int(int) => Value::Int(int),
            StoredNumber::Long(int) => Value::Number(Number::wide(&int.to_string(), Width::Long)),
            StoredNumber::Unsigned(int) => Value::from(int),
            StoredNumber::Float(float) => Value::Float(float),
            StoredNumber::Decimal { coefficient, scale } => {
                Value::Number(decimal(coefficient, scale))
            }
            StoredNumber::Literal { text, is_wide } => {
                let width = if is_wide { Width::Literal } else { Width::Least };
                Value::Number(Number::wide(text, width))
            }
        })
    }

    /// Returns the number in the form in which it is stored; `None` if the value is not a number or
    /// is malformed. For conversions to formats with more types of numbers.
    #[doc(hidden)]
    #[inline]
    pub fn stored_number(&self) -> Option<StoredNumber<'a>> {
        if let Some(int) = self.as_small_int() {
            let is_wide = self.is_wide(int);
            return Some(if is_wide { StoredNumber::Long(int) } else { StoredNumber::Int(int) });
        }
        if let Some(literal) = self.as_literal() {
            let is_wide = NumberLiteral::whole(literal)?.least_form() != LeastForm::Literal;
            return Some(StoredNumber::Literal {
                text: std::str::from_utf8(literal).ok()?,
                is_wide,
            });
        }
        if let Some((coefficient, scale)) = self.as_decimal() {
            return Some(StoredNumber::Decimal { coefficient, scale });
        }
        match self.tag {
            tag::U64 => Some(StoredNumber::Unsigned(unsigned(self.payload))),
            tag::FLOAT => Some(StoredNumber::Float(f64::from_bits(unsigned(self.payload)))),
            _ => None,
        }
    }

    /// Returns whether the integer `int`, which this value stores, takes more bytes than it needs.
    #[inline]
    const fn is_wide(&self, int: i64) -> bool {
        !self.payload.is_empty() && (is_small(int) || self.payload.len() > signed_width(int))
    }
}

/// Makes the number `coefficient / 10^scale`, with `scale` digits after the point.
fn decimal(coefficient: i64, scale: u8) -> Number {
    let mut literal = Vec::new();
    crate::print::put_decimal(coefficient, scale, &mut literal);
    Number::from_checked(std::str::from_utf8(&literal).unwrap_or("0"))
}
