//! Writes Rust values in the binary form: a serde serializer over the document builder.

use super::compound::{ArraySerializer, MapSerializer, Outer, StructSerializer};
use super::error::FailureAtPath;
use super::key::{Capture, Captured};
use super::number::shortest;
use super::private::{self, WRAPS_MAX};
use crate::depth::DEPTH_MAX;
use crate::encode::{
    BuildError, Builder, Container, Duplicates, Encoder, Frame, NONE, put_literal,
};
use crate::layout::tag;
use crate::names::Names;
use crate::number::NumberLiteral;
use crate::value::Value;
use flagstone_base::key::VALUE_BYTES_MAX;
use serde::Serialize;
use serde::ser::Serializer;
use std::fmt::{Display, Write};

/// The state of a document while it is written.
pub(super) struct WriteState<'a> {
    pub(super) encoder: &'a mut Encoder,
    pub(super) names: Option<&'a Names>,
    /// The text of the last captured key.
    pub(super) text: Vec<u8>,
    /// The kind of the root once it is known; `None` for a scalar.
    pub(super) root: Option<Container>,
}

/// The destination of a value.
#[derive(Clone, Copy)]
pub(super) struct ValueTarget {
    /// The slot of the name whose value this is.
    pub(super) parent: u32,
    /// The number of enclosing arrays and maps.
    pub(super) depth: usize,
    /// The number of newtype structs and options directly around the value.
    pub(super) wraps: u16,
    /// Whether the value is a document value: its names are fields, although serde calls them map
    /// keys.
    pub(super) is_value: bool,
}

impl ValueTarget {
    pub(super) const ROOT: Self = Self { parent: NONE, depth: 0, wraps: 0, is_value: false };

    /// Returns the place of a value in the container at this place, below the name `parent`.
    pub(super) const fn inside(self, parent: u32) -> Self {
        Self { parent, depth: self.depth + 1, wraps: 0, is_value: false }
    }
}

impl<'a> WriteState<'a> {
    pub(super) const fn builder(&mut self) -> &mut Builder {
        &mut self.encoder.builder
    }

    /// Opens the container at `place`.
    pub(super) fn open(&self, place: ValueTarget) -> Result<Frame, FailureAtPath> {
        if place.depth >= DEPTH_MAX {
            return Err(FailureAtPath::mismatch(format_args!(
                "nested deeper than {DEPTH_MAX} arrays and maps"
            )));
        }
        Ok(self.encoder.builder.begin())
    }

    /// Closes the container at `place`. A root is only recorded; finishing the document ends it.
    pub(super) fn close(
        &mut self,
        frame: Frame,
        place: ValueTarget,
        container: Container,
    ) -> Result<(), FailureAtPath> {
        if place.depth == 0 {
            self.root = Some(container);
            return Ok(());
        }
        let ended = self.builder().end(frame, container);
        ended.map_err(|error| self.refused(error))?;
        self.check_size()
    }

    /// Writes the name of a field and returns its slot.
    #[inline]
    pub(super) fn name(&mut self, name: &str, parent: u32, previous: u32) -> u32 {
        let slot = self.encoder.name(name, self.names, parent, previous);
        self.builder().keys.places.push(slot);
        slot
    }

    /// Converts an error of the builder. A duplicate key is reported as its slot, because here
    /// [`Builder`]'s `places` holds slots.
    #[cold]
    pub(super) fn refused(&self, error: BuildError) -> FailureAtPath {
        match error {
            BuildError::TooLarge => too_large(),
            BuildError::Duplicate { at } => {
                let name = String::from_utf8_lossy(self.encoder.builder.keys.memory.name(at));
                FailureAtPath::mismatch(format_args!("field {name:?} comes twice"))
            }
        }
    }

    /// Refuses a document that is already too large, before the rest of it takes memory.
    #[inline]
    pub(super) fn check_size(&self) -> Result<(), FailureAtPath> {
        if self.encoder.builder.heap_bytes() > VALUE_BYTES_MAX { Err(too_large()) } else { Ok(()) }
    }

    fn put_literal(&mut self, text: &[u8]) -> Result<(), FailureAtPath> {
        let literal = NumberLiteral::whole(text).ok_or_else(|| {
            let text = String::from_utf8_lossy(text);
            FailureAtPath::mismatch(format_args!(
                "number {text:?}: expected a number by the JSON grammar"
            ))
        })?;
        put_literal(self.builder(), &literal, text);
        self.check_size()
    }

    /// Writes the number whose literal is [`WriteState::text`] in a wider form than it needs.
    #[cold]
    fn put_wide(&mut self, name: &str) -> Result<(), FailureAtPath> {
        let text = std::mem::take(&mut self.text);
        let int = str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
        let put = match int.filter(|_| name == private::LONG) {
            Some(int) => {
                self.builder().long(int);
                Ok(())
            }
            None if NumberLiteral::whole(&text).is_some() => {
                self.builder().literal(&text);
                self.check_size()
            }
            None => Err(FailureAtPath::mismatch("a number that is not one by the JSON grammar")),
        };
        self.text = text;
        put
    }

    /// Writes the content of the private newtype struct `name`.
    fn put_private<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
    ) -> Result<(), FailureAtPath> {
        let capture = Capture { text: &mut self.text, is_readable: false, wraps: 0 };
        match (name, value.serialize(capture)?) {
            (private::NUMBER | private::JSON_NUMBER, Captured::Text) => {
                let text = std::mem::take(&mut self.text);
                let put = self.put_literal(&text);
                self.text = text;
                put
            }
            (private::LONG | private::DECIMAL, Captured::Text) => self.put_wide(name),
            (private::DATE_TIME, Captured::Value(Value::Int(micros))) => {
                self.builder().fixed(tag::DATE_TIME, &micros.to_le_bytes());
                Ok(())
            }
            (private::UUID, Captured::Value(Value::Bytes(bytes))) if bytes.len() == 16 => {
                self.builder().fixed(tag::UUID, &bytes);
                Ok(())
            }
            (private::OBJECT_ID, Captured::Value(Value::Bytes(bytes))) if bytes.len() == 12 => {
                self.builder().fixed(tag::OBJECT_ID, &bytes);
                Ok(())
            }
            _ => Err(FailureAtPath::mismatch(format_args!("a value that {name} cannot hold"))),
        }
    }
}

#[cold]
fn too_large() -> FailureAtPath {
    FailureAtPath::mismatch(format_args!("a document is larger than {VALUE_BYTES_MAX} bytes"))
}

/// Serializes one value.
pub(super) struct Put<'r, 'a> {
    pub(super) run: &'r mut WriteState<'a>,
    pub(super) place: ValueTarget,
}

impl<'r, 'a> Put<'r, 'a> {
    fn tag(self, tag: u8) -> Result<(), FailureAtPath> {
        self.run.builder().tag(tag);
        Ok(())
    }

    fn int(self, value: i64) -> Result<(), FailureAtPath> {
        self.run.builder().int(value);
        Ok(())
    }

    fn long(self, value: impl Display) -> Result<(), FailureAtPath> {
        self.run.put_literal(value.to_string().as_bytes())
    }

    /// Opens the map of one field that holds an enum variant with values, and writes its name.
    fn variant(self, variant: &'static str) -> Result<(Put<'r, 'a>, Outer), FailureAtPath> {
        let Self { run, place } = self;
        let frame = run.open(place)?;
        let slot = run.name(variant, place.parent, NONE);
        Ok((Put { run, place: place.inside(slot) }, Outer { frame, place }))
    }

    fn items(self, outer: Option<Outer>) -> Result<ArraySerializer<'r, 'a>, FailureAtPath> {
        let frame = self.run.open(self.place)?;
        Ok(ArraySerializer { run: self.run, frame, place: self.place, outer, index: 0 })
    }

    fn parts(self, outer: Option<Outer>) -> Result<StructSerializer<'r, 'a>, FailureAtPath> {
        let frame = self.run.open(self.place)?;
        let (run, place) = (self.run, self.place);
        Ok(StructSerializer { run, frame, place, outer, previous: NONE, private: None })
    }
}

impl<'r, 'a> Serializer for Put<'r, 'a> {
    type Ok = ();
    type Error = FailureAtPath;
    type SerializeSeq = ArraySerializer<'r, 'a>;
    type SerializeTuple = ArraySerializer<'r, 'a>;
    type SerializeTupleStruct = ArraySerializer<'r, 'a>;
    type SerializeTupleVariant = ArraySerializer<'r, 'a>;
    type SerializeMap = MapSerializer<'r, 'a>;
    type SerializeStruct = StructSerializer<'r, 'a>;
    type SerializeStructVariant = StructSerializer<'r, 'a>;

    fn serialize_bool(self, value: bool) -> Result<(), FailureAtPath> {
        self.tag(if value { tag::TRUE } else { tag::FALSE })
    }

    fn serialize_i8(self, value: i8) -> Result<(), FailureAtPath> {
        self.int(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), FailureAtPath> {
        self.int(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), FailureAtPath> {
        self.int(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), FailureAtPath> {
        self.int(value)
    }

    fn serialize_i128(self, value: i128) -> Result<(), FailureAtPath> {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            Err(_beyond) => self.long(value),
        }
    }

    fn serialize_u8(self, value: u8) -> Result<(), FailureAtPath> {
        self.int(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), FailureAtPath> {
        self.int(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), FailureAtPath> {
        self.int(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), FailureAtPath> {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            Err(_beyond) => {
                self.run.builder().fixed(tag::U64, &value.to_le_bytes());
                Ok(())
            }
        }
    }

    fn serialize_u128(self, value: u128) -> Result<(), FailureAtPath> {
        match u64::try_from(value) {
            Ok(value) => self.serialize_u64(value),
            Err(_beyond) => self.long(value),
        }
    }

    fn serialize_f32(self, value: f32) -> Result<(), FailureAtPath> {
        self.serialize_f64(shortest(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), FailureAtPath> {
        self.run.builder().fixed(tag::FLOAT, &value.to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), FailureAtPath> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), FailureAtPath> {
        self.run.builder().text(value.as_bytes());
        self.run.check_size()
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), FailureAtPath> {
        self.run.builder().bytes(value);
        self.run.check_size()
    }

    fn serialize_none(self) -> Result<(), FailureAtPath> {
        self.tag(tag::NULL)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), FailureAtPath> {
        self.serialize_newtype_struct("", value)
    }

    fn serialize_unit(self) -> Result<(), FailureAtPath> {
        self.tag(tag::NULL)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), FailureAtPath> {
        self.tag(tag::NULL)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), FailureAtPath> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), FailureAtPath> {
        let Self { run, mut place } = self;
        place.is_value = name == private::VALUE;
        if private::is_ours(name) && !place.is_value {
            return run.put_private(name, value);
        }
        place.wraps += 1;
        if place.wraps > WRAPS_MAX {
            return Err(FailureAtPath::mismatch("a value that is wrapped without end"));
        }
        value.serialize(Put { run, place })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), FailureAtPath> {
        let (Put { run, place }, outer) = self.variant(variant)?;
        let put = value.serialize(Put { run: &mut *run, place });
        put.map_err(|failure| failure.within(variant))?;
        run.close(outer.frame, outer.place, Container::Names(Duplicates::Error))
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<ArraySerializer<'r, 'a>, FailureAtPath> {
        self.items(None)
    }

    fn serialize_tuple(self, _len: usize) -> Result<ArraySerializer<'r, 'a>, FailureAtPath> {
        self.items(None)
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<ArraySerializer<'r, 'a>, FailureAtPath> {
        self.items(None)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<ArraySerializer<'r, 'a>, FailureAtPath> {
        let (put, outer) = self.variant(variant)?;
        put.items(Some(outer))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<MapSerializer<'r, 'a>, FailureAtPath> {
        let frame = self.run.open(self.place)?;
        // Serde gives no length for a struct with flattened parts, but gives one for each map.
        let are_fields = self.place.is_value || len.is_none();
        Ok(MapSerializer::new(self.run, frame, self.place, are_fields))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _len: usize,
    ) -> Result<StructSerializer<'r, 'a>, FailureAtPath> {
        match name {
            private::JSON_NUMBER => {
                let Self { run, place } = self;
                let frame = run.encoder.builder.begin();
                let private = Some(private::JSON_NUMBER);
                Ok(StructSerializer { run, frame, place, outer: None, previous: NONE, private })
            }
            private::JSON_TEXT => Err(FailureAtPath::mismatch("JSON text that is not parsed")),
            _ => self.parts(None),
        }
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<StructSerializer<'r, 'a>, FailureAtPath> {
        let (put, outer) = self.variant(variant)?;
        put.parts(Some(outer))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), FailureAtPath> {
        let mut text = String::from_utf8(std::mem::take(&mut self.run.text)).unwrap_or_default();
        text.clear();
        write!(text, "{value}").map_err(FailureAtPath::mismatch)?;
        self.run.builder().text(text.as_bytes());
        self.run.text = text.into_bytes();
        self.run.check_size()
    }
}

impl StructSerializer<'_, '_> {
    /// Writes the number in the single field of a private struct.
    #[cold]
    pub(super) fn private<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
    ) -> Result<(), FailureAtPath> {
        self.run.put_private(name, value)
    }
}
