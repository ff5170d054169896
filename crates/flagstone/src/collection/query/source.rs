//! What a query reads: a snapshot, a transaction, or a cluster.

use crate::collection::Stored;
use crate::collection::index::{IndexRange, UsableIndex};
use crate::remote::{Area, Remote, RemoteRows, unsupported};
use crate::shard::Shard;
use flagstone_base::key::KeyRange;
use flagstone_base::{Result, SeqNo, Slice};
use flagstone_doc::Direction;
use flagstone_engine::{Scan, Snapshot, Transaction, TransactionScan};
use std::collections::VecDeque;
use std::sync::Arc;

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
pub(super) enum QuerySource<'t> {
    Snapshot(Snapshot),
    Transaction(&'t Transaction),
    /// Where plans of the transaction are compared. That is no read of it.
    Probe(&'t Transaction),
    /// A cluster, whose rows are of several moments, and how many the query takes, if that is
    /// known.
    Remote(Arc<dyn Remote>, Option<u64>),
}

impl<'t> Reads<'t> {
    /// Returns where a query reads. In a cluster, it reads the catalog again: a plan rests on the
    /// indexes, and on what was seen in documents that were written before.
    pub(super) fn source(&self, stored: &Stored) -> Result<QuerySource<'t>> {
        Ok(match (self, stored.remote()) {
            (Self::Now, Some(remote)) => {
                let _newest = remote.refresh()?;
                QuerySource::Remote(Arc::clone(remote), None)
            }
            (Self::Now, None) => QuerySource::Snapshot(stored.keyspace()?.snapshot()),
            (_, Some(_)) => {
                return Err(unsupported(
                    "a query of a snapshot or a transaction",
                    "Collection::find",
                ));
            }
            (Self::Snapshot(snapshot), None) => QuerySource::Snapshot(snapshot.clone()),
            (Self::Transaction(transaction), None) => QuerySource::Transaction(transaction),
        })
    }

    /// As [`Reads::source`], for a query that calls [`QuerySource::settle`] before it returns
    /// anything: in a cluster, the catalog is not read before the query, but beside its reads.
    pub(super) fn unsettled_source(&self, stored: &Stored) -> Result<QuerySource<'t>> {
        match (self, stored.remote()) {
            (Self::Now, Some(remote)) => Ok(QuerySource::Remote(remote.for_query()?, None)),
            _ => self.source(stored),
        }
    }
}

impl<'t> QuerySource<'t> {
    /// Returns once it is certain that the plan fits the catalog: see
    /// [`Remote::settle`](crate::remote::Remote::settle).
    ///
    /// # Errors
    /// InvalidInput if it does not: [`planned`](super::plan::planned) makes another plan.
    pub(super) fn settle(&self) -> Result<()> {
        match self {
            Self::Remote(remote, _) => remote.settle(),
            _ => Ok(()),
        }
    }

    /// The same, to compare plans. What is used of that must be noted.
    pub(super) fn probing(&self) -> Self {
        match self {
            Self::Snapshot(snapshot) => Self::Snapshot(snapshot.clone()),
            Self::Transaction(transaction) | Self::Probe(transaction) => Self::Probe(transaction),
            Self::Remote(remote, most) => Self::Remote(Arc::clone(remote), *most),
        }
    }

    /// The same, for a query that takes this many rows.
    pub(super) fn taking(&self, most: Option<u64>) -> Self {
        match self {
            Self::Remote(remote, _) => Self::Remote(Arc::clone(remote), most),
            other => other.clone(),
        }
    }

    /// Returns how many rows the query takes, if that is known and tells what to read.
    pub(super) fn most(&self) -> Option<usize> {
        match self {
            Self::Remote(_, most) => most.and_then(|most| usize::try_from(most).ok()),
            _ => None,
        }
    }

    /// The same, for a query of the documents of a shard, which looks at their keys itself.
    pub(super) fn of_shard(self, shard: Shard) -> Self {
        match self {
            Self::Remote(remote, most) => Self::Remote(remote.part(shard), most),
            other => other,
        }
    }

    /// Scans the documents of ranges of stored keys, which ascend, one range after another.
    pub(super) fn scan(
        &self,
        stored: &Stored,
        ranges: VecDeque<KeyRange>,
        ordered: Ordering,
    ) -> Result<SourceScan<'t>> {
        let mut scan = SourceScan {
            stored: stored.clone(),
            source: self.clone(),
            ordered,
            left: ranges,
            current: None,
        };
        // Errors of the first range are reported at once.
        scan.next_range()?;
        Ok(scan)
    }

    fn scan_one(&self, stored: &Stored, range: KeyRange, ordered: Ordering) -> Result<OneScan<'t>> {
        Ok(match self {
            Self::Snapshot(snapshot) => {
                let scan = snapshot.scan(stored.keyspace()?, range)?;
                OneScan::Snapshot(match ordered {
                    Ordering::ByKey(Direction::Ascending) => scan,
                    Ordering::ByKey(Direction::Descending) => scan.rev(),
                    Ordering::Any => scan.unordered(),
                    Ordering::AnyInBulk => scan.unordered().without_filling_cache(),
                })
            }
            Self::Transaction(transaction) | Self::Probe(transaction) => {
                let scan = match self {
                    Self::Probe(_) => transaction.probe(stored.keyspace()?, range)?,
                    _ => transaction.scan(stored.keyspace()?, range)?,
                };
                let is_reverse = ordered == Ordering::ByKey(Direction::Descending);
                OneScan::Transaction(Box::new(if is_reverse { scan.rev() } else { scan }))
            }
            Self::Remote(remote, most) => {
                let scan = RemoteRows::new(remote, Area::Documents, range).most(*most);
                OneScan::Remote(match ordered {
                    Ordering::ByKey(Direction::Ascending) => scan,
                    Ordering::ByKey(Direction::Descending) => scan.rev(),
                    Ordering::Any | Ordering::AnyInBulk => scan.unordered(),
                })
            }
        })
    }

    /// Returns the stored document of a stored key.
    pub(super) fn get(&self, stored: &Stored, key: &[u8]) -> Result<Option<Slice>> {
        match self {
            Self::Snapshot(snapshot) => snapshot.get(stored.keyspace()?, key),
            Self::Transaction(transaction) | Self::Probe(transaction) => {
                transaction.get(stored.keyspace()?, key)
            }
            Self::Remote(..) => stored.get(key),
        }
    }

    /// Returns the cluster that is read, where documents are fetched several at once.
    pub(super) fn remote(&self) -> Option<&Arc<dyn Remote>> {
        match self {
            Self::Remote(remote, _) => Some(remote),
            _ => None,
        }
    }

    /// Returns whether the entries of an index and the documents that they lead to are read as of
    /// one moment.
    pub(super) const fn is_of_one_moment(&self) -> bool {
        !matches!(self, Self::Remote(..))
    }

    /// The last SeqNo that is seen.
    pub(super) fn seqno(&self) -> SeqNo {
        match self {
            Self::Snapshot(snapshot) => snapshot.seqno(),
            Self::Transaction(transaction) | Self::Probe(transaction) => transaction.seqno(),
            // Complete indexes of a cluster serve all readers.
            Self::Remote(..) => SeqNo::new(0),
        }
    }

    /// Returns whether only commits are seen.
    pub(super) fn has_no_own_writes(&self) -> bool {
        match self {
            Self::Snapshot(_) | Self::Remote(..) => true,
            Self::Transaction(transaction) | Self::Probe(transaction) => transaction.is_empty(),
        }
    }

    /// Notes that what was read rests on `index`: that it is there, and on what its documents are
    /// like, whose number was `then` before that was looked at.
    pub(super) fn rest_on(&self, index: &UsableIndex, then: u64) {
        if let (Self::Transaction(transaction), Some(premise), Some(core)) =
            (self, index.premise(), index.core())
        {
            transaction.note_premise(core, premise, then);
        }
    }

    /// Notes that entries of `index` were read, by a probe.
    pub(super) fn note_range(&self, index: &UsableIndex, range: &IndexRange) {
        if let (Self::Transaction(transaction), Some(core)) = (self, index.core()) {
            transaction.note_range(core, range.keys());
        }
    }

    /// The history of the database, which tokens carry.
    pub(super) fn history(&self, stored: &Stored) -> Result<u64> {
        let version = match self {
            Self::Snapshot(snapshot) => snapshot.version(),
            Self::Transaction(_) | Self::Probe(_) => stored.keyspace()?.snapshot().version(),
            Self::Remote(remote, _) => return Ok(remote.history()),
        };
        Ok(version.history())
    }
}

/// The order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordering {
    /// That of the keys.
    ByKey(Direction),
    /// The one that costs least.
    Any,
    /// The same, and the cache stays as it is.
    AnyInBulk,
}

/// A scan of stored documents.
pub(super) struct SourceScan<'t> {
    stored: Stored,
    source: QuerySource<'t>,
    ordered: Ordering,
    /// The ranges that are still to be read.
    left: VecDeque<KeyRange>,
    current: Option<OneScan<'t>>,
}

/// A scan of one range.
enum OneScan<'t> {
    Snapshot(Scan),
    Transaction(Box<TransactionScan<'t>>),
    Remote(RemoteRows),
}

impl SourceScan<'_> {
    fn next_range(&mut self) -> Result<()> {
        let next = match self.ordered {
            Ordering::ByKey(Direction::Descending) => self.left.pop_back(),
            _ => self.left.pop_front(),
        };
        self.current = match next {
            Some(range) => Some(self.source.scan_one(&self.stored, range, self.ordered)?),
            None => None,
        };
        Ok(())
    }

    pub(super) fn advance(&mut self) -> Result<bool> {
        loop {
            let has_next = match &mut self.current {
                None => return Ok(false),
                Some(OneScan::Snapshot(scan)) => scan.advance()?,
                Some(OneScan::Transaction(scan)) => scan.advance()?,
                Some(OneScan::Remote(scan)) => scan.advance()?,
            };
            if has_next {
                return Ok(true);
            }
            self.next_range()?;
        }
    }

    /// Moves to documents that follow and are quick to reach, as [`Scan::visit_near`].
    #[inline]
    pub(super) fn visit_near(
        &mut self,
        most: usize,
        visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> usize {
        match &mut self.current {
            Some(OneScan::Snapshot(scan)) => scan.visit_near(most, visit),
            _ => 0,
        }
    }

    pub(super) fn key(&self) -> &[u8] {
        match &self.current {
            None => &[],
            Some(OneScan::Snapshot(scan)) => scan.key(),
            Some(OneScan::Transaction(scan)) => scan.key(),
            Some(OneScan::Remote(scan)) => scan.key(),
        }
    }

    /// The document, in place.
    pub(super) fn value_bytes(&self) -> &[u8] {
        match &self.current {
            None => &[],
            Some(OneScan::Snapshot(scan)) => scan.value_bytes(),
            Some(OneScan::Transaction(scan)) => scan.value_bytes(),
            Some(OneScan::Remote(scan)) => scan.value(),
        }
    }

    pub(super) fn value(&self) -> Slice {
        match &self.current {
            None => Slice::EMPTY,
            Some(OneScan::Snapshot(scan)) => scan.value(),
            Some(OneScan::Transaction(scan)) => scan.value(),
            Some(OneScan::Remote(scan)) => scan.value().clone(),
        }
    }

    pub(super) fn park(&mut self) {
        if let Some(OneScan::Snapshot(scan)) = &mut self.current {
            scan.park();
        }
    }
}
