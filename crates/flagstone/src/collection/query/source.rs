//! What a query reads: a snapshot, or a transaction.

use crate::collection::Stored;
use flagstone_base::key::KeyRange;
use flagstone_base::{Result, SeqNo, Slice};
use flagstone_engine::{Scan, Snapshot, Transaction, TransactionScan};

/// Where a query is to read, before it runs.
#[derive(Clone)]
pub(crate) enum Reads<'t> {
    /// A new snapshot, taken when the query runs.
    Now,
    Snapshot(Snapshot),
    Transaction(&'t Transaction),
}

/// Where a query reads.
#[derive(Clone)]
pub(super) enum Source<'t> {
    Snapshot(Snapshot),
    Transaction(&'t Transaction),
}

impl<'t> Reads<'t> {
    pub(super) fn source(&self, stored: &Stored) -> Source<'t> {
        match self {
            Self::Now => Source::Snapshot(stored.bytes().snapshot()),
            Self::Snapshot(snapshot) => Source::Snapshot(snapshot.clone()),
            Self::Transaction(transaction) => Source::Transaction(transaction),
        }
    }
}

impl<'t> Source<'t> {
    /// Scans the documents of a range of stored keys: in the order of the keys, or, if `ordered` is
    /// not asked for, in the order that costs least.
    pub(super) fn scan(
        &self,
        stored: &Stored,
        range: KeyRange,
        ordered: bool,
    ) -> Result<SourceScan<'t>> {
        Ok(match self {
            Self::Snapshot(snapshot) => {
                let scan = snapshot.scan(stored.bytes(), range)?;
                SourceScan::Snapshot(if ordered { scan } else { scan.unordered() })
            }
            Self::Transaction(transaction) => {
                SourceScan::Transaction(Box::new(transaction.scan(stored.bytes(), range)?))
            }
        })
    }

    /// Returns the stored document of a stored key.
    pub(super) fn get(&self, stored: &Stored, key: &[u8]) -> Result<Option<Slice>> {
        match self {
            Self::Snapshot(snapshot) => snapshot.get(stored.bytes(), key),
            Self::Transaction(transaction) => transaction.get(stored.bytes(), key),
        }
    }

    /// The last SeqNo that is seen.
    pub(super) fn seqno(&self) -> SeqNo {
        match self {
            Self::Snapshot(snapshot) => snapshot.seqno(),
            Self::Transaction(transaction) => transaction.seqno(),
        }
    }

    /// Returns whether only commits are seen.
    pub(super) fn has_no_own_writes(&self) -> bool {
        match self {
            Self::Snapshot(_) => true,
            Self::Transaction(transaction) => transaction.is_empty(),
        }
    }

    /// The history of the database, which tokens carry.
    pub(super) fn history(&self, stored: &Stored) -> u64 {
        let version = match self {
            Self::Snapshot(snapshot) => snapshot.version(),
            Self::Transaction(_) => stored.bytes().snapshot().version(),
        };
        version.history()
    }
}

/// A scan of stored documents.
pub(super) enum SourceScan<'t> {
    Snapshot(Scan),
    Transaction(Box<TransactionScan<'t>>),
}

impl SourceScan<'_> {
    pub(super) fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Snapshot(scan) => scan.advance(),
            Self::Transaction(scan) => scan.advance(),
        }
    }

    pub(super) fn key(&self) -> &[u8] {
        match self {
            Self::Snapshot(scan) => scan.key(),
            Self::Transaction(scan) => scan.key(),
        }
    }

    /// The document, in place.
    pub(super) fn value_bytes(&self) -> &[u8] {
        match self {
            Self::Snapshot(scan) => scan.value_bytes(),
            Self::Transaction(scan) => scan.value_bytes(),
        }
    }

    pub(super) fn value(&self) -> Slice {
        match self {
            Self::Snapshot(scan) => scan.value(),
            Self::Transaction(scan) => scan.value(),
        }
    }

    pub(super) fn park(&mut self) {
        if let Self::Snapshot(scan) = self {
            scan.park();
        }
    }
}
