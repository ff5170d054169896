//! Values in the entries of indexes: sort keys, read in place.

use crate::collection::query::cover::CoveredField;
use crate::index::{EntryParts, Flags};
use flagstone_base::Malformed;
use flagstone_base::bytes::same;
use flagstone_doc::sort_key::{self, Direction, MISSING, NULL};
use flagstone_doc::{DateTime, Value, View};
use std::fmt;

/// What is known of one document.
#[derive(Debug)]
pub enum ValueRow<'a> {
    /// All of it, or its projection, and its primary key.
    Document(View<'a>, IndexedValue<'a>),
    /// The values at the paths that were asked for.
    Entry(EntryValues<'a>),
}

/// What an entry of an index says of its document.
#[derive(Clone, Copy)]
pub struct EntryValues<'a> {
    entry: EntryParts<'a>,
    places: &'a [CoveredField],
}

/// A value in an entry of an index. It equals that of the document, but a number may have another
/// text there: `1.10`, where this is `1.1`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IndexedValue<'a> {
    key: &'a [u8],
    direction: Direction,
}

impl<'a> EntryValues<'a> {
    #[inline]
    pub(in crate::collection::query) const fn new(
        entry: EntryParts<'a>,
        places: &'a [CoveredField],
    ) -> Self {
        Self { entry, places }
    }

    /// Returns the primary key of the document.
    #[inline]
    pub fn key(&self) -> IndexedValue<'a> {
        IndexedValue::of_key(self.entry.primary_key)
    }

    /// Returns the value at the path of this position among those that were asked for; a missing
    /// one beyond them.
    #[inline]
    pub fn get(&self, at: usize) -> IndexedValue<'a> {
        const NOTHING: &[u8] = &[MISSING];
        let (key, direction) = self.component(at).unwrap_or((NOTHING, Direction::Ascending));
        IndexedValue { key, direction }
    }

    /// Returns the sort key at the path of this position, in its direction.
    #[inline]
    pub(in crate::collection::query) fn component(
        &self,
        at: usize,
    ) -> Option<(&'a [u8], Direction)> {
        self.places.get(at).map(|place| place.of(&self.entry))
    }

    /// Returns whether all numbers of the entry have the text that they have in the document, as
    /// far as numbers have a text, and a zero its sign.
    #[inline]
    pub const fn is_faithful(&self) -> bool {
        !self.entry.flags.has(Flags::INEXACT)
    }
}

impl<'a> IndexedValue<'a> {
    #[inline]
    pub(in crate::collection::query) const fn of_key(key: &'a [u8]) -> Self {
        Self { key, direction: Direction::Ascending }
    }

    /// Returns the bytes of the value in the entry. Values of one path with the same bytes are
    /// equal.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.key
    }

    /// Returns whether [`IndexedValue::bytes`] are `bytes`. Compares without a library call.
    #[inline]
    pub fn has_bytes(&self, bytes: &[u8]) -> bool {
        same(self.key, bytes)
    }

    /// The first byte of the ascending sort key.
    #[inline]
    fn class(&self) -> u8 {
        let mask = if self.direction == Direction::Descending { 0xFF } else { 0 };
        self.key.first().map_or(MISSING, |class| class ^ mask)
    }

    /// Returns whether the value is null, or missing.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self.class(), MISSING | NULL)
    }

    /// Returns the integer, if the value is a number equal to one that fits `i64`.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        sort_key::as_int(self.key, self.direction)
    }

    /// Returns the boolean, if the value is one.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        sort_key::as_bool(self.class())
    }

    /// Returns the text, if the value is text. It is in the entry, or in `buffer`.
    ///
    /// # Errors
    /// If the bytes are no sort key, or not UTF-8.
    #[inline]
    pub fn as_text<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<Option<&'b str>, Malformed>
    where
        'a: 'b,
    {
        sort_key::as_text(self.key, self.direction, buffer)
    }

    /// Returns the point in time, if the value is one.
    pub fn as_datetime(&self) -> Option<DateTime> {
        sort_key::as_datetime(self.key, self.direction)
    }

    /// Returns whether the value is an array or a map.
    pub fn is_container(&self) -> bool {
        sort_key::is_container(self.class())
    }

    /// Returns the value; null if it is missing.
    ///
    /// # Errors
    /// If the bytes are no sort key.
    pub fn to_value(&self) -> Result<Value, Malformed> {
        if self.class() == MISSING {
            return Ok(Value::Null);
        }
        sort_key::decode(self.key, self.direction)
    }
}

impl fmt::Debug for EntryValues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.places.len()).map(|at| self.get(at))).finish()
    }
}

impl fmt::Debug for IndexedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_value() {
            Ok(value) => write!(f, "{value}"),
            Err(malformed) => write!(f, "{malformed}"),
        }
    }
}
