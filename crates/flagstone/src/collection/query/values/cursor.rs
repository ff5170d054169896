//! The cursor over values.

use super::value::{EntryValues, IndexedValue, ValueRow};
use crate::collection::query::cursor::Cursor;
use crate::collection::query::ordered::Ordered;
use crate::collection::query::source::QuerySource;
use crate::collection::{Stored, decode};
use flagstone_base::{Error, Result, Slice};
use flagstone_doc::Value;
use std::fmt;

/// The documents that a query finds, of which only the values at some paths are wanted:
/// [`Find::values`](crate::Find::values) returns it.
///
/// If an index has all of these paths, its entries are read instead of the documents. Of an entry
/// that does not say what its document holds, such as one with a long text, the document is read.
pub struct Values<'t> {
    stored: Stored,
    source: QuerySource<'t>,
    cursor: Cursor<'t>,
    /// The document of the current entry, if it was asked for.
    document: Option<Slice>,
}

impl<'t> Values<'t> {
    pub(in crate::collection::query) fn new(
        stored: &Stored,
        source: QuerySource<'t>,
        cursor: Cursor<'t>,
    ) -> Self {
        Self { stored: stored.clone(), source, cursor, document: None }
    }

    /// Finds the first document, so that an error of the plan is noticed.
    pub(in crate::collection::query) fn look_ahead(&mut self) -> Result<()> {
        self.cursor.look_ahead()
    }

    pub(in crate::collection::query) const fn rows(&self) -> &Ordered<'t> {
        self.cursor.rows()
    }

    /// Moves to the next document. Returns false at the end.
    ///
    /// # Errors
    /// As [`Cursor::advance`](crate::Cursor::advance).
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        self.document = None;
        self.cursor.advance()
    }

    /// Returns the values of the current document.
    ///
    /// # Errors
    /// InvalidInput without a current document; Corruption.
    #[inline]
    pub fn row(&mut self) -> Result<ValueRow<'_>> {
        if let Some(document) = &self.document {
            let key = IndexedValue::of_key(self.cursor.key_bytes());
            return Ok(ValueRow::Document(decode::view(&self.stored, document)?, key));
        }
        // Of a document that was read the cursor has no entry.
        if self.cursor.values().is_none() {
            let (view, key) = self.cursor.document_and_key()?;
            return Ok(ValueRow::Document(view, IndexedValue::of_key(key)));
        }
        let Some((entry, places)) = self.cursor.values() else {
            return Err(Error::invalid("a cursor between two rows"));
        };
        Ok(ValueRow::Entry(EntryValues::new(entry.parts(), places)))
    }

    /// Visits rows that follow the last one and are quick to reach, at most `most`, and calls
    /// `visit` with each, as long as it returns true: false leaves the row as the next one. Returns
    /// how many were visited. There is no current document then.
    ///
    /// Call it after each [`Values::advance`]: together they read faster than `advance` alone, for
    /// what a call costs is spread over the entries of a block. 0 does not mean the end. `visit`
    /// must not wait for other threads.
    #[inline]
    pub fn visit_near(&mut self, most: usize, visit: impl FnMut(ValueRow<'_>) -> bool) -> usize {
        self.document = None;
        self.cursor.visit_near(most, visit)
    }

    /// Reads the document of the current row, which is no entry from then on. Returns false if
    /// there is none any more, because it expires at this moment.
    ///
    /// # Errors
    /// As [`Values::row`]; Io.
    pub fn read_document(&mut self) -> Result<bool> {
        if self.cursor.values().is_none() {
            return Ok(true);
        }
        self.document = self.source.get(&self.stored, self.cursor.key_bytes())?;
        Ok(self.document.is_some())
    }

    /// The stored form of the current document's key: a sort key. Empty before the first document
    /// and after the last.
    #[inline]
    pub fn key_bytes(&self) -> &[u8] {
        self.cursor.key_bytes()
    }

    /// Returns the primary key of the current document.
    ///
    /// # Errors
    /// As [`Values::row`].
    pub fn key(&self) -> Result<Value> {
        self.cursor.key()
    }

    /// Releases what the cursor holds in memory and keeps its position: see
    /// [`Cursor::park`](crate::Cursor::park).
    pub fn park(&mut self) {
        self.cursor.park();
    }
}

impl fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Values({:?})", self.cursor)
    }
}
