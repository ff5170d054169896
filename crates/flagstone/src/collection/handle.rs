//! A collection: documents by primary key.
//!
//! Key: the sort key of the primary key's value. Value: the document's binary form, its field names
//! as ids of the collection's table of names.

use super::core::Documents;
use super::write::{Change, Rewrite};
use super::{DocumentParser, DocumentScan};
use crate::batch::Batch;
use crate::entry::EntryOptions;
use crate::{encoders, sort_keys};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, ErrorKind, Moment, Result, Slice};
use flagstone_doc::{Document, DocumentMut, JsonOptions, JsonParser, Names, Value};
use flagstone_engine::{Admitted, Keyspace, TryGet};
use std::cell::RefCell;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A handle of a collection: documents by primary key. Cheap to clone; usable from any thread; keeps the
/// database open.
///
/// A primary key is any document value, such as text, a number, or an array of them. Documents are in
/// the total order of their keys.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let comments = db.collection("comments")?;
/// comments.put_json("evn2i5p", br#"{"author":"x","score":1}"#)?;
/// comments.update("evn2i5p", |d| d.set("score", d.int("score") + 1))?;
/// let document = comments.get("evn2i5p")?.expect("it was put");
/// assert_eq!(document.to_json().unwrap(), r#"{"author":"x","score":2}"#);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone)]
pub struct Collection {
    keyspace: Keyspace,
    pub(super) documents: Arc<Documents>,
}

impl Collection {
    pub(crate) fn new(keyspace: Keyspace) -> Result<Self> {
        match Arc::clone(keyspace.attachment()).downcast() {
            Ok(documents) => Ok(Self { keyspace, documents }),
            Err(_other) => {
                Err(Error::invalid(format!("{:?} is not a collection", keyspace.name())))
            }
        }
    }

    /// The name of the collection as of now: [`Database::rename_keyspace`](crate::Database::rename_keyspace) changes it.
    pub fn name(&self) -> String {
        self.keyspace.name()
    }

    /// Sets the document of `key`. The encoded key has at most 65,535 bytes; the document has at most
    /// [`Options::document_bytes_max`](crate::Options::document_bytes_max), 16 MiB by default.
    ///
    /// # Errors
    /// InvalidInput for a key or a document over its limit; else as
    /// [`Keyspace::put`](crate::Keyspace::put).
    pub fn put(&self, key: impl Into<Value>, document: &Document) -> Result<()> {
        self.put_with(key, document, EntryOptions::new())
    }

    /// As [`Collection::put`], with options of its own.
    ///
    /// # Errors
    /// As [`Collection::put`].
    pub fn put_with(
        &self,
        key: impl Into<Value>,
        document: &Document,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let turn = self.turn_for(&key, document.as_bytes().len())?;
        let bytes = self.encode_document(document)?;
        self.write_put(&key, (bytes, options), turn)
    }

    /// The moment from which on the document of `key` is absent; `None` if it has no expiry, or is absent now.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get).
    pub fn expiry(&self, key: impl Into<Value>) -> Result<Option<Moment>> {
        self.bytes().expiry(&sort_keys::of_primary(&key.into())?)
    }

    /// Sets the document of `key` to `value`.
    ///
    /// # Errors
    /// As [`Collection::put`]; InvalidInput for a value nested too deep.
    pub fn put_value(&self, key: impl Into<Value>, value: &Value) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = self.encode_value(value)?;
        self.write_put(&key, (bytes, EntryOptions::new()), None)
    }

    /// Sets the document of `key` to the document in the JSON text `json`. Numbers are kept exactly.
    ///
    /// # Errors
    /// InvalidInput with line and column if the text is not JSON; else as [`Collection::put`].
    pub fn put_json(&self, key: impl Into<Value>, json: impl AsRef<[u8]>) -> Result<()> {
        self.put_json_with(key, json, EntryOptions::new())
    }

    /// As [`Collection::put_json`], with options of its own.
    ///
    /// # Errors
    /// As [`Collection::put_json`].
    pub fn put_json_with(
        &self,
        key: impl Into<Value>,
        json: impl AsRef<[u8]>,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let json = json.as_ref();
        let turn = self.turn_for(&key, json.len())?;
        let bytes = self.encode_json(json)?;
        self.write_put(&key, (bytes, options), turn)
    }

    /// Returns the document of `key`, or `None` if there is none. The document does not depend on the
    /// database: keep it as long as you like.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get); Corruption if the stored bytes are not a document.
    pub fn get(&self, key: impl Into<Value>) -> Result<Option<Document>> {
        let key = sort_keys::of_primary(&key.into())?;
        let found = self.bytes().get(&key)?;
        found.map(|bytes| self.document(bytes)).transpose()
    }

    /// The document of `key` from memory alone, as [`Keyspace::try_get`](crate::Keyspace::try_get).
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn try_get(&self, key: impl Into<Value>) -> Result<TryGet<Document>> {
        let key = sort_keys::of_primary(&key.into())?;
        self.bytes().try_get(&key)?.and_then(|bytes| self.document(bytes))
    }

    /// Reads the document of `key`, lets `change` change it, and writes it: no other write of the key
    /// comes between, so concurrent increments are never lost. False when there is no such document;
    /// nothing is written when nothing was changed.
    ///
    /// `change` runs while writes of this key wait: a write of the same database inside it returns InvalidInput.
    ///
    /// # Errors
    /// What `change` answers, and nothing is written then; else as [`Collection::put`].
    pub fn update(
        &self,
        key: impl Into<Value>,
        change: impl FnOnce(&mut DocumentMut) -> Result<()>,
    ) -> Result<bool> {
        let key = sort_keys::of_primary(&key.into())?;
        let mut found = false;
        self.rewrite(&key, |old| {
            let Some(old) = old else { return Ok(Rewrite::Nothing) };
            found = true;
            let mut edited = self.document(Slice::copy_of(old))?.edit();
            change(&mut edited)?;
            if !edited.is_changed() {
                return Ok(Rewrite::Nothing);
            }
            Ok(Rewrite::Put(self.encode_value(edited.value())?))
        })?;
        Ok(found)
    }

    /// Removes the document of `key`, whether it is there or not. Costs as much as a put.
    ///
    /// # Errors
    /// As [`Keyspace::put`](crate::Keyspace::put).
    pub fn delete(&self, key: impl Into<Value>) -> Result<()> {
        self.write(&sort_keys::of_primary(&key.into())?, Change::Delete)
    }

    /// Removes the document of `key` and returns whether it was there.
    ///
    /// # Errors
    /// As [`Keyspace::remove`](crate::Keyspace::remove).
    pub fn remove(&self, key: impl Into<Value>) -> Result<bool> {
        self.rewrite(&sort_keys::of_primary(&key.into())?, |old| {
            Ok(if old.is_some() { Rewrite::Delete } else { Rewrite::Nothing })
        })
    }

    /// Removes all documents with keys in `range`, however many: writes one entry for each partition.
    ///
    /// # Errors
    /// InvalidInput for a bound of more than 65,535 bytes encoded; else as [`Collection::put`].
    pub fn delete_range<K: Into<Value> + Clone>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.write_range(sort_keys::of_range(range)?)
    }

    /// Removes all documents, as [`Keyspace::clear`](crate::Keyspace::clear). Names of fields stay defined.
    ///
    /// # Errors
    /// As [`Keyspace::clear`](crate::Keyspace::clear).
    pub fn clear(&self) -> Result<()> {
        self.write_clear()
    }

    /// The documents whose keys lie in `range`, in key order, as of one moment.
    ///
    /// # Errors
    /// InvalidInput for a bound over 65,535 bytes encoded.
    pub fn scan<K: Into<Value> + Clone>(&self, range: impl RangeBounds<K>) -> Result<DocumentScan> {
        Ok(DocumentScan::new(self, self.bytes().scan_range(sort_keys::of_range(range)?)))
    }

    /// Returns all documents in the order of their keys, as of one moment.
    pub fn scan_all(&self) -> DocumentScan {
        DocumentScan::new(self, self.bytes().scan_range(KeyRange::ALL))
    }

    /// Returns the documents whose keys are text that begins with `prefix`, in the order of their keys.
    pub fn prefix(&self, prefix: &str) -> DocumentScan {
        let range = KeyRange::prefix(&sort_keys::of_text_prefix(prefix));
        DocumentScan::new(self, self.bytes().scan_range(range))
    }

    /// Returns the number of documents. Reads all keys: see [`Keyspace::count`](crate::Keyspace::count).
    ///
    /// # Errors
    /// As [`Keyspace::count`](crate::Keyspace::count).
    pub fn count(&self) -> Result<u64> {
        self.keyspace.count()
    }

    /// Returns about how many documents there are, from counters alone: see
    /// [`Keyspace::approximate_count`](crate::Keyspace::approximate_count).
    pub fn approximate_count(&self) -> u64 {
        self.keyspace.approximate_count()
    }

    /// Returns a parser that puts many JSON documents of this collection into batches. Use one for each
    /// thread.
    pub fn parser(&self, options: JsonOptions) -> DocumentParser {
        DocumentParser::new(self, options)
    }

    /// Returns the engine's keyspace of the stored bytes.
    #[inline]
    pub(crate) const fn bytes(&self) -> &Keyspace {
        &self.keyspace
    }

    pub(super) fn names(&self) -> &Names {
        &self.documents.names
    }

    pub(crate) fn document(&self, bytes: Slice) -> Result<Document> {
        let names = Arc::clone(&self.documents.names);
        Document::from_bytes(bytes, Some(names)).map_err(|malformed| {
            Error::new(
                ErrorKind::Corruption,
                format!("a stored document of {:?}, {malformed}", self.name()),
            )
        })
    }

    pub(crate) fn encode_document(&self, document: &Document) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let names = Some(self.names());
        encoders::for_collections(|encoder| {
            encoder.encode_view(&document.root(), names, &mut out)
        })?;
        self.check_size(out)
    }

    fn encode_value(&self, value: &Value) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let names = Some(self.names());
        encoders::for_collections(|encoder| encoder.encode(value, names, &mut out))?;
        self.check_size(out)
    }

    fn encode_json(&self, json: &[u8]) -> Result<Vec<u8>> {
        thread_local! {
            static PARSER: RefCell<Option<(usize, JsonParser)>> = const { RefCell::new(None) };
        }
        let bytes_max = self.document_bytes_max();
        let mut out = Vec::new();
        PARSER.with_borrow_mut(|parser| {
            let parser = match parser {
                Some((limit, parser)) if *limit == bytes_max => parser,
                _ => {
                    let options = JsonOptions::new().bytes_max(bytes_max);
                    &mut parser.insert((bytes_max, JsonParser::new(options))).1
                }
            };
            parser.parse(json, Some(self.names()), &mut out)
        })?;
        Ok(out)
    }

    /// Waits for the turn of a document of about `bytes`, if it is large. Called before the document is
    /// encoded, because that makes the first copy of it.
    fn turn_for(&self, key: &[u8], bytes: usize) -> Result<Option<Admitted<'_>>> {
        self.bytes().admission_for(key, bytes.min(self.document_bytes_max()))
    }

    fn document_bytes_max(&self) -> usize {
        self.bytes().options().document_bytes_max
    }

    pub(super) fn check_size(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let limit = self.document_bytes_max();
        if bytes.len() <= limit {
            return Ok(bytes);
        }
        Err(Error::invalid(format!(
            "a document of {} bytes: expected at most {limit} (Options::document_bytes_max)",
            bytes.len()
        )))
    }
}

impl Batch {
    /// Sets the document of `key` in `collection`.
    ///
    /// # Errors
    /// As [`Collection::put`]. The batch stays as it was.
    pub fn put_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        document: &Document,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = collection.encode_document(document)?;
        collection.write_in(self, &key, Change::Put(&bytes))
    }

    /// As [`Batch::put_document`], with options of its own.
    ///
    /// # Errors
    /// As [`Batch::put_document`].
    pub fn put_document_with(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        document: &Document,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = collection.encode_document(document)?;
        collection.write_in(self, &key, Change::PutWith(&bytes, options))
    }

    /// Sets the document of `key` in `collection` to `value`.
    ///
    /// # Errors
    /// As [`Collection::put_value`]. The batch stays as it was.
    pub fn put_value(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &Value,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = collection.encode_value(value)?;
        collection.write_in(self, &key, Change::Put(&bytes))
    }

    /// Removes the document of `key` from `collection`.
    ///
    /// # Errors
    /// As [`Collection::delete`]. The batch stays as it was.
    pub fn delete_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<()> {
        collection.write_in(self, &sort_keys::of_primary(&key.into())?, Change::Delete)
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collection({:?})", self.name())
    }
}
