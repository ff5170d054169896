//! A whole document as users hold it: read in place, or taken apart to be changed.

use crate::encode::Encoder;
use crate::json::{JsonError, JsonParser, NoJson, append_json};
use crate::names::Names;
use crate::value::Value;
use crate::view::{View, validate};
use flagstone_base::{Malformed, Result, Slice};
use std::fmt;
use std::sync::Arc;

/// A document: its binary form, checked once, read in place. Cheap to clone.
///
/// It shares the names table it was written with and keeps that alive, so it outlives the database
/// it came from.
///
/// ```
/// use flagstone_doc::Document;
/// let document = Document::from_json(r#"{"author":"x","score":7,"price":1.10}"#)?;
/// assert_eq!(document.str("author"), "x");
/// assert_eq!(document.int("score") + 1, 8);
/// assert_eq!(document.to_json()?, r#"{"author":"x","score":7,"price":1.10}"#);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Document {
    bytes: Slice,
    names: Option<Arc<Names>>,
}

impl Document {
    /// The document in `bytes`, which is checked whole; `names` unless it is self-contained.
    ///
    /// # Errors
    /// Where the bytes are no document.
    pub fn from_bytes(
        bytes: impl Into<Slice>,
        names: Option<Arc<Names>>,
    ) -> Result<Self, Malformed> {
        let bytes = bytes.into();
        validate(&bytes, names.as_deref())?;
        Ok(Self { bytes, names })
    }

    /// The self-contained document that `json` writes.
    ///
    /// # Errors
    /// Where `json` is no JSON, or is beyond a limit of the default options.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, JsonError> {
        let mut bytes = Vec::new();
        JsonParser::default().parse(json.as_ref(), None, &mut bytes)?;
        Ok(Self { bytes: bytes.into(), names: None })
    }

    /// The self-contained document of `value`.
    ///
    /// # Errors
    /// InvalidInput when it is nested too deep or beyond 512 MiB.
    pub fn from_value(value: &Value) -> Result<Self> {
        let mut bytes = Vec::new();
        Encoder::new().encode(value, None, &mut bytes)?;
        Ok(Self { bytes: bytes.into(), names: None })
    }

    /// The document in bytes that an encoder has just made without a names table.
    #[cfg(feature = "serde")]
    pub(crate) fn self_contained_of(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), names: None }
    }

    /// The root, read in place.
    pub fn root(&self) -> View<'_> {
        // Checked when it was made, so the fallback is never taken.
        View::of(&self.bytes, self.names.as_deref()).unwrap_or(View::NULL)
    }

    /// What stands at a dotted path: `id`, `a.b`, `tags.0`. Nothing else is decoded.
    pub fn get(&self, path: &str) -> Option<View<'_>> {
        self.root().path(path).ok().flatten()
    }

    /// The integer at `path`; 0 when there is none. [`Document::get`] tells the difference.
    pub fn int(&self, path: &str) -> i64 {
        self.get(path).and_then(|view| view.as_i64()).unwrap_or(0)
    }

    /// The text at `path`; empty when there is none. [`Document::get`] tells the difference.
    pub fn str(&self, path: &str) -> &str {
        self.get(path).and_then(|view| view.as_str()).unwrap_or("")
    }

    /// The document as a value in memory.
    pub fn to_value(&self) -> Value {
        self.root().to_value().unwrap_or_default()
    }

    /// The document as JSON without spaces.
    ///
    /// # Errors
    /// When a part of it has no JSON form; the error names its path.
    pub fn to_json(&self) -> Result<String, NoJson> {
        let mut out = Vec::with_capacity(3 * self.bytes.len());
        append_json(&self.root(), &mut out)?;
        String::from_utf8(out)
            .map_err(|_not_utf8| NoJson::Malformed(Malformed { at: 0, expected: "text in UTF-8" }))
    }

    /// The document taken apart, to be changed.
    pub fn edit(&self) -> DocumentMut {
        DocumentMut::new(self.to_value())
    }

    /// Its binary form, as it is.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The table its names stand in, unless it is self-contained.
    pub fn names(&self) -> Option<&Arc<Names>> {
        self.names.as_ref()
    }

    /// The same document with its names inside.
    ///
    /// # Errors
    /// InvalidInput when it is beyond 512 MiB then.
    pub fn self_contained(&self) -> Result<Self> {
        if self.names.is_none() {
            return Ok(self.clone());
        }
        let mut bytes = Vec::with_capacity(2 * self.bytes.len());
        Encoder::new().encode_view(&self.root(), None, &mut bytes)?;
        Ok(Self { bytes: bytes.into(), names: None })
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.to_value() == other.to_value()
    }
}

impl Eq for Document {}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root())
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root())
    }
}

impl TryFrom<&Value> for Document {
    type Error = flagstone_base::Error;

    fn try_from(value: &Value) -> Result<Self> {
        Self::from_value(value)
    }
}

/// A document that is being changed: what the closure of an update gets.
///
/// ```
/// use flagstone_doc::Document;
/// let document = Document::from_json(r#"{"score":7}"#)?;
/// let mut edited = document.edit();
/// let d = &mut edited;
/// d.set("score", d.int("score") + 1)?;
/// d.set("stats.seen", true)?;
/// assert_eq!(edited.finish()?.to_json()?, r#"{"score":8,"stats":{"seen":true}}"#);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentMut {
    root: Value,
    is_changed: bool,
}

impl DocumentMut {
    /// A document with this root.
    pub const fn new(root: Value) -> Self {
        Self { root, is_changed: false }
    }

    /// What stands at a dotted path: `id`, `a.b`, `tags.0`.
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.root.path(path)
    }

    /// The integer at `path`; 0 when there is none.
    pub fn int(&self, path: &str) -> i64 {
        self.get(path).and_then(Value::as_i64).unwrap_or(0)
    }

    /// The text at `path`; empty when there is none.
    pub fn str(&self, path: &str) -> &str {
        self.get(path).and_then(Value::as_str).unwrap_or("")
    }

    /// Sets what stands at `path`; maps that are missing on the way are made.
    ///
    /// # Errors
    /// InvalidInput when the way leads through something that is neither map nor array, or beyond
    /// the end of an array, or has more than 512 steps; nothing is changed then.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> Result<()> {
        self.root.set(path, value)?;
        self.is_changed = true;
        Ok(())
    }

    /// Removes what stands at `path` and returns it; `None` when nothing does.
    pub fn remove(&mut self, path: &str) -> Option<Value> {
        let removed = self.root.remove(path);
        self.is_changed |= removed.is_some();
        removed
    }

    /// Whether anything was set or removed.
    pub const fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// The root as it is now.
    pub const fn value(&self) -> &Value {
        &self.root
    }

    /// The root, to be changed in any way.
    pub const fn value_mut(&mut self) -> &mut Value {
        self.is_changed = true;
        &mut self.root
    }

    /// The root.
    pub fn into_value(self) -> Value {
        self.root
    }

    /// The self-contained document of the root as it is now.
    ///
    /// # Errors
    /// InvalidInput when it is nested too deep or beyond 512 MiB.
    pub fn finish(&self) -> Result<Document> {
        Document::from_value(&self.root)
    }
}

impl fmt::Display for DocumentMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root)
    }
}
