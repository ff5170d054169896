//! Encodes values and views, and keeps its memory between documents.

use super::areas::Frame;
use super::builder::{Builder, Container};
use super::keys::{BuildError, Duplicates};
use super::memory::NONE;
use crate::depth::DEPTH_MAX;
use crate::layout::tag;
use crate::map::Map;
use crate::names::Names;
use crate::number::{LeastForm, Number, NumberLiteral, Width};
use crate::value::Value;
use crate::view::{FieldKey, View};
use flagstone_base::{Error, Result, key::VALUE_BYTES_MAX};

/// Writes values in the binary form. Reuse one encoder for many documents: it remembers their field
/// names and keeps its buffers, except those that a document of more than 1 MiB needed.
pub struct Encoder {
    pub(crate) builder: Builder,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// Creates an encoder that remembers no names yet.
    pub fn new() -> Self {
        Self { builder: Builder::new() }
    }

    /// Creates an encoder that defines no names. Names that the table lacks are stored in the
    /// document.
    pub(crate) fn of_known_names() -> Self {
        let mut builder = Builder::new();
        builder.keys.memory.defines = false;
        Self { builder }
    }

    #[cfg(test)]
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.builder.kept_bytes()
    }

    /// Appends `value` in the binary form. With `names`, fields are stored as ids of that table and
    /// new names are defined in it. Without `names`, the document is self-contained.
    ///
    /// Returns one more than the highest name id used, or 0 if none is used. The definitions of all
    /// ids below it must be logged before the document.
    ///
    /// # Errors
    /// InvalidInput if the value is nested deeper than [`DEPTH_MAX`] or its bytes exceed 512 MiB.
    /// Nothing is appended then.
    pub fn encode(
        &mut self,
        value: &Value,
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        self.builder.start(names);
        let root = match value {
            Value::Array(items) => {
                self.items(items, names, 1)?;
                Some(Container::Array)
            }
            Value::Map(map) => Some(self.entries(map, names, NONE, 1)?),
            scalar => {
                self.put(scalar, names, NONE, 0)?;
                None
            }
        };
        self.finish(root, out)
    }

    /// Appends the value of `view` in the binary form, with field names as ids of `names` or stored
    /// inside. Use it to make a stored document self-contained, and the reverse.
    ///
    /// # Errors
    /// The errors of [`Encoder::encode`]; Corruption if the bytes of the view are not a valid
    /// document.
    pub fn encode_view(
        &mut self,
        view: &View<'_>,
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        self.builder.start(names);
        let root = if view.is_array() {
            self.view_items(view, names, 1)?;
            Some(Container::Array)
        } else if view.is_map() {
            Some(self.view_entries(view, names, 1)?)
        } else {
            self.put_view(view, names, 0)?;
            None
        };
        self.finish(root, out)
    }

    pub(crate) fn finish(&mut self, root: Option<Container>, out: &mut Vec<u8>) -> Result<u32> {
        let start = out.len();
        self.builder.finish(root, out).map_err(|error| {
            out.truncate(start);
            refused(error)
        })
    }

    fn items(&mut self, items: &[Value], names: Option<&Names>, depth: usize) -> Result<()> {
        check_depth(depth)?;
        items.iter().try_for_each(|item| self.put(item, names, NONE, depth))
    }

    pub(crate) fn entries(
        &mut self,
        map: &Map,
        names: Option<&Names>,
        parent: u32,
        depth: usize,
    ) -> Result<Container> {
        check_depth(depth)?;
        if !map.has_only_names() {
            for (key, value) in map.sorted() {
                self.put(key, names, NONE, depth)?;
                self.put(value, names, NONE, depth)?;
            }
            return Ok(Container::Pairs);
        }
        let mut previous = NONE;
        for (key, value) in map {
            let slot = self.name(key.as_str().unwrap_or_default(), names, parent, previous);
            self.put(value, names, slot, depth)?;
            previous = slot;
        }
        Ok(Container::Names(Duplicates::Last))
    }

    #[inline]
    pub(crate) fn name(
        &mut self,
        name: &str,
        names: Option<&Names>,
        parent: u32,
        previous: u32,
    ) -> u32 {
        let memory = &mut self.builder.keys.memory;
        let mut slot = memory.likely(parent, previous);
        if slot == NONE || memory.name(slot) != name.as_bytes() {
            slot = memory.slot(name.as_bytes(), names);
            memory.learn(parent, previous, slot);
        }
        self.builder.keys.slots.push(slot);
        slot
    }

    pub(crate) fn put(
        &mut self,
        value: &Value,
        names: Option<&Names>,
        parent: u32,
        depth: usize,
    ) -> Result<()> {
        let builder = &mut self.builder;
        match value {
            Value::Null => builder.tag(tag::NULL),
            Value::Bool(false) => builder.tag(tag::FALSE),
            Value::Bool(true) => builder.tag(tag::TRUE),
            Value::Int(int) => builder.int(*int),
            Value::Number(number) => put_number(builder, number),
            Value::Float(float) => builder.fixed(tag::FLOAT, &float.to_le_bytes()),
            Value::Text(text) => builder.text(text.as_bytes()),
            Value::Bytes(bytes) => builder.bytes(bytes),
            Value::DateTime(time) => {
                builder.fixed(tag::DATE_TIME, &time.as_micros().to_le_bytes());
            }
            Value::Uuid(bytes) => builder.fixed(tag::UUID, bytes),
            Value::ObjectId(id) => builder.fixed(tag::OBJECT_ID, id.as_bytes()),
            Value::Array(items) => {
                let frame = builder.begin();
                self.items(items, names, depth + 1)?;
                self.builder.end(frame, Container::Array).map_err(refused)?;
            }
            Value::Map(map) => {
                let frame = builder.begin();
                let container = self.entries(map, names, parent, depth + 1)?;
                self.builder.end(frame, container).map_err(refused)?;
            }
        }
        self.check_size()
    }

    fn view_items(&mut self, view: &View<'_>, names: Option<&Names>, depth: usize) -> Result<()> {
        check_depth(depth)?;
        for item in view.items().map_err(malformed)? {
            self.put_view(&item.map_err(malformed)?, names, depth)?;
        }
        Ok(())
    }

    fn view_entries(
        &mut self,
        view: &View<'_>,
        names: Option<&Names>,
        depth: usize,
    ) -> Result<Container> {
        check_depth(depth)?;
        let mut container = Container::Names(Duplicates::Last);
        let mut previous = NONE;
        for field in view.fields().map_err(malformed)? {
            let (key, value) = field.map_err(malformed)?;
            match key {
                FieldKey::Name(name) => previous = self.name(name, names, NONE, previous),
                FieldKey::Value(key) => {
                    container = Container::Pairs;
                    self.put_view(&key, names, depth)?;
                }
            }
            self.put_view(&value, names, depth)?;
        }
        Ok(container)
    }

    /// Appends a value in the document that is being built.
    pub(crate) fn put_view(
        &mut self,
        view: &View<'_>,
        names: Option<&Names>,
        depth: usize,
    ) -> Result<()> {
        let frame = self.builder.begin();
        if view.is_array() {
            self.view_items(view, names, depth + 1)?;
            self.builder.end(frame, Container::Array).map_err(refused)?;
        } else if view.is_map() {
            let container = self.view_entries(view, names, depth + 1)?;
            self.builder.end(frame, container).map_err(refused)?;
        } else {
            match view.raw_scalar() {
                (tag, payload) if tag::is_in_heap(tag) => self.builder.in_heap(tag, payload),
                (tag, payload) => self.builder.fixed(tag, payload),
            }
        }
        self.check_size()
    }

    /// Copies an array or a map from a document that uses the same names table.
    pub(crate) fn copy(&mut self, view: &View<'_>, names: Option<&Names>) -> Result<()> {
        let (form, payload) = view.raw_container();
        self.builder.copied(view.is_array(), form, payload, names).map_err(refused)?;
        self.check_size()
    }

    /// Ends a container of the document that is being built.
    pub(crate) fn end(&mut self, frame: Frame, container: Container) -> Result<()> {
        self.builder.end(frame, container).map_err(refused)?;
        self.check_size()
    }

    /// Refuses a document that is already too large, before the rest of it takes memory.
    pub(super) fn check_size(&self) -> Result<()> {
        let heap = self.builder.heap_bytes();
        if heap > VALUE_BYTES_MAX { Err(refused(BuildError::TooLarge)) } else { Ok(()) }
    }
}

pub(crate) fn check_depth(depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(Error::invalid(format!(
            "a value is nested deeper than {DEPTH_MAX} arrays and maps"
        )));
    }
    Ok(())
}

fn put_number(builder: &mut Builder, number: &Number) {
    let text = number.as_str();
    match number.width() {
        Width::Least => {
            if let Ok(literal) = NumberLiteral::scan(text.as_bytes()) {
                return put_literal(builder, &literal, text.as_bytes());
            }
        }
        Width::Long => {
            if let Ok(int) = text.parse() {
                return builder.long(int);
            }
        }
        Width::Literal => {}
    }
    builder.literal(text.as_bytes());
}

/// Appends a number in the smallest form from which its literal `text` can be restored.
pub(crate) fn put_literal(builder: &mut Builder, literal: &NumberLiteral<'_>, text: &[u8]) {
    match literal.least_form() {
        LeastForm::Int(int) => builder.int(int),
        LeastForm::U64(int) => builder.fixed(tag::U64, &int.to_le_bytes()),
        LeastForm::Decimal(coefficient, scale) => builder.decimal(coefficient, scale),
        LeastForm::Literal => builder.literal(text),
    }
}

pub(crate) fn malformed(malformed: flagstone_base::Malformed) -> Error {
    malformed.in_file("a document", 0)
}

pub(super) fn refused(error: BuildError) -> Error {
    match error {
        BuildError::TooLarge => {
            Error::invalid(format!("a document is larger than {VALUE_BYTES_MAX} bytes"))
        }
        BuildError::Duplicate { at } => Error::invalid(format!("key {at} comes twice")),
    }
}
