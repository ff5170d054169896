//! Puts many JSON documents into batches: the inner loop of a bulk load.

use crate::batch::Batch;
use crate::collection::write;
use crate::collection::{AnyPatch, Collection, Patched, Stored};
use crate::remote::{RemoteBatch, Row};
use crate::sort_keys;
use crate::write::{Destination, KeyChange};
use flagstone_base::hash::key_hash;
use flagstone_base::{Error, ErrorKind, Malformed, Moment, Slice};
use flagstone_doc::{JsonError, JsonOptions, JsonParser, MergePatch, Value, View, sort_key};
use flagstone_engine::{CONDITION_OVERHEAD, Expect, OP_OVERHEAD};
use std::fmt;

/// Parses JSON documents and puts them into batches for one collection. Keep one for each thread:
/// it remembers the names of its last documents and reuses its memory.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::Space;
/// use flagstone::doc::JsonOptions;
/// use flagstone::load::{DocumentParser, Refused};
///
/// let comments = db.collection("comments")?;
/// let mut parser = DocumentParser::new(&comments, JsonOptions::new());
/// let mut batch = db.batch();
/// for json in [r#"{"id":"a","score":1}"#, r#"{"id":"b","score":2}"#] {
///     if let Err(Refused::Full) = parser.put(&mut batch, json.as_bytes(), "id") {
///         db.commit(std::mem::take(&mut batch))?;
///         parser.put(&mut batch, json.as_bytes(), "id")?;
///     }
/// }
/// db.commit(batch)?;
/// assert_eq!(comments.count()?, 2);
/// # Ok::<(), flagstone::Error>(())
/// ```
pub struct DocumentParser {
    stored: Stored,
    parser: JsonParser,
    key: Vec<u8>,
    document: Vec<u8>,
}

/// A longer buffer is freed after its document.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Why a document was not put into the batch, which stays as it was.
#[derive(Debug)]
pub enum Refused {
    /// The text is not JSON, or exceeds a limit of the options.
    Json(JsonError),
    /// The document has no value at this path, from which its primary key should come.
    NoKey(String),
    /// The document does not fit into the batch, which is not empty: commit that first.
    Full,
    /// The batch refused the document, or no batch of this database could hold it.
    Batch(Error),
}

impl DocumentParser {
    /// Creates a parser for documents of `collection`, which takes texts of at most
    /// [`Options::document_bytes_max`](crate::Options::document_bytes_max).
    pub fn new(collection: &Collection, options: JsonOptions) -> Self {
        let stored = &collection.0;
        let bytes_max = options.bytes_max.min(stored.document_bytes_max());
        Self {
            stored: stored.clone(),
            parser: JsonParser::new(options.bytes_max(bytes_max)),
            key: Vec::new(),
            document: Vec::new(),
        }
    }

    /// Parses `json` and puts the document into `batch`. Its primary key is the value at the dotted
    /// path `key_path`. Takes about half a microsecond for 1 KB.
    ///
    /// # Errors
    /// [`Refused`] says why. The batch stays as it was.
    pub fn put(&mut self, batch: &mut Batch, json: &[u8], key_path: &str) -> Result<(), Refused> {
        let put = self.parse(json, key_path)?.put(batch, None);
        self.free_long_buffer();
        put
    }

    /// Parses `json`, and finds its primary key at the dotted path `key_path`. The result is put
    /// into a batch that the caller may choose by the key.
    ///
    /// # Errors
    /// [`Refused`] says why.
    pub fn parse(&mut self, json: &[u8], key_path: &str) -> Result<ParsedDocument<'_>, Refused> {
        self.parse_text(json)?;
        let view = View::of(&self.document, self.stored.names()).map_err(malformed)?;
        if !sort_key::extract(&view, key_path, &mut self.key).map_err(malformed)? {
            return Err(Refused::NoKey(key_path.to_owned()));
        }
        self.parsed()
    }

    /// As [`DocumentParser::parse`], for a compound key: the array of the values at `key_paths`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, Value};
    /// use flagstone::doc::JsonOptions;
    /// use flagstone::load::DocumentParser;
    ///
    /// let films = db.collection("films")?;
    /// let mut parser = DocumentParser::new(&films, JsonOptions::new());
    /// let mut batch = db.batch();
    /// let json = br#"{"title":"Dune","year":1984}"#;
    /// parser.parse_compound(json, &["title", "year"])?.put(&mut batch, None)?;
    /// db.commit(batch)?;
    /// let key = Value::Array(vec!["Dune".into(), 1984.into()]);
    /// assert!(films.get(key)?.is_some());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Refused`] says why.
    pub fn parse_compound(
        &mut self,
        json: &[u8],
        key_paths: &[impl AsRef<str>],
    ) -> Result<ParsedDocument<'_>, Refused> {
        self.parse_text(json)?;
        let view = View::of(&self.document, self.stored.names()).map_err(malformed)?;
        let mut values = Vec::with_capacity(key_paths.len());
        for path in key_paths {
            let value = view.path(path.as_ref()).map_err(malformed)?;
            let value = value.ok_or_else(|| Refused::NoKey(path.as_ref().to_owned()))?;
            values.push(value.to_value().map_err(malformed)?);
        }
        sort_keys::append(&Value::Array(values), &mut self.key).map_err(Refused::Batch)?;
        self.parsed()
    }

    /// As [`DocumentParser::parse`], for a key that is not in the document.
    ///
    /// # Errors
    /// [`Refused`] says why.
    pub fn parse_as(
        &mut self,
        json: &[u8],
        key: impl Into<Value>,
    ) -> Result<ParsedDocument<'_>, Refused> {
        self.parse_text(json)?;
        sort_keys::append(&key.into(), &mut self.key).map_err(Refused::Batch)?;
        self.parsed()
    }

    /// Parses `json` into the buffer, and empties that of the key.
    fn parse_text(&mut self, json: &[u8]) -> Result<(), Refused> {
        self.free_long_buffer();
        self.document.clear();
        self.key.clear();
        let names = self.stored.names();
        self.parser.parse(json, names, &mut self.document).map_err(Refused::Json)?;
        Ok(())
    }

    fn parsed(&self) -> Result<ParsedDocument<'_>, Refused> {
        sort_keys::check_primary(&self.key).map_err(Refused::Batch)?;
        self.stored.check_form(&self.document).map_err(Refused::Batch)?;
        Ok(ParsedDocument { stored: &self.stored, key: &self.key, document: &self.document })
    }

    fn free_long_buffer(&mut self) {
        if self.document.capacity() > KEPT_BYTES_MAX {
            self.document = Vec::new();
        }
    }
}

fn malformed(malformed: Malformed) -> Refused {
    Refused::Batch(Error::new(ErrorKind::Corruption, format!("a parsed document, {malformed}")))
}

/// A document in its stored form, and its primary key: what [`DocumentParser::parse`] returns.
#[derive(Clone, Copy)]
pub struct ParsedDocument<'p> {
    stored: &'p Stored,
    key: &'p [u8],
    document: &'p [u8],
}

impl ParsedDocument<'_> {
    /// Returns a hash of the primary key. Equal keys have equal hashes. All bits vary.
    #[inline]
    pub fn key_hash(&self) -> u64 {
        key_hash(self.key, 0)
    }

    /// Puts the document into `batch`, with an expiry or without one.
    ///
    /// # Errors
    /// [`Refused`] says why. The batch stays as it was.
    pub fn put(&self, batch: &mut Batch, expiry: Option<Moment>) -> Result<(), Refused> {
        self.put_with(batch, expiry, 0)
    }

    /// Puts the document into `batch` if `more` bytes have room beside it.
    fn put_with(
        &self,
        batch: &mut Batch,
        expiry: Option<Moment>,
        more: usize,
    ) -> Result<(), Refused> {
        self.check_room(batch, more)?;
        if let Some(remote) = self.stored.remote() {
            return RemoteBatch::put(&mut batch.remote, remote, self.key, self.row(expiry))
                .map_err(Refused::Batch);
        }
        let change = KeyChange::Put(self.document, expiry);
        write::in_batch(self.stored, &mut batch.inner, self.key, change).map_err(Refused::Batch)
    }

    /// Puts the document into `batch`, whose commit returns Conflict if a document of this key
    /// exists then.
    ///
    /// # Errors
    /// As [`ParsedDocument::put`].
    pub fn insert(&self, batch: &mut Batch, expiry: Option<Moment>) -> Result<(), Refused> {
        if let Some(remote) = self.stored.remote() {
            self.check_room(batch, 0)?;
            return RemoteBatch::insert(&mut batch.remote, remote, self.key, self.row(expiry))
                .map_err(Refused::Batch);
        }
        let keyspace = self.stored.keyspace().map_err(Refused::Batch)?;
        self.put_with(batch, expiry, self.key.len() + CONDITION_OVERHEAD)?;
        batch.inner.expect(keyspace, self.key, Expect::Absent).map_err(Refused::Batch)
    }

    fn row(&self, expiry: Option<Moment>) -> Row {
        Row { document: Slice::copy_of(self.document), expiry }
    }

    /// Merges `patch` into the stored document of this key: reads it, and commits the result by
    /// itself, with the durability of the database. See [`Collection::patch_if`].
    ///
    /// # Errors
    /// As [`Collection::patch_if`].
    pub fn merge(&self, patch: &MergePatch) -> flagstone_base::Result<Patched> {
        patch.write(self.stored, Destination::Database, self.key)
    }

    /// Returns whether the collection has a document of this key now.
    ///
    /// # Errors
    /// As [`Space::get`](crate::Space::get).
    pub fn exists(&self) -> flagstone_base::Result<bool> {
        Ok(self.stored.get(self.key)?.is_some())
    }

    /// Returns whether a collection of a cluster has this document, byte by byte.
    ///
    /// # Errors
    /// As [`Space::get`](crate::Space::get).
    #[doc(hidden)]
    pub fn is_stored(&self) -> flagstone_base::Result<bool> {
        let stored = self.stored.get(self.key)?;
        Ok(self.stored.remote().is_some() && stored.is_some_and(|stored| *stored == *self.document))
    }

    /// Checks that a commit would take the batch with this document and `more` bytes.
    fn check_room(&self, batch: &Batch, more: usize) -> Result<(), Refused> {
        let most = self.stored.batch_bytes_max();
        let bytes = (self.key.len() + self.document.len() + OP_OVERHEAD + more) as u64;
        if batch.bytes() as u64 + bytes <= most {
            return Ok(());
        }
        if !batch.is_empty() {
            return Err(Refused::Full);
        }
        Err(Refused::Batch(Error::invalid(format!(
            "a document of {} bytes encoded: expected at most {most} in a batch, a quarter of the \
             memory budget",
            self.document.len()
        ))))
    }
}

impl fmt::Debug for ParsedDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParsedDocument({} bytes)", self.document.len())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "{error}"),
            Self::NoKey(path) => write!(f, "there is no field {path:?} to take the key from"),
            Self::Full => f.write_str("the batch is full: it must be committed first"),
            Self::Batch(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Batch(error) => error,
            other => Self::invalid(other.to_string()),
        }
    }
}
