//! What the methods of a collection take: keys, ranges and documents in their forms.

use super::handle::Collection;
use super::stored::Stored;
use super::{decode, encode};
#[cfg(feature = "serde")]
use crate::args::As;
use crate::args::{Json, Key, KeyBound, KeyPrefix, NewValue};
use crate::scan::{Entries, Source};
use crate::sort_keys;
use flagstone_base::Result;
use flagstone_doc::{Document, Value};
use std::borrow::Cow;

impl<T: Into<Value>> Key<Collection> for T {
    type Bytes = Vec<u8>;

    fn key_bytes(self) -> Result<Vec<u8>> {
        sort_keys::of_primary(&self.into())
    }
}

impl<T: Into<Value>> KeyBound<Collection> for T {
    fn bound_bytes(self) -> Result<Vec<u8>> {
        sort_keys::of_primary(&self.into())
    }
}

impl<P: AsRef<str>> KeyPrefix<Collection> for P {
    fn prefix_bytes(self) -> Vec<u8> {
        sort_keys::of_text_prefix(self.as_ref())
    }
}

impl NewValue<Collection> for &Document {
    fn bytes_hint(&self) -> Option<usize> {
        Some(self.as_bytes().len())
    }

    fn value_bytes(&self, collection: &Collection) -> Result<Cow<'_, [u8]>> {
        encode::document(&collection.0, self)
    }
}

impl NewValue<Collection> for &Value {
    fn value_bytes(&self, collection: &Collection) -> Result<Cow<'_, [u8]>> {
        encode::value(&collection.0, self).map(Cow::Owned)
    }
}

impl NewValue<Collection> for Value {
    fn value_bytes(&self, collection: &Collection) -> Result<Cow<'_, [u8]>> {
        encode::value(&collection.0, self).map(Cow::Owned)
    }
}

impl<T: AsRef<[u8]>> NewValue<Collection> for Json<T> {
    fn bytes_hint(&self) -> Option<usize> {
        Some(self.0.as_ref().len())
    }

    fn value_bytes(&self, collection: &Collection) -> Result<Cow<'_, [u8]>> {
        encode::json(&collection.0, self.0.as_ref()).map(Cow::Owned)
    }
}

#[cfg(feature = "serde")]
impl<T: serde::Serialize> NewValue<Collection> for As<T> {
    fn value_bytes(&self, collection: &Collection) -> Result<Cow<'_, [u8]>> {
        encode::rust_value(&collection.0, &self.0).map(Cow::Owned)
    }
}

impl Entries for Collection {
    type Key = Value;
    type Value = Document;
    type Decoder = Stored;

    fn decode_key(stored: &Stored, source: &Source<'_>) -> Result<Value> {
        decode::primary_key(stored, source.key())
    }

    fn decode_value(stored: &Stored, source: &Source<'_>) -> Result<Document> {
        decode::document(stored, source.value())
    }
}
