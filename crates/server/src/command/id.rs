//! Primary keys: drivers see them as the field `_id`.
//!
//! The field is taken out of a document that is stored, and comes first in one that is sent. It
//! stays in the stored document, too, if the key alone would come back as another type, such as
//! `1.0` or an int64 that fits 32 bits, and if it is a map, so that filters find its parts. A
//! field `_id` that is not the key, from a load by other means, is not sent.

use crate::bson::{BsonReader, BsonWriter, Element, elements, kind};
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{Map, ObjectId, ValueType};
use flagstone::internal::document::{encoded, sort_key};
use flagstone::internal::names;
use flagstone::{Collection, Document, Slice, Value, View};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the field.
pub(crate) const ID: &str = "_id";

/// Reads documents of drivers, and takes their keys out.
///
/// Every connection has one, on its stack: so it is a pointer, and takes no memory before it is
/// used.
#[derive(Default)]
pub(crate) struct Incoming(Option<Box<Readers>>);

#[derive(Default)]
struct Readers {
    reader: BsonReader,
    /// For documents of collections: a reader forgets its names when the table changes.
    of_collections: BsonReader,
    bytes: Vec<u8>,
}

impl Incoming {
    fn readers(&mut self) -> &mut Readers {
        self.0.get_or_insert_default()
    }

    /// Reads a document that is to be stored: its key, a new ObjectId if it has none, and the rest.
    pub(crate) fn document(&mut self, bson: &[u8]) -> Outcome<(Value, Document)> {
        self.document_with(bson, None)
    }

    /// As [`Incoming::document`], with the names of the collection into which it is inserted. Empty
    /// timestamps among its fields become the time.
    pub(crate) fn document_for(
        &mut self,
        bson: &[u8],
        collection: &Collection,
    ) -> Outcome<(Value, Document)> {
        self.document_with(bson, Some(collection))
    }

    fn document_with(
        &mut self,
        bson: &[u8],
        collection: Option<&Collection>,
    ) -> Outcome<(Value, Document)> {
        let (names, mut id) = (collection.and_then(names), None);
        for element in elements(bson)? {
            let element = element?;
            if element.name == ID {
                id = Some(element);
                break;
            }
        }
        let (key, without) = match &id {
            None => (Value::ObjectId(new_id()), None),
            Some(element) => {
                let (key, is_kept) = self.key(element)?;
                (key, (!is_kept).then(|| element.range.clone()))
            }
        };
        let Readers { reader, of_collections, bytes } = self.readers();
        let reader = if names.is_some() { of_collections } else { reader };
        bytes.clear();
        if collection.is_some() {
            reader.stamp(moment);
        }
        reader.read_without(bson, without.as_slice(), names.as_deref(), bytes)?;
        let document = encoded(Slice::copy_of(bytes), names);
        check_names(&document.root())?;
        Ok((key, document))
    }

    /// Reads any document.
    pub(crate) fn any(&mut self, bson: &[u8]) -> Outcome<Document> {
        self.any_without(bson, &[])
    }

    /// Reads any document, without the elements at these offsets.
    pub(crate) fn any_without(
        &mut self,
        bson: &[u8],
        without: &[std::ops::Range<usize>],
    ) -> Outcome<Document> {
        let Readers { reader, bytes, .. } = self.readers();
        bytes.clear();
        reader.read_without(bson, without, None, bytes)?;
        Ok(encoded(Slice::copy_of(bytes), None))
    }

    /// Reads a primary key, and says whether it is to be kept in the document as well.
    fn key(&mut self, element: &Element<'_>) -> Outcome<(Value, bool)> {
        match element.kind {
            kind::OBJECT_ID => {
                if let Some(bytes) = element.value.first_chunk() {
                    return Ok((Value::ObjectId(ObjectId::from_bytes(*bytes)), false));
                }
            }
            kind::INT32 => {
                if let Some(bytes) = element.value.first_chunk() {
                    return Ok((Value::from(i32::from_le_bytes(*bytes)), false));
                }
            }
            _ => {}
        }
        // As a document of its own.
        let mut alone = Vec::with_capacity(element.range.len() + 5);
        let len = i32::try_from(element.range.len() + 5).unwrap_or(i32::MAX);
        alone.extend_from_slice(&len.to_le_bytes());
        alone.push(element.kind);
        alone.extend_from_slice(ID.as_bytes());
        alone.push(0);
        alone.extend_from_slice(element.value);
        alone.push(0);
        let document = self.any(&alone)?;
        let Some(id) = document.root().get(ID)? else { return Ok((Value::Null, false)) };
        let key = id.to_value()?;
        check_key(&key)?;
        let is_kept = match element.kind {
            kind::STRING | kind::BOOL | kind::NULL => false,
            // Filters ask for parts of it.
            kind::DOCUMENT => true,
            _ => {
                let back = stored_again(&key)?;
                let document = Document::from_value(&with_id(&back, Map::default()))?;
                let mut sent = Vec::new();
                BsonWriter::new(&mut sent).document(&document.root())?;
                sent != alone
            }
        };
        Ok((key, is_kept))
    }
}

/// Returns a timestamp of this moment, of which no other has the increment.
fn moment() -> u64 {
    static INCREMENT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |since| since.as_secs());
    // 0 is that of an empty one.
    let increment = INCREMENT.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    seconds << 32 | u64::from(increment)
}

/// Replaces the empty timestamps among the fields of a document that replaces another one.
pub(crate) fn stamp(document: &mut Value) {
    const NAME: &str = "$timestamp";
    let Value::Map(fields) = document else { return };
    let is_zero = |map: &Map, name| map.get(name).and_then(Value::as_i64) == Some(0);
    let is_empty = |value: &Value| match value {
        Value::Map(form) if form.len() == 1 => match form.get(NAME) {
            Some(Value::Map(parts)) => is_zero(parts, "t") && is_zero(parts, "i"),
            _ => false,
        },
        _ => false,
    };
    let empty: Vec<Value> = fields
        .iter()
        .filter(|(name, value)| name.as_str() != Some(ID) && is_empty(value))
        .map(|(name, _)| name.clone())
        .collect();
    for name in empty {
        let bits = moment();
        let parts = [("t", bits >> 32), ("i", bits & 0xFFFF_FFFF)];
        let parts = parts.map(|(name, part)| (name, Value::from(part)));
        let form: Map = [(NAME, Value::Map(parts.into_iter().collect()))].into_iter().collect();
        fields.insert(name, Value::Map(form));
    }
}

/// Returns a new ObjectId of this moment.
pub(crate) fn new_id() -> ObjectId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = now.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
    ObjectId::new(flagstone::doc::DateTime::from_micros(micros))
}

/// Refuses what cannot be a primary key.
pub(crate) fn check_key(key: &Value) -> Outcome {
    let found = match key {
        Value::Array(_) => "an array",
        Value::Map(map) if map.get("$regularExpression").is_some() => "a regular expression",
        Value::Map(map) if map.get("$undefined").is_some() => "undefined",
        Value::Map(map) => {
            let bad = map.iter().find_map(|(name, _)| match name {
                Value::Text(name) if name.starts_with('$') => Some(name),
                _ => None,
            });
            let has = |form: &str| map.get(form).is_some();
            const FORMS: [&str; 7] =
                ["$timestamp", "$minKey", "$maxKey", "$binary", "$code", "$symbol", "$dbPointer"];
            let is_form = match map.len() {
                1 => FORMS.into_iter().any(has),
                2 => has("$code") && has("$scope"),
                _ => false,
            };
            if let (Some(name), false) = (bad, is_form) {
                let text = format!("_id fields may not contain '$'-prefixed fields: {name}");
                return Err(Failure::new(Code::DollarPrefixedFieldName, text));
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    let text = format!("the field '_id' cannot be {found}");
    Err(Failure::new(Code::InvalidIdField, text))
}

/// Refuses documents with fields that begin with `$`, other than those of references and of types
/// that are stored as maps.
fn check_names(root: &View<'_>) -> Outcome {
    for field in root.fields()? {
        if let (flagstone::doc::FieldKey::Name(name), _) = field?
            && name.starts_with('$')
        {
            let text = format!("the field {name:?} of a stored document begins with $");
            return Err(Failure::new(Code::DollarPrefixedFieldName, text));
        }
    }
    Ok(())
}

/// Returns the key as it comes back when only the key is stored.
fn stored_again(key: &Value) -> Outcome<Value> {
    let mut bytes = Vec::new();
    sort_key::encode(key, sort_key::Direction::Ascending, &mut bytes);
    Ok(sort_key::decode(&bytes, sort_key::Direction::Ascending)?)
}

/// Returns the document that drivers see, as a value.
pub(crate) fn with_id(key: &Value, document: Map) -> Value {
    let kept = document.get(ID).filter(|kept| is_key(kept, key)).cloned();
    Value::Map(id_first(kept.unwrap_or_else(|| key.clone()), document))
}

/// Returns a document with this `_id` as its first field.
pub(super) fn id_first(id: Value, document: Map) -> Map {
    let others = document.into_iter().filter(|(name, _)| name.as_str() != Some(ID));
    Map::from_distinct([(ID.into(), id)].into_iter().chain(others).collect())
}

fn is_key(value: &Value, key: &Value) -> bool {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    sort_key::encode(value, sort_key::Direction::Ascending, &mut one);
    sort_key::encode(key, sort_key::Direction::Ascending, &mut other);
    one == other
}

/// Appends a stored document as drivers see it, to the document that is open. `key` is its sort
/// key.
pub(crate) fn write_fields(out: &mut BsonWriter<'_>, key: &[u8], root: &View<'_>) -> Outcome {
    write_id(out, ID, key, root)?;
    write_without_id(out, root)
}

/// As [`write_fields`], without the `_id`.
pub(crate) fn write_without_id(out: &mut BsonWriter<'_>, root: &View<'_>) -> Outcome {
    Ok(out.fields(root, |name| name == ID)?)
}

/// Appends the `_id` of a stored document, of which `key` is the sort key, as the field `name`.
pub(super) fn write_id(
    out: &mut BsonWriter<'_>,
    name: &str,
    key: &[u8],
    root: &View<'_>,
) -> Outcome {
    let kept = root.get(ID)?;
    let is_kept = match &kept {
        Some(kept) => {
            let mut bytes = Vec::new();
            sort_key::encode(&kept.to_value()?, sort_key::Direction::Ascending, &mut bytes);
            bytes == key
        }
        None => false,
    };
    match kept.filter(|_| is_kept) {
        Some(kept) => Ok(out.value(name, &kept)?),
        None => write_key(out, name, key),
    }
}

/// Appends a primary key, given its sort key, as the field `name`.
pub(crate) fn write_key(out: &mut BsonWriter<'_>, name: &str, key: &[u8]) -> Outcome {
    match sort_key::decode(key, sort_key::Direction::Ascending)? {
        Value::ObjectId(id) => out.object_id(name, id)?,
        Value::Text(text) => out.text(name, &text)?,
        value => write_value(out, name, &value)?,
    }
    Ok(())
}

/// Appends a value as the field `name`.
pub(crate) fn write_value(out: &mut BsonWriter<'_>, name: &str, value: &Value) -> Outcome {
    if let Value::Null = value {
        return Ok(out.null(name)?);
    }
    let mut map = Map::default();
    map.insert(ID, value.clone());
    let document = Document::from_value(&Value::Map(map))?;
    match document.root().get(ID)? {
        Some(view) => Ok(out.value(name, &view)?),
        None => Ok(out.null(name)?),
    }
}

/// Returns whether a value of a filter can stand for one key.
pub(crate) fn is_scalar(value: &View<'_>) -> bool {
    !matches!(value.value_type(), ValueType::Map | ValueType::Array)
}

/// Returns a key as it is stored, whatever form of it was asked for: `1` for `1.0` and for the
/// int64 1, so that nothing takes that form over.
pub(crate) fn canonical(key: Value) -> Outcome<Value> {
    match key {
        Value::Int(_) | Value::Number(_) | Value::Float(_) => stored_again(&key),
        key => Ok(key),
    }
}

/// Returns the key that a filter asks for, if it asks for nothing else.
pub(crate) fn only_key(filter: &View<'_>) -> Outcome<Option<Value>> {
    let mut fields = filter.fields()?;
    let (Some(first), None) = (fields.next(), fields.next()) else { return Ok(None) };
    match first? {
        (flagstone::doc::FieldKey::Name(ID), value) if is_scalar(&value) => {
            canonical(value.to_value()?).map(Some)
        }
        _ => Ok(None),
    }
}

/// Returns a primary key, given its sort key, as messages show it.
pub(crate) fn shown_key(key: &[u8]) -> String {
    match sort_key::decode(key, sort_key::Direction::Ascending) {
        Ok(key) => key.to_string(),
        Err(_damaged) => key.escape_ascii().to_string(),
    }
}
/// Splits the document that drivers see into its key and what is stored. The second says whether
/// the key stays in it.
pub(crate) fn without_id(document: Value) -> Outcome<(Option<Value>, Value)> {
    let Value::Map(mut map) = document else {
        return Err(Failure::new(Code::BadValue, "a document is a map"));
    };
    let key = map.remove(ID);
    if let Some(key) = &key {
        check_key(key)?;
        if is_changed_by_storing(key)? {
            // First, as drivers send it.
            return Ok((Some(key.clone()), Value::Map(id_first(key.clone(), map))));
        }
    }
    Ok((key, Value::Map(map)))
}

fn is_changed_by_storing(key: &Value) -> Outcome<bool> {
    if matches!(key, Value::ObjectId(_) | Value::Text(_) | Value::Bool(_) | Value::Null) {
        return Ok(false);
    }
    if let Value::Map(_) = key {
        return Ok(true);
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (key, out) in [(key, &mut before), (&stored_again(key)?, &mut after)] {
        let document = Document::from_value(&with_id(key, Map::default()))?;
        BsonWriter::new(out).document(&document.root())?;
    }
    Ok(before != after)
}

/// Returns the sort key of a primary key.
pub(crate) fn key_bytes(key: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    sort_key::encode(key, sort_key::Direction::Ascending, &mut bytes);
    bytes
}

/// Returns a stored document as drivers see it.
pub(crate) fn shown(key: &Value, document: &Document) -> Outcome<Value> {
    match document.root().to_value()? {
        Value::Map(map) => Ok(with_id(key, map)),
        other => {
            let text = format!("document {key} is no map but {}", other.type_name());
            Err(Failure::new(Code::BadValue, text))
        }
    }
}
