//! Deserializers of the parts of arrays, maps and enums.

use super::error::FailureAtPath;
use super::read::Reader;
use super::special::Name;
use crate::view::{FieldKey, Fields, Items, View};
use serde::de::value::U8Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

/// The values of an array.
pub(super) struct ItemsOf<'de> {
    items: Items<'de>,
    depth: usize,
    len: usize,
    read: usize,
}

impl<'de> ItemsOf<'de> {
    pub(super) const fn new(items: Items<'de>, len: usize, depth: usize) -> Self {
        Self { items, depth, len, read: 0 }
    }

    /// Refuses an array with values that were not read: a tuple would silently lose them.
    pub(super) fn finish(&self) -> Result<(), FailureAtPath> {
        if self.read == self.len {
            return Ok(());
        }
        Err(FailureAtPath::invalid_length(self.len, &format!("an array of {}", self.read).as_str()))
    }
}

impl<'de> SeqAccess<'de> for &mut ItemsOf<'de> {
    type Error = FailureAtPath;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FailureAtPath> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let value = seed.deserialize(Reader::new(item?, self.depth));
        let value = value.map_err(|failure| failure.within(self.read))?;
        self.read += 1;
        Ok(Some(value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.len - self.read)
    }
}

/// Bytes presented as an array of integers, which serde expects for a `Vec<u8>`.
pub(super) struct Bytes<'de>(std::slice::Iter<'de, u8>);

impl<'de> Bytes<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Self(bytes.iter())
    }
}

impl<'de> SeqAccess<'de> for Bytes<'de> {
    type Error = FailureAtPath;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FailureAtPath> {
        let Some(byte) = self.0.next() else { return Ok(None) };
        let byte: U8Deserializer<FailureAtPath> = byte.into_deserializer();
        seed.deserialize(byte).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The fields of a map.
pub(super) struct FieldsOf<'de> {
    fields: Fields<'de>,
    depth: usize,
    left: usize,
    /// The field whose value is read next.
    open: Option<(FieldKey<'de>, View<'de>)>,
}

impl<'de> FieldsOf<'de> {
    pub(super) const fn new(fields: Fields<'de>, len: usize, depth: usize) -> Self {
        Self { fields, depth, left: len, open: None }
    }

    /// Refuses a map with fields that were not read.
    pub(super) fn finish(&self) -> Result<(), FailureAtPath> {
        match self.left {
            0 => Ok(()),
            left => Err(FailureAtPath::mismatch(format_args!(
                "a map with {left} more fields than were read"
            ))),
        }
    }
}

#[cold]
fn step(key: &FieldKey<'_>) -> String {
    match key {
        FieldKey::Name(name) => (*name).to_owned(),
        FieldKey::Value(key) => match key.as_str() {
            Some(text) => text.to_owned(),
            None => key.to_string(),
        },
    }
}

impl<'de> MapAccess<'de> for &mut FieldsOf<'de> {
    type Error = FailureAtPath;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, FailureAtPath> {
        let Some(field) = self.fields.next() else { return Ok(None) };
        let (key, value) = field?;
        self.left -= 1;
        self.open = Some((key, value));
        let read = match key {
            FieldKey::Name(name) => seed.deserialize(Name(name)),
            FieldKey::Value(view) => match view.as_str() {
                Some(name) => seed.deserialize(Name(name)),
                None => seed.deserialize(Reader::new(view, self.depth)),
            },
        };
        read.map(Some).map_err(|failure| failure.within(step(&key)))
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, FailureAtPath> {
        let Some((key, value)) = self.open.take() else {
            return Err(FailureAtPath::mismatch("a value without a key"));
        };
        let read = seed.deserialize(Reader::new(value, self.depth));
        read.map_err(|failure| failure.within(step(&key)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// An enum: text is a variant without values, a map of one field is a variant with values.
pub(super) struct EnumOf<'de> {
    pub(super) variant: &'de str,
    pub(super) value: Option<Reader<'de>>,
}

impl<'de> EnumOf<'de> {
    pub(super) fn of_map(view: &View<'de>, depth: usize) -> Result<Self, FailureAtPath> {
        let mut fields = view.fields()?;
        match (fields.next().transpose()?, fields.next().transpose()?) {
            (Some((FieldKey::Name(variant), value)), None) => {
                Ok(Self { variant, value: Some(Reader::new(value, depth)) })
            }
            _ => Err(FailureAtPath::invalid_value(
                Unexpected::Map,
                &"a map of one field, the variant of an enum",
            )),
        }
    }

    fn read<T>(
        &self,
        read: impl FnOnce(Reader<'de>) -> Result<T, FailureAtPath>,
        expected: &str,
    ) -> Result<T, FailureAtPath> {
        match self.value {
            Some(value) => read(value).map_err(|failure| failure.within(self.variant)),
            None => Err(FailureAtPath::invalid_type(Unexpected::UnitVariant, &expected)),
        }
    }
}

impl<'de> EnumAccess<'de> for EnumOf<'de> {
    type Error = FailureAtPath;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), FailureAtPath> {
        Ok((seed.deserialize(Name(self.variant))?, self))
    }
}

impl<'de> VariantAccess<'de> for EnumOf<'de> {
    type Error = FailureAtPath;

    fn unit_variant(self) -> Result<(), FailureAtPath> {
        match self.value {
            Some(value) if !value.view.is_null() => {
                let failure = FailureAtPath::invalid_type(
                    Unexpected::Other("a value"),
                    &"null, for a variant without values",
                );
                Err(failure.within(self.variant))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, FailureAtPath> {
        self.read(|value| seed.deserialize(value), "newtype variant")
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        self.read(|value| value.deserialize_tuple(len, visitor), "tuple variant")
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FailureAtPath> {
        self.read(|value| value.deserialize_struct("", fields, visitor), "struct variant")
    }
}
