//! Captures one scalar: the key of a map, or the content of a private newtype struct.

use super::error::FailureAtPath;
use super::private::{self, WRAPS_MAX};
use crate::datetime::DateTime;
use crate::number::{Number, Width};
use crate::object_id::ObjectId;
use crate::value::Value;
use serde::Serialize;
use serde::ser::{Impossible, Serializer};

/// The scalar that was captured.
pub(super) enum Captured {
    /// Text, stored in [`Capture::text`].
    Text,
    /// Any other scalar.
    Value(Value),
}

/// Serializes a scalar; fails with [`FailureAtPath::compound`] for an array or a map.
pub(super) struct Capture<'t> {
    /// The buffer for the text.
    pub(super) text: &'t mut Vec<u8>,
    /// Whether types write their form for people: true for keys, false in private newtype structs.
    pub(super) is_readable: bool,
    pub(super) wraps: u16,
}

impl Capture<'_> {
    fn private(self, name: &str, captured: Captured) -> Result<Captured, FailureAtPath> {
        let value = match (name, captured) {
            (private::NUMBER, Captured::Text) => {
                let literal = std::str::from_utf8(self.text).ok();
                literal.and_then(Number::parse).map(Value::Number)
            }
            (private::LONG | private::DECIMAL, Captured::Text) => {
                let width = if name == private::LONG { Width::Long } else { Width::Literal };
                let literal = std::str::from_utf8(self.text).ok();
                let literal = literal.filter(|literal| Number::parse(literal).is_some());
                literal.map(|literal| Value::Number(Number::wide(literal, width)))
            }
            (private::DATE_TIME, Captured::Value(Value::Int(micros))) => {
                Some(Value::DateTime(DateTime::from_micros(micros)))
            }
            (private::UUID, Captured::Value(Value::Bytes(bytes))) => {
                <[u8; 16]>::try_from(bytes).ok().map(Value::Uuid)
            }
            (private::OBJECT_ID, Captured::Value(Value::Bytes(bytes))) => {
                bytes.try_into().ok().map(ObjectId::from_bytes).map(Value::ObjectId)
            }
            _ => None,
        };
        let refused = || FailureAtPath::mismatch(format_args!("a value that {name} cannot hold"));
        value.map(Captured::Value).ok_or_else(refused)
    }
}

macro_rules! captured {
    ($($method:ident: $type:ty;)*) => {$(
        fn $method(self, value: $type) -> Result<Captured, FailureAtPath> {
            Ok(Captured::Value(Value::from(value)))
        }
    )*};
}

impl Serializer for Capture<'_> {
    type Ok = Captured;
    type Error = FailureAtPath;
    type SerializeSeq = Impossible<Captured, FailureAtPath>;
    type SerializeTuple = Impossible<Captured, FailureAtPath>;
    type SerializeTupleStruct = Impossible<Captured, FailureAtPath>;
    type SerializeTupleVariant = Impossible<Captured, FailureAtPath>;
    type SerializeMap = Impossible<Captured, FailureAtPath>;
    type SerializeStruct = Impossible<Captured, FailureAtPath>;
    type SerializeStructVariant = Impossible<Captured, FailureAtPath>;

    captured! {
        serialize_bool: bool;
        serialize_i8: i8;
        serialize_i16: i16;
        serialize_i32: i32;
        serialize_i64: i64;
        serialize_u8: u8;
        serialize_u16: u16;
        serialize_u32: u32;
        serialize_u64: u64;
        serialize_i128: i128;
        serialize_f64: f64;
        serialize_bytes: &[u8];
    }

    fn serialize_u128(self, value: u128) -> Result<Captured, FailureAtPath> {
        let value = match i128::try_from(value) {
            Ok(value) => Value::from(value),
            Err(_beyond) => Value::Number(Number::from_checked(&value.to_string())),
        };
        Ok(Captured::Value(value))
    }

    fn serialize_f32(self, value: f32) -> Result<Captured, FailureAtPath> {
        Ok(Captured::Value(Value::Float(super::number::shortest(value))))
    }

    fn serialize_char(self, value: char) -> Result<Captured, FailureAtPath> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<Captured, FailureAtPath> {
        self.text.clear();
        self.text.extend_from_slice(value.as_bytes());
        Ok(Captured::Text)
    }

    fn serialize_none(self) -> Result<Captured, FailureAtPath> {
        Ok(Captured::Value(Value::Null))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Captured, FailureAtPath> {
        self.serialize_newtype_struct("", value)
    }

    fn serialize_unit(self) -> Result<Captured, FailureAtPath> {
        Ok(Captured::Value(Value::Null))
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Captured, FailureAtPath> {
        Ok(Captured::Value(Value::Null))
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Captured, FailureAtPath> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Captured, FailureAtPath> {
        let is_private = private::is_ours(name) && name != private::VALUE;
        let wraps = self.wraps + 1;
        if wraps > WRAPS_MAX {
            return Err(FailureAtPath::mismatch("a key that is wrapped without end"));
        }
        let is_readable = self.is_readable && !is_private;
        let captured = value.serialize(Capture { text: self.text, is_readable, wraps })?;
        if is_private { self.private(name, captured) } else { Ok(captured) }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<Captured, FailureAtPath> {
        Err(FailureAtPath::compound())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq, FailureAtPath> {
        Err(FailureAtPath::compound())
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple, FailureAtPath> {
        Err(FailureAtPath::compound())
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleStruct, FailureAtPath> {
        Err(FailureAtPath::compound())
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, FailureAtPath> {
        Err(FailureAtPath::compound())
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, FailureAtPath> {
        Err(FailureAtPath::compound())
    }

    fn serialize_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStruct, FailureAtPath> {
        Err(FailureAtPath::compound())
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, FailureAtPath> {
        Err(FailureAtPath::compound())
    }

    fn is_human_readable(&self) -> bool {
        self.is_readable
    }
}
