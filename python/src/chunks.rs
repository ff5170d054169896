//! Entries as a transaction sees them, read chunk by chunk: the transaction can write between two.

use crate::through::Current;
use flagstone::{Collection, Document, Keyspace, Result, Slice, Transaction, Value};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// The entries of a chunk.
const CHUNK: usize = 256;

/// How a transaction reads a keyspace or a collection.
pub(crate) trait Chunked: Send {
    type Key: Clone + Send;
    type Item: Send;

    /// Returns the first entries of a range, from its end if it is read backwards.
    fn read(
        &self,
        transaction: &Transaction,
        range: (Bound<Self::Key>, Bound<Self::Key>),
        is_reverse: bool,
        most: usize,
    ) -> Result<Vec<(Self::Key, Self::Item)>>;
}

/// An iterator over a range as a transaction sees it.
pub(crate) struct Chunks<C: Chunked> {
    pub(crate) transaction: Arc<Current>,
    pub(crate) of: C,
    pub(crate) range: (Bound<C::Key>, Bound<C::Key>),
    pub(crate) is_reverse: bool,
    pub(crate) ready: VecDeque<(C::Key, C::Item)>,
    pub(crate) has_ended: bool,
}

impl<C: Chunked> Iterator for Chunks<C> {
    type Item = Result<(C::Key, C::Item)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() && !self.has_ended {
            let read = self
                .transaction
                .with(|tx| self.of.read(tx, self.range.clone(), self.is_reverse, CHUNK));
            let entries = match read {
                Ok(entries) => entries,
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
            };
            self.has_ended = entries.len() < CHUNK;
            if let Some((last, _)) = entries.last() {
                let after = Bound::Excluded(last.clone());
                *(if self.is_reverse { &mut self.range.1 } else { &mut self.range.0 }) = after;
            }
            self.ready = entries.into();
        }
        self.ready.pop_front().map(Ok)
    }
}

impl Chunked for Keyspace {
    type Key = Slice;
    type Item = Slice;

    fn read(
        &self,
        transaction: &Transaction,
        range: (Bound<Slice>, Bound<Slice>),
        is_reverse: bool,
        most: usize,
    ) -> Result<Vec<(Slice, Slice)>> {
        let scan = transaction.scan(self, range);
        if is_reverse { scan.rev().take(most).collect() } else { scan.take(most).collect() }
    }
}

impl Chunked for Collection {
    type Key = Value;
    type Item = Document;

    fn read(
        &self,
        transaction: &Transaction,
        range: (Bound<Value>, Bound<Value>),
        is_reverse: bool,
        most: usize,
    ) -> Result<Vec<(Value, Document)>> {
        let scan = transaction.scan(self, range);
        if is_reverse { scan.rev().take(most).collect() } else { scan.take(most).collect() }
    }
}
