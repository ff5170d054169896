//! Applies a projection to a stored document: copies what it keeps.

use super::spec::Projection;
use super::tree::{FieldSelection, FieldTree};
use crate::encode::{Container, Duplicates, Encoder, NONE, check_depth, forget_large, malformed};
use crate::json::{JsonMode, append_json_as};
use crate::map::Map;
use crate::names::Names;
use crate::value::Value;
use crate::view::{FieldKey, View};
use flagstone_base::{Malformed, Result};
use std::fmt;

/// Applies projections, and keeps memory between documents. It defines no names: names that the
/// table of a result lacks are stored in the result.
pub struct Projector {
    encoder: Encoder,
    bytes: Vec<u8>,
}

impl Default for Projector {
    fn default() -> Self {
        Self::new()
    }
}

impl Projector {
    /// Creates a projector.
    pub fn new() -> Self {
        Self { encoder: Encoder::of_known_names(), bytes: Vec::new() }
    }

    /// Appends the projected value of `root` in the binary form, with field names as ids of
    /// `names` or stored inside. A document that is no map or array is kept as it is.
    ///
    /// If `names` is the table of the document, arrays and maps that are kept whole are copied
    /// byte by byte. The return value is that of [`Encoder::encode`].
    ///
    /// # Errors
    /// The errors of [`Encoder::encode_view`].
    pub fn apply(
        &mut self,
        projection: &Projection,
        root: &View<'_>,
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        self.encoder.builder.start(names);
        let is_inclusion = projection.is_inclusion;
        let mut copy = Copy { encoder: &mut self.encoder, names, is_inclusion };
        let container = copy.root(root, &projection.tree)?;
        self.encoder.finish(container, out)
    }

    /// Appends the projected value of `root` as JSON without spaces.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn json(
        &mut self,
        projection: &Projection,
        root: &View<'_>,
        mode: JsonMode,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let names = root.names();
        let applied = self.apply(projection, root, names, &mut bytes);
        // A part of a document is no larger and no deeper than the document.
        let written = match applied {
            Ok(_) => View::of(&bytes, names),
            Err(_) => Err(root.malformed("a document that can be projected")),
        };
        let written = written.and_then(|view| append_json_as(&view, mode, out));
        forget_large(&mut bytes);
        self.bytes = bytes;
        written
    }
}

impl fmt::Debug for Projector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Projector")
    }
}

struct Copy<'e> {
    encoder: &'e mut Encoder,
    names: Option<&'e Names>,
    is_inclusion: bool,
}

impl Copy<'_> {
    /// Copies what is kept of a document, and returns its kind if it is an array or a map.
    fn root(&mut self, view: &View<'_>, level: &FieldTree) -> Result<Option<Container>> {
        if view.is_map() || view.is_array() {
            return self.inside(view, level, 1).map(Some);
        }
        self.whole(view, 0).map(|()| None)
    }

    /// Copies what is kept of the inside of an array or a map, and returns its kind.
    fn inside(&mut self, view: &View<'_>, level: &FieldTree, depth: usize) -> Result<Container> {
        check_depth(depth)?;
        if view.is_array() {
            for item in view.items().map_err(malformed)? {
                self.part(&item.map_err(malformed)?, level, depth)?;
            }
            return Ok(Container::Array);
        }
        if view.has_keys_of_any_type() {
            return self.pairs(view, level, depth);
        }
        let mut previous = NONE;
        for field in view.fields().map_err(malformed)? {
            let (FieldKey::Name(name), value) = field.map_err(malformed)? else { continue };
            let named = level.get(name);
            let is_kept = match named {
                Some(FieldSelection::Whole) => self.is_inclusion,
                Some(FieldSelection::Parts(_)) => {
                    !self.is_inclusion || value.is_map() || value.is_array()
                }
                None => !self.is_inclusion,
            };
            if !is_kept {
                continue;
            }
            previous = self.encoder.name(name, self.names, NONE, previous);
            match named {
                Some(FieldSelection::Parts(parts)) => self.part(&value, parts, depth)?,
                _ => self.whole(&value, depth)?,
            }
        }
        Ok(Container::Names(Duplicates::Last))
    }

    /// Copies what is kept of a value of which parts are named. It is in an array, or its name was
    /// copied. A scalar has no parts.
    fn part(&mut self, view: &View<'_>, level: &FieldTree, depth: usize) -> Result<()> {
        if view.is_map() || view.is_array() {
            let frame = self.encoder.builder.begin();
            let container = self.inside(view, level, depth + 1)?;
            return self.encoder.end(frame, container);
        }
        if self.is_inclusion { Ok(()) } else { self.whole(view, depth) }
    }

    fn whole(&mut self, view: &View<'_>, depth: usize) -> Result<()> {
        let is_same_table = match (self.names, view.names()) {
            (Some(names), Some(other)) => std::ptr::eq(names, other),
            (None, None) => true,
            _ => false,
        };
        if is_same_table && view.is_full_container() {
            return self.encoder.copy(view, self.names);
        }
        self.encoder.put_view(view, self.names, depth)
    }

    /// Copies what is kept of a map that has keys other than text. If none of these is kept, it
    /// becomes a map of names.
    fn pairs(&mut self, view: &View<'_>, level: &FieldTree, depth: usize) -> Result<Container> {
        let value = view.to_value().map_err(malformed)?;
        let Some(map) = value.as_map() else { return Ok(Container::Pairs) };
        let kept = projected(map, level, self.is_inclusion);
        self.encoder.entries(&kept, self.names, NONE, depth)
    }
}

/// Projects a map in memory.
fn projected(map: &Map, level: &FieldTree, is_inclusion: bool) -> Map {
    let part = |value: &Value, parts: &FieldTree| projected_value(value, parts, is_inclusion);
    let pair = |(key, value): &(Value, Value)| {
        let kept = match key.as_str().and_then(|name| level.get(name)) {
            Some(FieldSelection::Whole) => is_inclusion.then(|| value.clone()),
            Some(FieldSelection::Parts(parts)) => part(value, parts),
            None => (!is_inclusion).then(|| value.clone()),
        };
        kept.map(|value| (key.clone(), value))
    };
    Map::from_distinct(map.iter().filter_map(pair).collect())
}

fn projected_value(value: &Value, level: &FieldTree, is_inclusion: bool) -> Option<Value> {
    match value {
        Value::Map(map) => Some(Value::Map(projected(map, level, is_inclusion))),
        Value::Array(items) => {
            let kept = items.iter().filter_map(|item| projected_value(item, level, is_inclusion));
            Some(Value::Array(kept.collect()))
        }
        scalar => (!is_inclusion).then(|| scalar.clone()),
    }
}
