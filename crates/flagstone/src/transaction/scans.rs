//! Scans of documents and of typed entries as a transaction sees them.

use crate::codec::{Codec, KeyCodec, Serde};
use crate::collection::{Stored, decode};
use crate::typed::Typed;
use flagstone_base::Result;
use flagstone_doc::{Document, Value};
use flagstone_engine::TransactionScan;

/// An iterator over primary keys and documents as a transaction sees them. It ends after an error.
/// The transaction cannot write while there is one.
pub struct TransactionDocumentScan<'t> {
    scan: TransactionScan<'t>,
    stored: Stored,
    has_failed: bool,
}

impl<'t> TransactionDocumentScan<'t> {
    pub(super) fn new(stored: &Stored, scan: TransactionScan<'t>) -> Self {
        Self { scan, stored: stored.clone(), has_failed: false }
    }

    /// Returns the same documents from the last to the first. Call it before the first is taken.
    #[must_use]
    pub fn rev(self) -> Self {
        Self { scan: self.scan.rev(), ..self }
    }

    fn entry(&mut self) -> Result<Option<(Value, Document)>> {
        if !self.scan.advance()? {
            return Ok(None);
        }
        let key = decode::primary_key(&self.stored, self.scan.key())?;
        Ok(Some((key, decode::document(&self.stored, self.scan.value())?)))
    }
}

impl Iterator for TransactionDocumentScan<'_> {
    type Item = Result<(Value, Document)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.entry().transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}

/// An iterator over the entries of a typed keyspace as a transaction sees them. An entry that
/// cannot be decoded is an error, and the entries after it follow; after an error of reading the
/// iterator ends. The transaction cannot write while there is one.
pub struct TransactionTypedScan<'t, K, V, C = Serde> {
    scan: TransactionScan<'t>,
    typed: Typed<K, V, C>,
}

impl<'t, K, V, C> TransactionTypedScan<'t, K, V, C> {
    pub(super) fn new(typed: &Typed<K, V, C>, scan: TransactionScan<'t>) -> Self {
        Self { scan, typed: typed.clone() }
    }

    /// Returns the same entries from the last to the first. Call it before the first entry is
    /// taken.
    #[must_use]
    pub fn rev(self) -> Self {
        Self { scan: self.scan.rev(), ..self }
    }
}

impl<K: KeyCodec, V, C: Codec<V>> Iterator for TransactionTypedScan<'_, K, V, C> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.scan.advance() {
            Ok(true) => Some(self.typed.decode_entry(self.scan.key(), self.scan.value_bytes())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
