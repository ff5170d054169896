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
///
/// Each accessor returns a value only of its own type:
///
/// ```
/// use flagstone_doc::Document;
/// let document = Document::from_json(r#"{"a":{"b":[1.5,"7"]},"done":true}"#)?;
/// assert_eq!((document.float("a.b.0"), document.int("a.b.0")), (Some(1.5), None));
/// assert_eq!((document.str("a.b.1"), document.bool("done")), (Some("7"), Some(true)));
/// assert!(document.get("a.b").is_some_and(|list| list.is_array()));
/// assert!(document.get("a.c").is_none());
/// assert!(document.root().is_map());
///
/// assert_eq!(document.to_value().path("a.b.1"), Some(&"7".into()));    // all of it, decoded
/// assert!(document.as_bytes().len() < 30);                    // the form that is stored
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Document {
    bytes: Slice,
    names: Option<Arc<Names>>,
}

/// Returns the document that an encoder has just written, which needs no check. `names` is the
/// table that it was given.
pub const fn encoded(bytes: Slice, names: Option<Arc<Names>>) -> Document {
    Document { bytes, names }
}

/// Returns whether the fields of a document are stored as ids of this table.
pub fn is_of(document: &Document, names: &Names) -> bool {
    document.names.as_ref().is_some_and(|table| table.identity() == names.identity())
}

impl Document {
    /// Creates a document from its binary form and validates all of it. `names` is the table of its
    /// field names; `None` if the document is self-contained.
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// let document = Document::from_json(r#"{"score":7}"#)?;
    /// let bytes = document.as_bytes().to_vec();                   // to be kept elsewhere
    /// let back = Document::from_bytes(bytes.clone(), None)?;
    /// assert_eq!(back, document);
    /// let damaged = Document::from_bytes(bytes[1..].to_vec(), None);
    /// assert!(damaged.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// ```
    /// use flagstone_doc::{Document, doc};
    /// let document = Document::from_value(&doc!({ "score": 7 }))?;
    /// assert_eq!(document.to_json()?, r#"{"score":7}"#);
    /// assert_eq!(document.to_value(), doc!({ "score": 7 }));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
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
    /// ```
    /// use flagstone_doc::Document;
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Comment<'a> { author: &'a str, score: i64 }
    /// let document = Document::from_serialize(&Comment { author: "x", score: 7 })?;
    /// assert_eq!(document.to_json()?, r#"{"author":"x","score":7}"#);
    /// let comment: Comment<'_> = document.to()?;
    /// assert_eq!((comment.author, comment.score), ("x", 7));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
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
    ///
    /// ```
    /// use flagstone_doc::{Document, Filter};
    /// let hot = Filter::parse(r#"{"score":{"$gt":5}}"#)?.compile()?;
    /// assert!(Document::from_json(r#"{"score":7}"#)?.matches(&hot));
    /// assert!(!Document::from_json(r#"{"score":"7"}"#)?.matches(&hot));   // text is no number
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    pub fn matches(&self, matcher: &Matcher) -> bool {
        // The bytes were validated when the document was created: there are no errors.
        matcher.matches(&self.root()) == Ok(true)
    }

    /// Returns the nodes that `path` selects, in order. Decodes only what filters compare.
    ///
    /// ```
    /// use flagstone_doc::{Document, JsonPath};
    /// let document = Document::from_json(r#"{"lines":[{"n":1},{"n":5},{"n":9}]}"#)?;
    /// let path = JsonPath::parse("$.lines[?@.n > 4].n")?;
    /// let found: Vec<_> = document.query(&path).map(|node| node.view().as_i64()).collect();
    /// assert_eq!(found, [Some(5), Some(9)]);
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    pub fn query<'a>(&'a self, path: &JsonPath) -> impl Iterator<Item = Node<'a>> {
        // The bytes were validated when the document was created: there are no errors.
        path.nodes(&self.root()).filter_map(Result::ok)
    }

    /// Returns the value at `pointer`. Decodes nothing else.
    ///
    /// ```
    /// use flagstone_doc::{Document, Pointer};
    /// let document = Document::from_json(r#"{"a/b":[1,2]}"#)?;
    /// let pointer = Pointer::parse("/a~1b/1")?;
    /// assert_eq!(document.pointer(&pointer).and_then(|view| view.as_i64()), Some(2));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
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
    /// ```
    /// use flagstone_doc::Document;
    /// #[derive(serde::Deserialize)]
    /// struct Post<'a> { title: &'a str, votes: Vec<u8> }
    /// let document = Document::from_json(r#"{"title":"Weaving","body":"long","votes":[1,255]}"#)?;
    /// let post: Post<'_> = document.to()?;                        // `body` is not decoded
    /// assert_eq!((post.title, post.votes), ("Weaving", vec![1, 255]));
    /// let wrong = Document::from_json(r#"{"title":"Weaving","votes":[1,256]}"#)?;
    /// assert!(wrong.to::<Post<'_>>().is_err());
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
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
    /// ```
    /// use flagstone_doc::{DateTime, Document, JsonMode, doc};
    /// let document = Document::from_value(&doc!({ "seen": DateTime::from_micros(0) }))?;
    /// assert_eq!(document.to_json_as(JsonMode::Plain)?, r#"{"seen":"1970-01-01T00:00:00Z"}"#);
    /// let extended = r#"{"seen":{"$date":"1970-01-01T00:00:00Z"}}"#;
    /// assert_eq!(document.to_json_as(JsonMode::Extended)?, extended);
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
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
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// let old = Document::from_json(r#"{"score":7}"#)?;
    /// let mut copy = old.edit();
    /// copy.set("score", 8)?;
    /// let new = copy.finish()?;
    /// assert_eq!((old.int("score"), new.int("score")), (Some(7), Some(8)));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    pub fn edit(&self) -> DocumentMut {
        DocumentMut::new(self.to_value())
    }

    /// Returns the document in its binary form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the table of the document's field names; `None` if it is self-contained.
    ///
    /// ```
    /// use flagstone_doc::{Document, Encoder, Names, doc};
    /// use std::sync::Arc;
    /// let (names, mut bytes) = (Arc::new(Names::new()), Vec::new());
    /// Encoder::new().encode(&doc!({ "author": "x" }), Some(&names), &mut bytes)?;
    /// let document = Document::from_bytes(bytes, Some(names))?;   // as collections store them
    /// assert!(document.names().is_some_and(|names| names.lookup(0) == Some("author")));
    ///
    /// let alone = document.self_contained()?;                     // its bytes have the names
    /// assert!(alone.names().is_none() && alone == document);
    /// assert!(alone.as_bytes().len() > document.as_bytes().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn names(&self) -> Option<&Arc<Names>> {
        self.names.as_ref()
    }

    /// Returns the same document with its field names stored inside.
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// let document = Document::from_json(r#"{"author":"x"}"#)?;
    /// assert!(document.names().is_none(), "text has no table of names");
    /// assert_eq!(document.self_contained()?.as_bytes(), document.as_bytes());
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
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
///
/// Reading changes nothing, and neither does the removal of what is not there:
///
/// ```
/// use flagstone_doc::{Document, doc};
/// let mut edited = Document::from_json(r#"{"name":"ada","age":36.5,"old":true}"#)?.edit();
/// assert_eq!((edited.str("name"), edited.float("age")), (Some("ada"), Some(36.5)));
/// assert_eq!((edited.int("age"), edited.bool("old")), (None, Some(true)));
/// assert_eq!(edited.get("name"), Some(&"ada".into()));
/// assert_eq!(edited.remove("none"), None);
/// assert!(!edited.is_changed());                              // an update would write nothing
/// assert_eq!(edited.remove("old"), Some(true.into()));
/// assert!(edited.is_changed());
/// assert_eq!(edited.value(), &doc!({ "name": "ada", "age": 36.5 }));
/// assert_eq!(edited.into_value().get("old"), None);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentMut {
    root: Value,
    is_changed: bool,
}

impl DocumentMut {
    /// Creates a changeable document from its root value.
    ///
    /// ```
    /// use flagstone_doc::{DocumentMut, doc};
    /// let mut document = DocumentMut::new(doc!({ "score": 7 }));
    /// document.inc("score", 1)?;
    /// assert_eq!(document.value(), &doc!({ "score": 8 }));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
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
    ///
    /// ```
    /// use flagstone_doc::{Document, Value};
    /// let mut document = Document::from_json(r#"{"tags":["b","a"]}"#)?.edit();
    /// if let Some(Value::Array(tags)) = document.value_mut().path_mut("tags") {
    ///     tags.sort();
    /// }
    /// assert!(document.is_changed());
    /// assert_eq!(document.to_string(), r#"{"tags":["a","b"]}"#);
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
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
