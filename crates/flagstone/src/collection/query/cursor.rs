//! The cursor of a query: documents, one after another.

use super::cover::CoveredField;
use super::ordered::Ordered;
use super::projector::Projector;
use super::token::Ties;
use super::values::ValueRow;
use crate::collection::index::IndexScan;
use crate::collection::{Stored, decode};
use flagstone_base::{Error, Result, Slice};
use flagstone_doc::json::append_json_as;
use flagstone_doc::{Document, JsonMode, Value, View};
use std::fmt;

/// The documents that a query finds, as of one moment: an iterator over primary keys and documents,
/// which ends after an error. [`Cursor::advance`] with [`Cursor::view`] or [`Cursor::append_json`]
/// reads without a copy.
///
/// A cursor may be kept for as long as you like: see [`Scan`](crate::Scan). If the documents are
/// sorted in memory, their number is limited by that of the sort alone, see
/// [`Find::memory`](super::Find::memory).
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Space, doc};
/// let posts = db.collection("posts")?;
/// for n in 0..5 {
///     posts.put(n, doc!({ "n": n, "body": "long" }))?;
/// }
/// let mut cursor = posts.find(r#"{"n":{"$gte":3}}"#).sort("n").run()?;
/// assert!(cursor.key_bytes().is_empty() && cursor.key().is_err());   // not advanced yet
/// let mut sum = 0;
/// while cursor.advance()? {
///     sum += cursor.view()?.get("n").ok().flatten().and_then(|n| n.as_i64()).unwrap_or(0);
///     assert_eq!(cursor.key()?.as_i64(), cursor.document()?.int("n"));
///     assert!(!cursor.key_bytes().is_empty());
///     cursor.park();                                          // before a slow client is served
/// }
/// assert_eq!(sum, 7);
/// # Ok::<(), flagstone::Error>(())
/// ```
pub struct Cursor<'t> {
    stored: Stored,
    rows: Ordered<'t>,
    projector: Option<Projector>,
    skip: u64,
    left: u64,
    is_at_document: bool,
    /// What the next step has found, if it was made already.
    ahead: Option<bool>,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(
        stored: &Stored,
        rows: Ordered<'t>,
        projector: Option<Projector>,
        skip: u64,
        limit: Option<u64>,
    ) -> Self {
        // A sort has projected already, or an index that has all fields.
        let projector = projector.filter(|_| !rows.is_projected());
        let left = limit.unwrap_or(u64::MAX);
        let stored = stored.clone();
        Self { stored, rows, projector, skip, left, is_at_document: false, ahead: None }
    }

    /// Finds the first document, so that an error of the plan is noticed.
    pub(super) fn look_ahead(&mut self) -> Result<()> {
        self.ahead = Some(self.step()?);
        Ok(())
    }

    /// Moves to the next document. Returns false at the end.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// let (mut cursor, mut sum) = (posts.find("{}").run()?, 0);
    /// while cursor.advance()? {
    ///     sum += cursor.document()?.int("n").unwrap_or(0);
    /// }
    /// assert_eq!(sum, 10);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Io, Corruption; InvalidInput if the collection was dropped meanwhile, or the index that the
    /// cursor reads. The cursor has ended then.
    pub fn advance(&mut self) -> Result<bool> {
        self.is_at_document = false;
        self.is_at_document = match self.ahead.take() {
            Some(is_found) => is_found,
            None => self.step().inspect_err(|_failed| self.left = 0)?,
        };
        Ok(self.is_at_document)
    }

    fn step(&mut self) -> Result<bool> {
        while self.skip > 0 && self.left > 0 {
            self.skip -= 1;
            if !self.rows.advance()? {
                self.left = 0;
            }
        }
        if self.left == 0 || !self.rows.advance()? {
            self.left = 0;
            return Ok(false);
        }
        self.left -= 1;
        Ok(true)
    }

    /// Visits rows that follow and are quick to reach, at most `most`, as [`Rows::visit_near`].
    /// There is no current document then.
    ///
    /// [`Rows::visit_near`]: super::rows::Rows::visit_near
    #[inline]
    pub(super) fn visit_near(
        &mut self,
        most: usize,
        visit: impl FnMut(ValueRow<'_>) -> bool,
    ) -> usize {
        self.is_at_document = false;
        if self.ahead.is_some() || self.skip > 0 || self.projector.is_some() {
            return 0;
        }
        let most = most.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let visited = self.rows.visit_near(most, visit);
        self.left -= visited as u64;
        visited
    }

    /// The stored form of the current document's key: a sort key. Empty before the first document
    /// and after the last.
    pub fn key_bytes(&self) -> &[u8] {
        if self.is_at_document { self.rows.key() } else { &[] }
    }

    /// Returns the primary key of the current document.
    ///
    /// # Errors
    /// InvalidInput without a current document; Corruption.
    pub fn key(&self) -> Result<Value> {
        self.check()?;
        decode::primary_key(&self.stored, self.rows.key())
    }

    /// Returns the current document. It does not depend on the cursor.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// let mut cursor = posts.find(r#"{"n":4}"#).run()?;
    /// assert!(cursor.advance()?);
    /// assert_eq!((cursor.key()?, cursor.document()?.int("odd")), (4.into(), Some(0)));
    /// assert!(!cursor.advance()?);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cursor::key`].
    pub fn document(&mut self) -> Result<Document> {
        self.check()?;
        let bytes = match &mut self.projector {
            Some(projector) => {
                let names = self.stored.names();
                Slice::copy_of(projector.apply(&self.rows.view()?, names)?)
            }
            None => self.rows.slice(),
        };
        decode::document(&self.stored, bytes)
    }

    /// See [`crate::internal::stored_len`].
    pub(crate) fn stored_len(&self) -> usize {
        self.rows.stored_len()
    }

    /// Returns a view of the current document.
    ///
    /// # Errors
    /// As [`Cursor::key`].
    pub fn view(&mut self) -> Result<View<'_>> {
        self.check()?;
        match &mut self.projector {
            Some(projector) => {
                let bytes = projector.apply(&self.rows.view()?, self.stored.names())?;
                decode::view(&self.stored, bytes)
            }
            None => self.rows.view(),
        }
    }

    /// Returns a view of the current document, and its stored key.
    pub(super) fn document_and_key(&mut self) -> Result<(View<'_>, &[u8])> {
        self.check()?;
        let key = self.rows.key();
        let view = match &mut self.projector {
            Some(projector) => {
                let bytes = projector.apply(&self.rows.view()?, self.stored.names())?;
                decode::view(&self.stored, bytes)?
            }
            None => self.rows.view()?,
        };
        Ok((view, key))
    }

    /// Appends the current document as JSON without spaces, as [`Document::to_json`] writes it, in
    /// a mode.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::doc::JsonMode;
    /// use flagstone::{Json, Space};
    /// let comments = db.collection("comments")?;
    /// comments.put("a", Json(r#"{"score":7}"#))?;
    /// comments.put("b", Json(r#"{"score":1.10}"#))?;
    /// let (mut lines, mut cursor) = (Vec::new(), comments.find("{}").run()?);
    /// while cursor.advance()? {
    ///     cursor.append_json(JsonMode::Plain, &mut lines)?;
    ///     lines.push(b'\n');
    /// }
    /// assert_eq!(lines, b"{\"score\":7}\n{\"score\":1.10}\n");
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cursor::key`].
    pub fn append_json(&mut self, mode: JsonMode, out: &mut Vec<u8>) -> Result<()> {
        self.check()?;
        let view = self.rows.view()?;
        let appended = match &mut self.projector {
            Some(projector) => projector.json(&view, mode, out),
            None => append_json_as(&view, mode, out),
        };
        appended.map_err(|malformed| decode::corrupt(&self.stored, malformed))
    }

    /// Releases what the cursor holds in memory and keeps its position, for a slow reader: see
    /// [`Scan::park`](crate::Scan::park). What a sort holds is written to a temporary file. In a
    /// transaction it has no effect on a scan.
    pub fn park(&mut self) {
        self.rows.park();
    }

    fn check(&self) -> Result<()> {
        if self.is_at_document {
            Ok(())
        } else {
            Err(Error::invalid("the cursor is not at a document: advance it first"))
        }
    }

    /// The position of the current document for a page token, and its stored key.
    pub(super) fn position(&self) -> ((Ties, Vec<u8>), Vec<u8>) {
        (self.rows.position(), self.rows.key().to_vec())
    }

    /// The entry that has all that the query takes, and where the values are; `None` if there is a
    /// document, or no row at all.
    #[inline]
    pub(super) fn values(&self) -> Option<(&IndexScan<'t>, &[CoveredField])> {
        if self.is_at_document { self.rows.values() } else { None }
    }

    pub(super) const fn rows(&self) -> &Ordered<'t> {
        &self.rows
    }
}

impl Iterator for Cursor<'_> {
    type Item = Result<(Value, Document)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match self.advance() {
            Ok(true) => self.key().and_then(|key| Ok((key, self.document()?))),
            Ok(false) => return None,
            Err(error) => Err(error),
        };
        if next.is_err() {
            self.left = 0;
        }
        Some(next)
    }
}

impl std::iter::FusedIterator for Cursor<'_> {}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({:?})", self.stored.name())
    }
}
