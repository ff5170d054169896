//! Implements serde's traits for [`Value`], [`Number`], [`DateTime`] and [`ObjectId`].
//!
//! Documents preserve these types exactly. Other formats get the nearest type that they have: a
//! number, or the text of a point in time or of an ObjectId.

use super::number::equals;
use super::private;
use super::special::variant;
use crate::datetime::DateTime;
use crate::document::{Document, DocumentMut};
use crate::map::Map;
use crate::number::{Number, NumberText, Width, float_text};
use crate::object_id::ObjectId;
use crate::uuid::UuidText;
use crate::value::Value;
use crate::view::View;
use serde::de::{
    Deserialize, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Self::DateTime(time) => time.serialize(serializer),
            Self::Uuid(bytes) => serializer.serialize_newtype_struct(private::UUID, &Uuid(bytes)),
            Self::ObjectId(id) => id.serialize(serializer),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Map(map) => serializer.serialize_newtype_struct(private::VALUE, &Pairs(map)),
        }
    }
}

/// Writes the value in place, as [`Value`] is written.
impl Serialize for View<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// Writes the value of the document: to another document with every number as it is, to JSON with
/// the nearest types that JSON has.
///
/// ```
/// use flagstone_doc::Document;
/// #[derive(serde::Serialize)]
/// struct Answer {
///     found: u64,
///     first: Option<Document>,
/// }
/// let first = Some(Document::from_json(r#"{"author":"x","tags":["a",null]}"#)?);
/// let json = serde_json::to_string(&Answer { found: 1, first })?;
/// assert_eq!(json, r#"{"found":1,"first":{"author":"x","tags":["a",null]}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.root().serialize(serializer)
    }
}

/// Writes the value that the document has now.
impl Serialize for DocumentMut {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

/// Reads any value, as [`Value`] does, into a document that is self-contained.
impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

struct Pairs<'a>(&'a Map);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

struct Uuid<'a>(&'a [u8; 16]);

impl Serialize for Uuid<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(&UuidText(self.0));
        }
        serializer.serialize_bytes(self.0)
    }
}

/// Writes the literal to a document. Other human-readable formats get a 64-bit integer, a float of
/// equal value, or text; binary formats get text.
impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self.width() {
            Width::Least => private::NUMBER,
            Width::Long => private::LONG,
            Width::Literal => private::DECIMAL,
        };
        serializer.serialize_newtype_struct(name, &NumberAsLiteral(self))
    }
}

struct NumberAsLiteral<'a>(&'a Number);

impl Serialize for NumberAsLiteral<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = self.0;
        if !serializer.is_human_readable() {
            return serializer.serialize_str(number.as_str());
        }
        if let Some(int) = number.as_i64() {
            return serializer.serialize_i64(int);
        }
        if let Some(int) = number.as_u64() {
            return serializer.serialize_u64(int);
        }
        if equals(number.as_f64(), number.as_str()) {
            return serializer.serialize_f64(number.as_f64());
        }
        serializer.serialize_str(number.as_str())
    }
}

/// Writes a point in time to a document. Other human-readable formats get RFC 3339 text; binary
/// formats get microseconds.
impl Serialize for DateTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(private::DATE_TIME, &Micros(*self))
    }
}

struct Micros(DateTime);

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() && self.0.has_rfc3339() {
            return serializer.collect_str(&self.0);
        }
        serializer.serialize_i64(self.0.as_micros())
    }
}

/// Writes an ObjectId to a document. Other human-readable formats get 24 hexadecimal digits; binary
/// formats get the 12 bytes.
impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(private::OBJECT_ID, &Twelve(*self))
    }
}

struct Twelve(ObjectId);

impl Serialize for Twelve {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(&self.0);
        }
        serializer.serialize_bytes(self.0.as_bytes())
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(private::VALUE, Any { is_direct: false })
    }
}

/// Reads any number with its literal; a finite float becomes the decimal that it represents.
impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let refused = |found: &str| D::Error::invalid_type(Unexpected::Other(found), &"a number");
        if !deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            return Self::parse(&text).ok_or_else(|| refused("text"));
        }
        match Value::deserialize(deserializer)? {
            Value::Number(number) => Ok(number),
            Value::Int(int) => Ok(Self::from_checked(&int.to_string())),
            Value::Float(float) if float.is_finite() => {
                let mut text: NumberText = [0; 48];
                let len = float_text(float, &mut text);
                let literal = std::str::from_utf8(&text[..len]).unwrap_or_default();
                Self::parse(literal).ok_or_else(|| refused("a float"))
            }
            Value::Float(_) => Err(refused("a float that is no number")),
            Value::Text(text) => Self::parse(&text).ok_or_else(|| refused("text")),
            other => Err(refused(other.type_name())),
        }
    }
}

/// Reads a point in time, or RFC 3339 text.
impl<'de> Deserialize<'de> for DateTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return i64::deserialize(deserializer).map(Self::from_micros);
        }
        let refused = |found: &str| {
            D::Error::invalid_type(Unexpected::Other(found), &"a datetime or its RFC 3339 text")
        };
        match Value::deserialize(deserializer)? {
            Value::DateTime(time) => Ok(time),
            Value::Text(text) => Self::parse_rfc3339(&text).ok_or_else(|| refused("other text")),
            other => Err(refused(other.type_name())),
        }
    }
}

/// Reads an ObjectId, or its 24 hexadecimal digits as text.
impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return deserializer.deserialize_bytes(TwelveBytes);
        }
        let refused = |found: &str| {
            D::Error::invalid_type(Unexpected::Other(found), &"an ObjectId or its text")
        };
        match Value::deserialize(deserializer)? {
            Value::ObjectId(id) => Ok(id),
            Value::Text(text) => text.parse().map_err(|_other| refused("other text")),
            other => Err(refused(other.type_name())),
        }
    }
}

/// Reads the bytes of an ObjectId in a binary format.
struct TwelveBytes;

impl Visitor<'_> for TwelveBytes {
    type Value = ObjectId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the 12 bytes of an ObjectId")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<ObjectId, E> {
        let bytes = bytes.try_into().map_err(|_other| E::invalid_length(bytes.len(), &self))?;
        Ok(ObjectId::from_bytes(bytes))
    }
}

/// A visitor that accepts any value.
struct Any {
    /// Whether a document is read directly, and not serde's buffer: no map is special then.
    is_direct: bool,
}

impl Any {
    /// Reads a map of one private key, the form of a value that passed through serde's buffer.
    fn unpacked<'de, A: MapAccess<'de>>(
        &self,
        key: &Value,
        map: &mut A,
    ) -> Result<Option<Value>, A::Error> {
        let Some(name) = key.as_str().filter(|name| !self.is_direct && name.starts_with('$'))
        else {
            return Ok(None);
        };
        Ok(Some(match name {
            private::JSON_NUMBER => {
                let text: String = map.next_value()?;
                number(&text)?
            }
            private::DATE_TIME => Value::DateTime(DateTime::from_micros(map.next_value()?)),
            private::UUID => uuid(map.next_value()?)?,
            private::OBJECT_ID => object_id(map.next_value()?)?,
            _ => return Ok(None),
        }))
    }
}

fn number<E: Error>(literal: &str) -> Result<Value, E> {
    Value::number(literal).ok_or_else(|| E::invalid_value(Unexpected::Str(literal), &"a number"))
}

fn wide<E: Error>(literal: &str, width: Width) -> Result<Value, E> {
    number::<E>(literal).map(|_| Value::Number(Number::wide(literal, width)))
}

fn uuid<E: Error>(bytes: Value) -> Result<Value, E> {
    let bytes = bytes.as_bytes().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    bytes.map(Value::Uuid).ok_or_else(|| E::custom("expected the 16 bytes of a uuid"))
}

fn object_id<E: Error>(bytes: Value) -> Result<Value, E> {
    let bytes = bytes.as_bytes().and_then(|bytes| <[u8; 12]>::try_from(bytes).ok());
    let id = bytes.map(ObjectId::from_bytes).map(Value::ObjectId);
    id.ok_or_else(|| E::custom("expected the 12 bytes of an ObjectId"))
}

macro_rules! visits {
    ($($method:ident $type:ty;)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<Value, E> {
            Ok(Value::from(value))
        }
    )*};
}

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value of a document")
    }

    visits! {
        visit_bool bool;
        visit_i64 i64;
        visit_u64 u64;
        visit_i128 i128;
        visit_f64 f64;
        visit_str &str;
        visit_string String;
        visit_bytes &[u8];
        visit_byte_buf Vec<u8>;
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        number(&value.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        let is_direct = !deserializer.is_human_readable();
        deserializer.deserialize_any(Self { is_direct })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut pairs: Vec<(Value, Value)> = Vec::new();
        while let Some(key) = map.next_key::<Value>()? {
            if pairs.is_empty()
                && let Some(value) = self.unpacked(&key, &mut map)?
            {
                return Ok(value);
            }
            pairs.push((key, map.next_value()?));
        }
        Ok(Value::Map(pairs.into_iter().collect()))
    }

    /// Reads a special type; only documents present enums.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Value, A::Error> {
        let (kind, content) = data.variant::<u32>()?;
        match kind {
            variant::NUMBER => number(&content.newtype_variant::<String>()?),
            variant::LONG => wide(&content.newtype_variant::<String>()?, Width::Long),
            variant::DECIMAL => wide(&content.newtype_variant::<String>()?, Width::Literal),
            variant::DATE_TIME => {
                Ok(Value::DateTime(DateTime::from_micros(content.newtype_variant()?)))
            }
            variant::UUID => uuid(content.newtype_variant()?),
            variant::OBJECT_ID => object_id(content.newtype_variant()?),
            other => {
                Err(A::Error::invalid_value(Unexpected::Unsigned(other.into()), &"a kind of value"))
            }
        }
    }
}
