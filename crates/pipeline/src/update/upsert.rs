//! The document that an upsert inserts.

use super::apply::Context;
use super::parse::Update;
use crate::error::{PipelineError, Result, code};
use flagstone::doc::{Map, ValueType};
use flagstone::{Filter, Value};

impl Update {
    /// Returns the document that an upsert inserts if no document matches `filter`: the values that
    /// the filter says to be equal, changed by the update. A replacement takes only the `_id` from
    /// the filter. The `_id` is the first field; there is none if neither gives one. A condition
    /// on the primary key is one on the `_id`.
    ///
    /// ```
    /// use flagstone::{Filter, doc};
    /// use flagstone_pipeline::update::{Context, Update};
    /// let filter = Filter::parse(r#"{"user":"ada","n":{"$gt":5},"at.city":"Rome"}"#).unwrap();
    /// let update = Update::parse(&doc!({"$inc": {"n": 1}, "$setOnInsert": {"_id": 7}}), &[])?;
    /// let document = update.upserted(&filter, &Context::default())?;
    /// assert_eq!(document, doc!({"_id": 7, "user": "ada", "at": {"city": "Rome"}, "n": 1}));
    /// # Ok::<(), flagstone_pipeline::PipelineError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Update::apply`]; also if the filter gives a field two values.
    pub fn upserted(&self, filter: &Filter, context: &Context) -> Result<Value> {
        first_id(self.upserted_fields(filter, context)?)
    }

    /// As [`Update::upserted`], with an `_id` of any type at any place.
    pub(super) fn upserted_fields(&self, filter: &Filter, context: &Context) -> Result<Value> {
        let mut document = Map::new();
        let mut taken: Vec<Vec<String>> = Vec::new();
        for (path, value) in filter.equalities() {
            let is_key = path.is_primary_key();
            let path = if is_key { vec!["_id".to_owned()] } else { path.names() };
            if self.is_replacement() && path.first().is_none_or(|name| name != "_id") {
                continue;
            }
            let overlaps =
                |other: &&Vec<String>| other.starts_with(&path) || path.starts_with(other);
            if let Some(other) = taken.iter().find(overlaps) {
                let text =
                    format!("expected one value for it, found one for {:?}", other.join("."));
                let place = format_args!("filter.{}", path.join("."));
                return Err(PipelineError::new(code::NOT_SINGLE_VALUE_FIELD, place, text));
            }
            put(&mut document, &path, value.clone());
            taken.push(path);
        }
        let mut document = Value::Map(document);
        let _is_changed = self.apply(&mut document, &Context { is_insert: true, ..*context })?;
        Ok(document)
    }
}

/// Sets the value at a path, which does not lead through values that are set already.
fn put(mut map: &mut Map, path: &[String], value: Value) {
    let Some((last, above)) = path.split_last() else { return };
    for name in above {
        if map.get(name).is_none() {
            map.insert(name, Value::object());
        }
        match map.get_mut(name) {
            Some(Value::Map(inner)) => map = inner,
            _ => return,
        }
    }
    map.insert(last, value);
}

/// Puts the `_id` first, and refuses one that can be no key.
fn first_id(document: Value) -> Result<Value> {
    let Value::Map(mut map) = document else { return Ok(document) };
    let Some(id) = map.remove("_id") else { return Ok(Value::Map(map)) };
    let is_pattern = id.get("$regularExpression").is_some();
    if id.value_type() == ValueType::Array || is_pattern {
        let text = format!("expected no array and no pattern, found {}", id.type_name());
        return Err(PipelineError::new(code::INVALID_ID_FIELD, "_id", text));
    }
    let mut out = Map::new();
    out.insert("_id", id);
    Ok(Value::Map(out.into_iter().chain(map).collect()))
}
