//! The types that serde lacks: numbers as literals, points in time, UUIDs, ObjectIds.

use super::error::FailureAtPath;
use super::private;
use crate::datetime::DateTime;
use crate::number::Width;
use serde::de::value::{
    BorrowedBytesDeserializer, BorrowedStrDeserializer, I64Deserializer, StringDeserializer,
    U32Deserializer,
};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, Unexpected,
    VariantAccess, Visitor,
};
use std::borrow::Cow;

pub(super) enum Special<'de> {
    Number(Cow<'de, str>),
    /// A number that is stored in a wider form than it needs.
    Wide(Cow<'de, str>, Width),
    DateTime(DateTime),
    Uuid(&'de [u8; 16]),
    ObjectId(&'de [u8; 12]),
}

/// The enum variants by which types of this crate receive them. No other value of a document is an
/// enum to these types.
pub(super) mod variant {
    pub(crate) const NUMBER: u32 = 0;
    pub(crate) const DATE_TIME: u32 = 1;
    pub(crate) const UUID: u32 = 2;
    pub(crate) const OBJECT_ID: u32 = 3;
    pub(crate) const LONG: u32 = 4;
    pub(crate) const DECIMAL: u32 = 5;
}

impl<'de> Special<'de> {
    fn read<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, FailureAtPath> {
        match self {
            Self::Number(Cow::Borrowed(text)) | Self::Wide(Cow::Borrowed(text), _) => {
                seed.deserialize(BorrowedStrDeserializer::new(text))
            }
            Self::Number(Cow::Owned(text)) | Self::Wide(Cow::Owned(text), _) => {
                seed.deserialize(StringDeserializer::new(text))
            }
            Self::DateTime(time) => seed.deserialize(I64Deserializer::new(time.as_micros())),
            Self::Uuid(bytes) => seed.deserialize(BorrowedBytesDeserializer::new(bytes)),
            Self::ObjectId(bytes) => seed.deserialize(BorrowedBytesDeserializer::new(bytes)),
        }
    }
}

impl<'de> EnumAccess<'de> for Special<'de> {
    type Error = FailureAtPath;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), FailureAtPath> {
        let variant: U32Deserializer<FailureAtPath> = match self {
            Self::Number(_) => variant::NUMBER,
            Self::Wide(_, Width::Long) => variant::LONG,
            Self::Wide(..) => variant::DECIMAL,
            Self::DateTime(_) => variant::DATE_TIME,
            Self::Uuid(_) => variant::UUID,
            Self::ObjectId(_) => variant::OBJECT_ID,
        }
        .into_deserializer();
        Ok((seed.deserialize(variant)?, self))
    }
}

impl<'de> VariantAccess<'de> for Special<'de> {
    type Error = FailureAtPath;

    fn unit_variant(self) -> Result<(), FailureAtPath> {
        Err(FailureAtPath::invalid_type(Unexpected::NewtypeVariant, &"a unit variant"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, FailureAtPath> {
        self.read(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        Err(FailureAtPath::invalid_type(Unexpected::NewtypeVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        Err(FailureAtPath::invalid_type(Unexpected::NewtypeVariant, &visitor))
    }
}

/// A map of one entry with a private key. Such maps carry special types through the buffer in which
/// serde keeps a value of yet unknown type; `serde_json` writes its numbers this way too.
pub(super) struct Buffered<'de> {
    special: Option<Special<'de>>,
    has_key: bool,
}

impl<'de> Buffered<'de> {
    pub(super) const fn new(special: Special<'de>) -> Self {
        Self { special: Some(special), has_key: true }
    }
}

impl<'de> MapAccess<'de> for Buffered<'de> {
    type Error = FailureAtPath;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, FailureAtPath> {
        if !std::mem::replace(&mut self.has_key, false) {
            return Ok(None);
        }
        let key = match self.special {
            Some(Special::DateTime(_)) => private::DATE_TIME,
            Some(Special::Uuid(_)) => private::UUID,
            Some(Special::ObjectId(_)) => private::OBJECT_ID,
            _ => private::JSON_NUMBER,
        };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, FailureAtPath> {
        match self.special.take() {
            Some(special) => special.read(seed),
            None => Err(FailureAtPath::mismatch("a value without a key")),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(1)
    }
}

/// The name of a field, read as a key of a struct or map.
pub(super) struct Name<'de>(pub(super) &'de str);

macro_rules! parsed {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        /// If a map has keys of this type, reads the key from its name.
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
            match self.0.parse::<$type>() {
                Ok(value) => visitor.$visit(value),
                Err(_other) => visitor.visit_borrowed_str(self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = FailureAtPath;

    parsed! {
        deserialize_bool visit_bool bool;
        deserialize_i8 visit_i64 i64;
        deserialize_i16 visit_i64 i64;
        deserialize_i32 visit_i64 i64;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u64 u64;
        deserialize_u16 visit_u64 u64;
        deserialize_u32 visit_u64 u64;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
    }

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        visitor.visit_some(BorrowedStrDeserializer::new(self.0))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        BorrowedStrDeserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}
