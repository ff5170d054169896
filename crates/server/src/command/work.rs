//! What a statement reads and writes that happens together or not at all: several documents, in a
//! transaction; in a cluster, one.
//!
//! ```text
//! Run::atomically(work) --> Work::Transaction: begin, work, commit; again after a conflict
//!                      \-> Work::One: 1. work, until it asks for its document
//!                                     2. Remote::rewrite of that one: work, as often as another
//!                                        write comes first
//! ```
//! In a cluster `work` looks for its document in the first step, by a query if it must. The second
//! one begins again with what is stored, and no other write of the document comes between. If the
//! document has changed meanwhile so that `work` asks for another one, both steps are repeated.

use super::id;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::ObjectId;
use flagstone::internal::{expiry_in, remote_of, stored_form};
use flagstone::remote::{Remote, Row, Write};
use flagstone::{Collection, Document, Expires, Filter, Find, Moment, Transaction, Value};
use std::sync::Arc;

/// What is read and written.
pub(crate) enum Work<'w> {
    Transaction(&'w mut Transaction),
    One(&'w mut OneDocument),
}

/// A document of a cluster.
#[derive(Default)]
pub(crate) struct OneDocument {
    /// What a query has found: a key, or that there is none.
    found: Option<Option<Value>>,
    /// The key of a new document that has none.
    new_id: Option<ObjectId>,
    /// Which document it is, once that is known.
    place: Option<(Arc<dyn Remote>, Vec<u8>)>,
    /// What is stored, in the second step.
    row: Option<Option<Row>>,
    write: Option<Write>,
    /// The work asks for another document now.
    is_lost: bool,
}

impl OneDocument {
    /// Returns where the document is that the work has asked for.
    pub(crate) fn place(&self) -> Option<(Arc<dyn Remote>, Vec<u8>)> {
        self.place.clone()
    }

    /// Begins the second step with what is stored.
    pub(crate) fn begin(&mut self, row: Option<&Row>) {
        self.row = Some(row.cloned());
        (self.write, self.is_lost) = (None, false);
    }

    /// Ends it: returns what is written.
    pub(crate) fn end(&mut self) -> Write {
        self.write.take().unwrap_or(Write::Nothing)
    }

    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns what is stored of a document, if the work is about that one.
    fn row(&mut self, collection: &Collection, key: &Value) -> Outcome<Option<&Row>> {
        let Some(remote) = remote_of(collection) else {
            let text = "a collection of a database in a write to a cluster";
            return Err(Failure::new(Code::InternalError, text));
        };
        let key = id::key_bytes(key);
        match &self.place {
            None => self.place = Some((Arc::clone(remote), key)),
            Some((of, known)) if of.id() == remote.id() && *known == key => {}
            Some(_) => self.is_lost = true,
        }
        match &self.row {
            Some(row) if !self.is_lost => Ok(row.as_ref()),
            _ => Err(Failure::new(Code::WriteConflict, "the document is read with its write")),
        }
    }
}

impl Work<'_> {
    /// Reads a document.
    pub(crate) fn get(
        &mut self,
        collection: &Collection,
        key: &Value,
    ) -> Outcome<Option<Document>> {
        match self {
            Self::Transaction(tx) => Ok(tx.get(collection, key)?),
            Self::One(one) => match one.row(collection, key)? {
                Some(row) => Ok(Some(Document::from_bytes(row.document.clone(), None)?)),
                None => Ok(None),
            },
        }
    }

    /// Returns when a document expires that was read.
    pub(crate) fn expiry(
        &mut self,
        collection: &Collection,
        key: &Value,
    ) -> Outcome<Option<Moment>> {
        match self {
            Self::Transaction(tx) => Ok(expiry_in(tx, collection, key)?),
            Self::One(one) => Ok(one.row(collection, key)?.and_then(|row| row.expiry)),
        }
    }

    /// Writes a document that was read.
    pub(crate) fn put(
        &mut self,
        collection: &Collection,
        key: &Value,
        document: &Document,
        expiry: Option<Moment>,
    ) -> Outcome {
        match self {
            Self::Transaction(tx) => Ok(tx.put(collection, key, document.expires(expiry))?),
            Self::One(one) => {
                one.row(collection, key)?;
                one.write = Some(Write::Put(stored_form(collection, document)?, expiry));
                Ok(())
            }
        }
    }

    /// Removes a document that was read.
    pub(crate) fn delete(&mut self, collection: &Collection, key: &Value) -> Outcome {
        match self {
            Self::Transaction(tx) => Ok(tx.delete(collection, key)?),
            Self::One(one) => {
                one.row(collection, key)?;
                one.write = Some(Write::Delete);
                Ok(())
            }
        }
    }

    /// Begins a query.
    pub(crate) fn find(&self, collection: &Collection, filter: Filter) -> Find<'_> {
        match self {
            Self::Transaction(tx) => tx.find(collection, filter),
            Self::One(_) => collection.find(filter),
        }
    }

    /// Returns the key of the document that `look` finds by a query. In a cluster it looks in the
    /// first step alone.
    pub(super) fn found_by(
        &mut self,
        look: impl FnOnce(&Self) -> Outcome<Option<Value>>,
    ) -> Outcome<Option<Value>> {
        if let Self::One(OneDocument { found: Some(found), .. }) = self {
            return Ok(found.clone());
        }
        let found = look(self)?;
        if let Self::One(one) = self {
            one.found = Some(found.clone());
        }
        Ok(found)
    }

    /// Notes that the document of a key is not the one that is looked for. If a query has found it,
    /// there may be another one.
    pub(super) fn note_unmatched(&mut self, key: &Value) {
        if let Self::One(one) = self {
            let is_found = matches!(&one.found, Some(Some(found)) if found == key);
            one.is_lost |= is_found;
        }
    }

    /// Returns the key of a new document that has none.
    pub(super) fn new_id(&mut self) -> ObjectId {
        match self {
            Self::Transaction(_) => id::new_id(),
            Self::One(one) => *one.new_id.get_or_insert_with(id::new_id),
        }
    }

    /// Returns whether this is the first step of a write to a cluster.
    pub(super) const fn is_first_step(&self) -> bool {
        matches!(self, Self::One(OneDocument { row: None, .. }))
    }

    /// Returns the transaction.
    pub(super) fn transaction(&mut self) -> Option<&mut Transaction> {
        match self {
            Self::Transaction(tx) => Some(tx),
            Self::One(_) => None,
        }
    }
}
