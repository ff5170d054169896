//! Serializers of arrays, structs and maps.

use super::error::FailureAtPath;
use super::key::{Capture, Captured};
use super::write::{Put, ValueTarget, WriteState};
use crate::encode::{Container, Duplicates, Frame, NONE, Scattered};
use crate::sort_key;
use crate::value::Value;
use flagstone_base::Decoder;
use flagstone_base::codec::put_varint;
use flagstone_base::sorted::sort_by;
use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use std::collections::HashSet;

/// The map of one field that encloses the values of an enum variant.
pub(super) struct Outer {
    pub(super) frame: Frame,
    pub(super) place: ValueTarget,
}

const FIELDS: Container = Container::Names(Duplicates::Error);

fn close_outer(run: &mut WriteState<'_>, outer: Option<Outer>) -> Result<(), FailureAtPath> {
    match outer {
        Some(outer) => run.close(outer.frame, outer.place, FIELDS),
        None => Ok(()),
    }
}

/// Serializes an array.
pub(super) struct ArraySerializer<'r, 'a> {
    pub(super) run: &'r mut WriteState<'a>,
    pub(super) frame: Frame,
    pub(super) place: ValueTarget,
    pub(super) outer: Option<Outer>,
    pub(super) index: usize,
}

impl ArraySerializer<'_, '_> {
    #[inline]
    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), FailureAtPath> {
        let place = self.place.inside(self.place.parent);
        let put = value.serialize(Put { run: &mut *self.run, place });
        put.map_err(|failure| failure.within(self.index))?;
        self.index += 1;
        Ok(())
    }

    fn finish(self) -> Result<(), FailureAtPath> {
        self.run.close(self.frame, self.place, Container::Array)?;
        close_outer(self.run, self.outer)
    }
}

macro_rules! items {
    ($($of:ident $put:ident;)*) => {$(
        impl $of for ArraySerializer<'_, '_> {
            type Ok = ();
            type Error = FailureAtPath;

            #[inline]
            fn $put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), FailureAtPath> {
                self.put(value)
            }

            fn end(self) -> Result<(), FailureAtPath> {
                self.finish()
            }
        }
    )*};
}

items! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

/// Serializes a struct.
pub(super) struct StructSerializer<'r, 'a> {
    pub(super) run: &'r mut WriteState<'a>,
    pub(super) frame: Frame,
    pub(super) place: ValueTarget,
    pub(super) outer: Option<Outer>,
    /// The slot of the last name.
    pub(super) previous: u32,
    /// The private name, if the struct is written as a scalar.
    pub(super) private: Option<&'static str>,
}

impl StructSerializer<'_, '_> {
    #[inline]
    fn put<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), FailureAtPath> {
        if let Some(private) = self.private {
            return self.private(private, value);
        }
        let slot = self.run.name(name, self.place.parent, self.previous);
        self.previous = slot;
        let put = value.serialize(Put { run: &mut *self.run, place: self.place.inside(slot) });
        put.map_err(|failure| failure.within(name))
    }

    fn finish(self) -> Result<(), FailureAtPath> {
        if self.private.is_none() {
            self.run.close(self.frame, self.place, FIELDS)?;
        }
        close_outer(self.run, self.outer)
    }
}

macro_rules! parts {
    ($($of:ident)*) => {$(
        impl $of for StructSerializer<'_, '_> {
            type Ok = ();
            type Error = FailureAtPath;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), FailureAtPath> {
                self.put(name, value)
            }

            fn end(self) -> Result<(), FailureAtPath> {
                self.finish()
            }
        }
    )*};
}

parts! { SerializeStruct SerializeStructVariant }

/// The form of the keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyForm {
    /// Fields; their names may enter the names table.
    Fields,
    /// Names stored in the document: the keys of a Rust map are data and would fill the table.
    Inline,
    /// Alternating keys and values: some key is not text.
    Pairs,
}

/// The beginning of a pair in each area of its map, and the sort key of its key.
struct Pair {
    key: Vec<u8>,
    at: Frame,
}

/// Serializes a map.
pub(super) struct MapSerializer<'r, 'a> {
    run: &'r mut WriteState<'a>,
    frame: Frame,
    place: ValueTarget,
    keys: KeyForm,
    previous: u32,
    inline_at: usize,
    pairs: Vec<Pair>,
    /// The offset of the last name among the inline names.
    last_at: usize,
    /// Whether a key was written and its value was not.
    awaits_value: bool,
}

impl<'r, 'a> MapSerializer<'r, 'a> {
    pub(super) fn new(
        run: &'r mut WriteState<'a>,
        frame: Frame,
        place: ValueTarget,
        are_fields: bool,
    ) -> Self {
        let inline_at = run.builder().inline.len();
        let keys = if are_fields { KeyForm::Fields } else { KeyForm::Inline };
        let (previous, pairs) = (NONE, Vec::new());
        let (last_at, awaits_value) = (inline_at, false);
        Self { run, frame, place, keys, previous, inline_at, pairs, last_at, awaits_value }
    }

    /// Writes the key in [`Run::text`].
    #[inline]
    fn text_key(&mut self) -> Result<(), FailureAtPath> {
        match self.keys {
            KeyForm::Fields => {
                let text = std::mem::take(&mut self.run.text);
                let name = std::str::from_utf8(&text).map_err(FailureAtPath::mismatch)?;
                self.previous = self.run.name(name, self.place.parent, self.previous);
                self.run.text = text;
                Ok(())
            }
            KeyForm::Inline => {
                let WriteState { encoder, text, .. } = &mut *self.run;
                self.last_at = encoder.builder.inline.len();
                put_varint(&mut encoder.builder.inline, text.len() as u64);
                encoder.builder.inline.extend_from_slice(text);
                Ok(())
            }
            KeyForm::Pairs => {
                let text = String::from_utf8_lossy(&self.run.text).into_owned();
                self.pair_key(&Value::Text(text))
            }
        }
    }

    /// Writes a key of any type.
    #[cold]
    fn pair_key(&mut self, key: &Value) -> Result<(), FailureAtPath> {
        if self.keys != KeyForm::Pairs {
            self.turn_to_pairs()?;
        }
        self.pairs.push(Pair { key: sort_key::of(key), at: self.run.encoder.builder.begin() });
        let (names, depth) = (self.run.names, self.place.depth + 1);
        let put = self.run.encoder.put(key, names, NONE, depth);
        put.map_err(FailureAtPath::mismatch)
    }

    /// Rewrites the keys, so far names, as values that precede their own values.
    #[cold]
    fn turn_to_pairs(&mut self) -> Result<(), FailureAtPath> {
        let keys = self.names()?;
        let are_fields = self.keys == KeyForm::Fields;
        let builder = self.run.builder();
        let values = Scattered::take(&mut builder.areas, &self.frame);
        if are_fields {
            builder.keys.slots.truncate(self.frame.keys);
            builder.keys.places.truncate(self.frame.keys);
        } else {
            builder.inline.truncate(self.inline_at);
        }
        self.keys = KeyForm::Pairs;
        for (i, key) in keys.into_iter().enumerate() {
            self.pair_key(&Value::Text(key))?;
            values.put(i, &mut self.run.builder().areas);
        }
        Ok(())
    }

    /// Returns the names written so far.
    fn names(&self) -> Result<Vec<String>, FailureAtPath> {
        let builder = &self.run.encoder.builder;
        if self.keys == KeyForm::Fields {
            let slots = builder.keys.slots[self.frame.keys..].iter();
            let name =
                |slot: &u32| String::from_utf8_lossy(builder.keys.memory.name(*slot)).into_owned();
            return Ok(slots.map(name).collect());
        }
        let mut names = Vec::new();
        let mut decoder = Decoder::new(&builder.inline[self.inline_at..]);
        while decoder.remaining() > 0 {
            names.push(decoder.text("a name")?.to_owned());
        }
        Ok(names)
    }

    /// Checks that the inline names are distinct.
    fn check_inline(&self) -> Result<(), FailureAtPath> {
        let names = &self.run.encoder.builder.inline[self.inline_at..];
        let mut decoder = Decoder::new(names);
        let mut last: Option<&[u8]> = None;
        while decoder.remaining() > 0 {
            let name = decoder.bytes("a name")?;
            if last.is_some_and(|last| last >= name) {
                // The names are not in order, but may still be distinct.
                let mut decoder = Decoder::new(names);
                let mut seen = HashSet::new();
                while decoder.remaining() > 0 {
                    let name = decoder.bytes("a name")?;
                    if !seen.insert(name) {
                        return Err(twice(&String::from_utf8_lossy(name)));
                    }
                }
                return Ok(());
            }
            last = Some(name);
        }
        Ok(())
    }

    /// Sorts the pairs by key.
    fn sort(&mut self) -> Result<(), FailureAtPath> {
        if self.pairs.is_sorted_by(|a, b| a.key < b.key) {
            return Ok(());
        }
        let starts: Vec<Frame> = self.pairs.iter().map(|pair| pair.at).collect();
        let mut order: Vec<usize> = (0..self.pairs.len()).collect();
        sort_by(&mut order, |a, b| self.pairs[*a].key.cmp(&self.pairs[*b].key));
        for two in order.windows(2) {
            if self.pairs[two[0]].key == self.pairs[two[1]].key {
                let key =
                    sort_key::decode(&self.pairs[two[0]].key, sort_key::Direction::Ascending)?;
                return Err(twice(&key));
            }
        }
        let builder = self.run.builder();
        let pairs = Scattered::take_groups(&mut builder.areas, &self.frame, &starts);
        for i in order {
            pairs.put(i, &mut builder.areas);
        }
        Ok(())
    }

    /// Returns the name of the last entry, for the path of an error.
    #[cold]
    fn step(&self) -> String {
        let builder = &self.run.encoder.builder;
        let name = match self.keys {
            KeyForm::Fields => builder.keys.memory.name(self.previous),
            KeyForm::Inline => {
                let mut decoder = Decoder::new(&builder.inline[self.last_at..]);
                decoder.bytes("a name").unwrap_or_default()
            }
            KeyForm::Pairs => {
                let key = self.pairs.last().map_or(&[][..], |pair| &pair.key);
                let key = sort_key::decode(key, sort_key::Direction::Ascending);
                return key.unwrap_or_default().to_string();
            }
        };
        String::from_utf8_lossy(name).into_owned()
    }
}

#[cold]
fn twice(key: &dyn std::fmt::Display) -> FailureAtPath {
    FailureAtPath::mismatch(format_args!("key {key} comes twice"))
}

impl SerializeMap for MapSerializer<'_, '_> {
    type Ok = ();
    type Error = FailureAtPath;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), FailureAtPath> {
        if std::mem::replace(&mut self.awaits_value, true) {
            return Err(FailureAtPath::mismatch("a key without a value"));
        }
        let capture = Capture { text: &mut self.run.text, is_readable: true, wraps: 0 };
        match key.serialize(capture) {
            Ok(Captured::Text) => self.text_key(),
            Ok(Captured::Value(value)) => self.pair_key(&value),
            Err(failure) if failure.is_compound() => {
                let value = Value::from_serialize(key).map_err(FailureAtPath::mismatch)?;
                self.pair_key(&value)
            }
            Err(failure) => Err(failure),
        }
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), FailureAtPath> {
        if !std::mem::replace(&mut self.awaits_value, false) {
            return Err(FailureAtPath::mismatch("a value without a key"));
        }
        let parent = if self.keys == KeyForm::Fields { self.previous } else { NONE };
        let put = value.serialize(Put { run: &mut *self.run, place: self.place.inside(parent) });
        put.map_err(|failure| failure.within(self.step()))
    }

    fn end(mut self) -> Result<(), FailureAtPath> {
        if self.awaits_value {
            return Err(FailureAtPath::mismatch("a key without a value"));
        }
        let container = match self.keys {
            KeyForm::Fields => FIELDS,
            KeyForm::Inline => {
                self.check_inline()?;
                Container::Inline { at: self.inline_at }
            }
            KeyForm::Pairs => {
                self.sort()?;
                Container::Pairs
            }
        };
        self.run.close(self.frame, self.place, container)
    }
}
