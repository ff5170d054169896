//! JSON Merge Patch (RFC 7396): a document that is merged into another.

use crate::depth::DEPTH_MAX;
use crate::json::{JsonOptions, JsonParser};
use crate::map::Map;
use crate::value::Value;
use flagstone_base::{Error, Result};
use std::collections::HashMap;

/// A JSON Merge Patch by RFC 7396: its fields replace those of the same names, maps in maps are
/// merged, and null removes a field.
///
/// ```
/// use flagstone_doc::{MergePatch, doc};
/// let patch = MergePatch::parse(r#"{"author":{"mail":null,"city":"Oslo"},"tags":["new"]}"#)?;
/// let mut document = doc!({ "author": { "name": "x", "mail": "y" }, "tags": [1, 2] });
/// patch.apply_to(&mut document);
/// let expected = doc!({ "author": { "name": "x", "city": "Oslo" }, "tags": ["new"] });
/// assert_eq!(document, expected);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
///
/// Where there is no document it creates one if it is an upsert:
///
/// ```
/// use flagstone_doc::MergePatch;
/// let patch = MergePatch::parse(r#"{"city":"Oslo","mail":null}"#)?;
/// assert!(!patch.is_upsert());                                // nothing stays nothing
/// let patch = patch.upsert();                                 // nothing becomes {"city":"Oslo"}
/// assert!(patch.is_upsert() && patch.value().get("mail").is_some_and(|mail| mail.is_null()));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MergePatch {
    pub(in crate::patch) value: Value,
    upsert: bool,
}

impl MergePatch {
    /// Parses the text of a JSON Merge Patch, which is any JSON. Of fields with one name in one map
    /// the last one counts.
    ///
    /// # Errors
    /// InvalidInput with line and column if the text is not JSON.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self> {
        let options = JsonOptions::new().depth_max(DEPTH_MAX);
        let value = JsonParser::new(options).parse_value(text.as_ref());
        let value = value.map_err(|error| Error::from(error).context("JSON Merge Patch"))?;
        Ok(Self { value, upsert: false })
    }

    /// Creates a JSON Merge Patch from the value of its text.
    ///
    /// ```
    /// use flagstone_doc::{MergePatch, Value, doc};
    /// let patch = MergePatch::from_value(doc!({ "mail": null, "city": "Oslo" }))?;
    /// assert_eq!(patch.value().get("mail"), Some(&Value::Null));
    /// let mut user = doc!({ "mail": "a@b.c" });
    /// patch.apply_to(&mut user);
    /// assert_eq!(user, doc!({ "city": "Oslo" }));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if a map has a key that is not text, or maps nest deeper than [`DEPTH_MAX`].
    pub fn from_value(value: impl Into<Value>) -> Result<Self> {
        let value = value.into();
        check(&value, DEPTH_MAX)?;
        Ok(Self { value, upsert: false })
    }

    /// Makes the patch create a document where there is none: its own value without nulls in maps.
    #[must_use]
    pub const fn upsert(mut self) -> Self {
        self.upsert = true;
        self
    }

    /// Returns whether the patch creates a document where there is none.
    pub const fn is_upsert(&self) -> bool {
        self.upsert
    }

    /// Returns the value of the patch.
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// Merges the patch into a value in memory.
    pub fn apply_to(&self, target: &mut Value) {
        merge(target, &self.value);
    }
}

fn check(value: &Value, depth: usize) -> Result<()> {
    let Value::Map(map) = value else { return Ok(()) };
    if depth == 0 {
        let text = format!("a JSON Merge Patch is nested deeper than {DEPTH_MAX} maps");
        return Err(Error::invalid(text));
    }
    map.iter().try_for_each(|(key, value)| match key {
        Value::Text(_) => check(value, depth - 1),
        key => Err(Error::invalid(format!("a JSON Merge Patch with the key {key}: expected text"))),
    })
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Map(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !matches!(target, Value::Map(_)) {
        *target = Value::object();
    }
    let Value::Map(map) = target else { return };
    // A lookup in a map walks its pairs, so each map is walked once.
    let mut left: HashMap<&str, &Value> =
        fields.iter().filter_map(|(key, value)| Some((key.as_str()?, value))).collect();
    map.pairs_mut().retain_mut(|(key, inner)| {
        match key.as_str().and_then(|name| left.remove(name)) {
            None => true,
            Some(Value::Null) => false,
            Some(value) => {
                merge(inner, value);
                true
            }
        }
    });
    let is_new = |key: &Value| key.as_str().is_some_and(|name| left.contains_key(name));
    let new = fields.iter().filter(|(key, value)| !value.is_null() && is_new(key));
    map.pairs_mut().extend(new.map(|(key, value)| (key.clone(), without_nulls(value))));
}

/// Returns what merging `patch` into nothing gives.
pub(in crate::patch) fn without_nulls(patch: &Value) -> Value {
    let mut made = Value::Null;
    merge(&mut made, patch);
    made
}

/// Returns whether a patch of `fields` changes more than `most` fields.
pub(in crate::patch) fn has_more_fields(fields: &Map, most: usize) -> bool {
    fn count(fields: &Map, left: &mut usize) -> bool {
        fields.iter().all(|(_, value)| match value {
            Value::Map(inner) if !inner.is_empty() => count(inner, left),
            _ => {
                *left = left.saturating_sub(1);
                *left > 0
            }
        })
    }
    !count(fields, &mut most.saturating_add(1))
}
