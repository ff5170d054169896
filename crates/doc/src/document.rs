//! A whole document as users hold it: read in place, or decoded to be changed.

use crate::arithmetic::sum;
use crate::encode::{Encoder, malformed};
use crate::filter::Matcher;
use crate::json::{JsonError, JsonMode, JsonOptions, JsonParser, append_json_as};
use crate::jsonpath::{JsonPath, Node};
use crate::names::Names;
use crate::pointer::Pointer;
use crate::value::Value;
use crate::view::{View, validate};
use flagstone_base::{Error, Malformed, Result, Slice};
use std::fmt;
use std::sync::Arc;

/// A document in its binary form, validated once and read in place. Clones are cheap.
///
/// A document shares ownership of the names table it was written with, so it may outlive the
/// database it came from.
///
/// ```
/// use flagstone_doc::Document;
/// let document = Document::from_json(r#"{"author":"x","score":7,"price":1.10}"#)?;
/// assert_eq!(document.str("author"), Some("x"));
/// assert_eq!(document.int("score"), Some(7));
/// assert_eq!(document.int("author"), None);
/// assert_eq!(document.to_json()?, r#"{"author":"x","score":7,"price":1.10}"#);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Document {
    bytes: Slice,
    names: Option<Arc<Names>>,
}

impl Document {
    /// Creates a document from its binary form and validates all of it. `names` is the table of its
    /// field names; `None` if the document is self-contained.
    ///
    /// # Errors
    /// If the bytes are not a valid document.
    pub fn from_bytes(
        bytes: impl Into<Slice>,
        names: Option<Arc<Names>>,
    ) -> Result<Self, Malformed> {
        let bytes = bytes.into();
        validate(&bytes, names.as_deref())?;
        Ok(Self { bytes, names })
    }

    /// Parses JSON text into a self-contained document.
    ///
    /// # Errors
    /// If `json` is not valid JSON or exceeds a limit of the default [`JsonOptions`].
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, JsonError> {
        Self::from_json_with(json, JsonOptions::default())
    }

    /// As [`Document::from_json`], with options.
    ///
    /// ```
    /// use flagstone_doc::{DateTime, Document, JsonMode, JsonOptions};
    ///
    /// let text = r#"{"seen":{"$date":"2019-08-01T00:00:00Z"},"ratio":{"$numberDouble":"NaN"}}"#;
    /// let options = JsonOptions::new().mode(JsonMode::Extended);
    /// let document = Document::from_json_with(text, options)?;
    /// let seen = DateTime::from_micros(1_564_617_600_000_000);
    /// assert_eq!(document.get("seen").and_then(|seen| seen.as_datetime()), Some(seen));
    /// assert_eq!(document.to_json_as(JsonMode::Extended)?, text);
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `json` is not valid JSON or exceeds a limit of the options.
    pub fn from_json_with(json: impl AsRef<[u8]>, options: JsonOptions) -> Result<Self, JsonError> {
        let mut bytes = Vec::new();
        JsonParser::new(options).parse(json.as_ref(), None, &mut bytes)?;
        Ok(Self { bytes: bytes.into(), names: None })
    }

    /// Encodes a value as a self-contained document.
    ///
    /// # Errors
    /// InvalidInput if the value is nested too deep or its bytes exceed 512 MiB.
    pub fn from_value(value: &Value) -> Result<Self> {
        let mut bytes = Vec::new();
        Encoder::new().encode(value, None, &mut bytes)?;
        Ok(Self { bytes: bytes.into(), names: None })
    }

    /// Encodes a Rust value as a self-contained document.
    ///
    /// # Errors
    /// The errors of [`Encoder::encode_serialize`].
    #[cfg(feature = "serde")]
    pub fn from_serialize<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self> {
        let mut bytes = Vec::new();
        Encoder::new().encode_serialize(value, None, &mut bytes)?;
        Ok(Self { bytes: bytes.into(), names: None })
    }

    /// Returns a view of the whole document.
    pub fn root(&self) -> View<'_> {
        // The bytes were validated when the document was created: the fallback is never used.
        View::of(&self.bytes, self.names.as_deref()).unwrap_or(View::NULL)
    }

    /// Returns the value at a dotted path: `id`, `a.b`, `tags.0`. Decodes nothing else.
    pub fn get(&self, path: &str) -> Option<View<'_>> {
        self.root().path(path).ok().flatten()
    }

    /// Returns the integer at `path`: a number equal to an integer that fits `i64`, such as `7` or
    /// `7.0`. `None` if there is no value, or another one: `41.5` and `"41"` are no integers.
    /// [`Document::get`] tells what is there.
    pub fn int(&self, path: &str) -> Option<i64> {
        self.get(path)?.as_i64()
    }

    /// Returns the number at `path` as the nearest float. `None` if there is no value, or one that
    /// is no number.
    pub fn float(&self, path: &str) -> Option<f64> {
        self.get(path)?.as_f64()
    }

    /// Returns the text at `path`. `None` if there is no value, or one that is no text.
    pub fn str(&self, path: &str) -> Option<&str> {
        self.get(path)?.as_str()
    }

    /// Returns the boolean at `path`. `None` if there is no value, or another one: nothing else is
    /// taken for true or false.
    pub fn bool(&self, path: &str) -> Option<bool> {
        self.get(path)?.as_bool()
    }

    /// Returns whether the document matches the filter of `matcher`.
    pub fn matches(&self, matcher: &Matcher) -> bool {
        // The bytes were validated when the document was created: there are no errors.
        matcher.matches(&self.root()) == Ok(true)
    }

    /// Returns the nodes that `path` selects, in order. Decodes only what filters compare.
    pub fn query<'a>(&'a self, path: &JsonPath) -> impl Iterator<Item = Node<'a>> {
        // The bytes were validated when the document was created: there are no errors.
        path.nodes(&self.root()).filter_map(Result::ok)
    }

    /// Returns the value at `pointer`. Decodes nothing else.
    pub fn pointer(&self, pointer: &Pointer) -> Option<View<'_>> {
        pointer.get(&self.root()).ok().flatten()
    }

    /// Decodes the whole document into a value in memory.
    pub fn to_value(&self) -> Value {
        self.root().to_value().unwrap_or_default()
    }

    /// Reads the document as a Rust value, which may borrow text and bytes from the document. Only
    /// the parts that the type asks for are decoded.
    ///
    /// # Errors
    /// InvalidInput with the path of the part that does not fit the type:
    /// ``stats.votes.3: invalid value: integer `300`, expected u8``.
    #[cfg(feature = "serde")]
    pub fn to<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T> {
        self.root().to()
    }

    /// Writes the document as JSON without spaces. Types that JSON lacks become text; what has no
    /// text, such as a float that is not finite, is written as in [`JsonMode::Extended`].
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// fn shown(document: &Document) -> flagstone_base::Result<String> {
    ///     Ok(format!("<{}>", document.to_json()?))
    /// }
    /// assert_eq!(shown(&Document::from_json(" [1.10] ")?)?, "<[1.10]>");
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Corruption. A document that was validated, as all are that a collection returns, has none.
    pub fn to_json(&self) -> Result<String> {
        self.to_json_as(JsonMode::Plain)
    }

    /// As [`Document::to_json`], in a mode.
    ///
    /// # Errors
    /// As [`Document::to_json`].
    pub fn to_json_as(&self, mode: JsonMode) -> Result<String> {
        let mut out = Vec::with_capacity(3 * self.bytes.len());
        append_json_as(&self.root(), mode, &mut out).map_err(malformed)?;
        let not_utf8 = |_| malformed(Malformed { at: 0, expected: "text in UTF-8" });
        String::from_utf8(out).map_err(not_utf8)
    }

    /// Decodes the document into a copy that can be changed.
    pub fn edit(&self) -> DocumentMut {
        DocumentMut::new(self.to_value())
    }

    /// Returns the document in its binary form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the table of the document's field names; `None` if it is self-contained.
    pub fn names(&self) -> Option<&Arc<Names>> {
        self.names.as_ref()
    }

    /// Returns the same document with its field names stored inside.
    ///
    /// # Errors
    /// InvalidInput if the result exceeds 512 MiB.
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

/// A decoded document that can be changed; the closure of an update receives one.
///
/// ```
/// use flagstone_doc::Document;
/// let document = Document::from_json(r#"{"score":7}"#)?;
/// let mut edited = document.edit();
/// let d = &mut edited;
/// d.inc("score", 1)?;
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
    /// Creates a changeable document from its root value.
    pub const fn new(root: Value) -> Self {
        Self { root, is_changed: false }
    }

    /// Returns the value at a dotted path: `id`, `a.b`, `tags.0`.
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.root.path(path)
    }

    /// Returns the integer at `path`, as [`Document::int`] does. To add to a number, use
    /// [`DocumentMut::inc`], which keeps every number exactly.
    pub fn int(&self, path: &str) -> Option<i64> {
        self.get(path)?.as_i64()
    }

    /// Returns the number at `path` as the nearest float, as [`Document::float`] does.
    pub fn float(&self, path: &str) -> Option<f64> {
        self.get(path)?.as_f64()
    }

    /// Returns the text at `path`, as [`Document::str`] does.
    pub fn str(&self, path: &str) -> Option<&str> {
        self.get(path)?.as_str()
    }

    /// Returns the boolean at `path`, as [`Document::bool`] does.
    pub fn bool(&self, path: &str) -> Option<bool> {
        self.get(path)?.as_bool()
    }

    /// Sets the value at `path`; creates the maps that are missing on the path.
    ///
    /// # Errors
    /// InvalidInput if the path leads through a value that is neither a map nor an array, leads
    /// beyond the end of an array, or has more than 512 steps. The document is unchanged then.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> Result<()> {
        self.root.set(path, value)?;
        self.is_changed = true;
        Ok(())
    }

    /// Adds `by` to the number at `path`, exactly; a missing number counts as 0. It is what
    /// [`Patch::inc`](crate::Patch::inc) does.
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// let mut document = Document::from_json(r#"{"price":41.50,"text":"41"}"#)?.edit();
    /// document.inc("price", 1)?;
    /// document.inc("sold", 1)?;
    /// assert!(document.inc("text", 1).is_err());
    /// assert_eq!(document.to_string(), r#"{"price":42.50,"text":"41","sold":1}"#);
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if the value at `path` or `by` is not a number, or the sum has more than 1,000
    /// digits; else as [`DocumentMut::set`]. The document is unchanged then.
    pub fn inc(&mut self, path: &str, by: impl Into<Value>) -> Result<()> {
        let by = by.into();
        let zero = Value::Int(0);
        let old = self.get(path).unwrap_or(&zero);
        match sum(old, &by) {
            Some(new) => self.set(path, new),
            None => {
                let (old, by) = (old.type_name(), by.type_name());
                let text = format!("{path:?} is {old}, to which {by} is to be added: expected two");
                Err(Error::invalid(format!("{text} numbers, and a sum of at most 1,000 digits")))
            }
        }
    }

    /// Removes the value at `path` and returns it; `None` if there is none.
    pub fn remove(&mut self, path: &str) -> Option<Value> {
        let removed = self.root.remove(path);
        self.is_changed |= removed.is_some();
        removed
    }

    /// Returns whether anything was set or removed, or [`DocumentMut::value_mut`] was called.
    pub const fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns the current root value.
    pub const fn value(&self) -> &Value {
        &self.root
    }

    /// Returns the root value for any kind of change, and marks the document as changed.
    pub const fn value_mut(&mut self) -> &mut Value {
        self.is_changed = true;
        &mut self.root
    }

    /// Consumes the document and returns its root value.
    pub fn into_value(self) -> Value {
        self.root
    }

    /// Encodes the current root value as a self-contained document.
    ///
    /// # Errors
    /// InvalidInput if the value is nested too deep or its bytes exceed 512 MiB.
    pub fn finish(&self) -> Result<Document> {
        Document::from_value(&self.root)
    }
}

impl fmt::Display for DocumentMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root)
    }
}
