//! Reads documents as Rust values: a serde deserializer over a view. It lends text and bytes, and
//! decodes only what the type asks for.

use super::error::FailureAtPath;
use super::number::{self, Integer};
use super::parts::{Bytes, EnumOf, FieldsOf, ItemsOf};
use super::private::{self, WRAPS_MAX};
use super::special::{Buffered, Special};
use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::number::Width;
use crate::uuid::UuidText;
use crate::view::{StoredNumber, View};
use serde::de::{Deserializer, Error as _, Unexpected, Visitor};

/// Deserializes one value.
#[derive(Clone, Copy)]
pub(super) struct Reader<'de> {
    pub(super) view: View<'de>,
    /// The number of enclosing arrays and maps.
    pub(super) depth: usize,
    /// The number of newtype structs and options directly around the value.
    wraps: u16,
    /// Whether the type that reads belongs to this crate. Such a type takes numbers as literals,
    /// and points in time, UUIDs and ObjectIds as they are.
    is_ours: bool,
}

impl<'de> Reader<'de> {
    pub(super) const fn new(view: View<'de>, depth: usize) -> Self {
        Self { view, depth, wraps: 0, is_ours: false }
    }

    /// Returns a reader of the same value inside one more newtype struct or option.
    fn wrapped(self) -> Result<Self, FailureAtPath> {
        if self.wraps == WRAPS_MAX {
            return Err(FailureAtPath::mismatch("a type that wraps itself without end"));
        }
        Ok(Self { wraps: self.wraps + 1, ..self })
    }

    /// Reports the type of the value where `visitor` expects another one.
    #[cold]
    fn mismatch<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        let view = &self.view;
        let found = if view.is_number() && view.as_small_int().is_none() {
            format!("number {view}")
        } else if view.as_datetime().is_some() {
            "a datetime".to_owned()
        } else if view.as_uuid().is_some() {
            "a uuid".to_owned()
        } else if view.as_object_id().is_some() {
            "an ObjectId".to_owned()
        } else {
            return self.deserialize_any(visitor);
        };
        Err(FailureAtPath::invalid_type(Unexpected::Other(&found), &visitor))
    }

    #[inline]
    fn integer<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        match number::integer(&self.view) {
            Some(Integer::I64(value)) => match u64::try_from(value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_negative) => visitor.visit_i64(value),
            },
            Some(Integer::U64(value)) => visitor.visit_u64(value),
            Some(Integer::I128(value)) => visitor.visit_i128(value),
            Some(Integer::U128(value)) => visitor.visit_u128(value),
            None => self.mismatch(visitor),
        }
    }

    /// Returns whether the number is stored as an infinite float; only then may it read as one.
    fn is_infinite(&self) -> bool {
        self.view.as_stored_float().is_some_and(f64::is_infinite)
    }

    fn array<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        let mut items = ItemsOf::new(self.view.items()?, self.view.len()?, self.inner()?);
        let value = visitor.visit_seq(&mut items)?;
        items.finish()?;
        Ok(value)
    }

    fn map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        let mut fields = FieldsOf::new(self.view.fields()?, self.view.len()?, self.inner()?);
        let value = visitor.visit_map(&mut fields)?;
        fields.finish()?;
        Ok(value)
    }

    /// Returns the depth of the values inside this array or map.
    fn inner(&self) -> Result<usize, FailureAtPath> {
        if self.depth == DEPTH_MAX {
            return Err(self.view.malformed(TOO_DEEP).into());
        }
        Ok(self.depth + 1)
    }

    fn text(&self) -> Result<Option<&'de str>, FailureAtPath> {
        if self.view.as_text_bytes().is_none() {
            return Ok(None);
        }
        let text = self.view.as_str();
        text.map(Some).ok_or_else(|| self.view.malformed("text in UTF-8").into())
    }

    /// Reads a number not stored as a 64-bit integer, a point in time, a UUID or an
    /// ObjectId.
    fn other<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        let view = &self.view;
        if let Some(value) = view.as_stored_u64() {
            return visitor.visit_u64(value);
        }
        if let Some(value) = view.as_stored_float() {
            return visitor.visit_f64(value);
        }
        let special = if let Some(time) = view.as_datetime() {
            Special::DateTime(time)
        } else if let Some(bytes) = view.as_uuid() {
            Special::Uuid(bytes)
        } else if let Some(bytes) = view.as_object_id_bytes() {
            Special::ObjectId(bytes)
        } else if let Some(literal) = number::literal(view)? {
            match number::equal_float(view, &literal) {
                Some(float) if !self.is_ours => return visitor.visit_f64(float),
                _ => match view.stored_number() {
                    Some(StoredNumber::Literal { is_wide: true, .. }) => {
                        Special::Wide(literal, Width::Literal)
                    }
                    _ => Special::Number(literal),
                },
            }
        } else {
            return Err(view.malformed("a tag that this version knows").into());
        };
        if self.is_ours {
            visitor.visit_enum(special)
        } else {
            visitor.visit_map(Buffered::new(special))
        }
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
            self.integer(visitor)
        }
    )*};
}

macro_rules! any {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
            self.mismatch(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = FailureAtPath;

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        if let Some(text) = self.text()? {
            return visitor.visit_borrowed_str(text);
        }
        let view = &self.view;
        if let Some(value) = view.as_small_int() {
            if self.is_ours && matches!(view.stored_number(), Some(StoredNumber::Long(_))) {
                return visitor.visit_enum(Special::Wide(value.to_string().into(), Width::Long));
            }
            return match u64::try_from(value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_negative) => visitor.visit_i64(value),
            };
        }
        if view.is_map() {
            return self.map(visitor);
        }
        if view.is_array() {
            return self.array(visitor);
        }
        if view.is_null() {
            return visitor.visit_unit();
        }
        if let Some(value) = view.as_bool() {
            return visitor.visit_bool(value);
        }
        match view.as_bytes() {
            Some(bytes) => visitor.visit_borrowed_bytes(bytes),
            None => self.other(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        match self.view.as_bool() {
            Some(value) => visitor.visit_bool(value),
            None => self.mismatch(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        match number::float(&self.view) {
            Some(value) if !value.is_infinite() || self.is_infinite() => visitor.visit_f64(value),
            _ => self.mismatch(visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        match number::float32(&self.view) {
            Some(value) if !value.is_infinite() || self.is_infinite() => visitor.visit_f32(value),
            _ => self.mismatch(visitor),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        if let Some(text) = self.text()? {
            return visitor.visit_borrowed_str(text);
        }
        if let Some(time) = self.view.as_datetime().filter(|time| time.has_rfc3339()) {
            return visitor.visit_string(time.to_string());
        }
        if let Some(id) = self.view.as_object_id() {
            return visitor.visit_string(id.to_string());
        }
        match self.view.as_uuid() {
            Some(bytes) => visitor.visit_string(UuidText(bytes).to_string()),
            None => self.mismatch(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        if let Some(bytes) = self.view.as_object_id_bytes() {
            return visitor.visit_borrowed_bytes(bytes);
        }
        match self.view.as_uuid() {
            Some(bytes) => visitor.visit_borrowed_bytes(bytes),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        if self.view.is_null() {
            return visitor.visit_none();
        }
        visitor.visit_some(self.wrapped()?)
    }

    any! { deserialize_unit }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        let is_ours = private::is_ours(name);
        visitor.visit_newtype_struct(Self { is_ours, ..self.wrapped()? })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FailureAtPath> {
        if self.view.is_array() {
            return self.array(visitor);
        }
        match self.view.as_bytes() {
            Some(bytes) => visitor.visit_seq(Bytes::new(bytes)),
            None => self.mismatch(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        // From longer bytes a tuple would silently take only the first ones.
        match self.view.as_bytes() {
            Some(bytes) if bytes.len() != len => {
                Err(FailureAtPath::invalid_length(bytes.len(), &visitor))
            }
            _ => self.deserialize_seq(visitor),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        self.deserialize_tuple(len, visitor)
    }

    any! { deserialize_map }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        if self.view.is_map() { self.map(visitor) } else { self.mismatch(visitor) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        if let Some(variant) = self.text()? {
            return visitor.visit_enum(EnumOf { variant, value: None });
        }
        if self.view.is_map() {
            return visitor.visit_enum(EnumOf::of_map(&self.view, self.inner()?)?);
        }
        self.mismatch(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        visitor.visit_unit()
    }

    /// Returns false to types of this crate. They detect a document by it, and read types from it
    /// that serde lacks.
    fn is_human_readable(&self) -> bool {
        !self.is_ours
    }
}
