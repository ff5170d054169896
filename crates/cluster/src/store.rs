//! What the protocol needs of a distributed store: partitions of sorted rows, batches with
//! conditions inside one partition, and a catalog of named notes.
//!
//! All calls block. They are made by many threads at once.
//!
//! **Outcomes.** A call that changes something ends in one of four ways: it was applied; it was
//! refused, because a condition did not hold, and never will be applied; it failed with an error of
//! kind Unknown, and may have been applied, may still be applied later, or may never be; it failed
//! with another error (Unavailable for a cluster that cannot be reached), and never will be
//! applied. A store does not repeat a batch by itself: the protocol does, where that is safe.
//!
//! **Order.** The conditional calls ([`Store::batch`], [`Store::set_epoch`], [`Store::set_note`])
//! and the reads with [`Freshness::Serial`] of one partition, or of one note, have one order, which
//! agrees with real time. A read with [`Freshness::Settled`] sees everything that was applied by
//! calls that had returned before it began.

use flagstone::Value;
use flagstone::doc::Map;
use flagstone_base::{KeyRange, Moment, Result, Slice};

/// A partition: the rows that one batch can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The number of the generation of a collection. No number is used twice.
    pub generation: i32,
    /// The number of the bucket in the generation.
    pub bucket: i32,
}

/// What the rows of a partition are. They are sorted by their kind, then by their key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub i32);

impl Kind {
    /// One row for each writer, with the token of its last batch.
    pub const WRITERS: Self = Self(-3);
    /// What a copy into another generation knows: how far it has come, and its last batch.
    pub const COPIES: Self = Self(-4);
    /// The marks of loads.
    pub const LOADS: Self = Self(-1);
    /// The documents, by their stored keys. The entries of index `n` have kind `n`, from 1.
    pub const DOCUMENTS: Self = Self(0);

    /// The rows that say which documents, or which marks, were written under an epoch while they
    /// are copied into another generation. Each epoch has kinds of its own, which are removed at
    /// once.
    pub(crate) const fn changed(self, epoch: i32) -> Self {
        Self(self.0.wrapping_sub(3).wrapping_sub(epoch.wrapping_mul(2)))
    }
}

/// A random number that a batch gives to the rows it writes. No other batch has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; 8]);

/// The address of a row in its partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    pub kind: Kind,
    /// 1 byte to 65,535.
    pub key: Slice,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    pub key: Slice,
    /// Empty where only keys were asked for.
    pub value: Slice,
    /// The token of the batch that wrote it. Entries of indexes have none. `None` where only keys
    /// were asked for.
    pub token: Option<Token>,
    /// The moment from which readers leave the row out. The store returns it nevertheless, and may
    /// remove it by itself a day after.
    pub expiry: Option<Moment>,
}

/// How new a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Sees all calls that had returned (QUORUM).
    Settled,
    /// Has its place in the order of the conditional calls (SERIAL). Before it returns, a batch
    /// that had begun is either applied, or can be only by a new attempt.
    Serial,
}

/// Asks for rows by their keys.
#[derive(Clone, Debug)]
pub struct RowsRequest {
    pub partition: Partition,
    /// May be empty: then only the epoch is asked for.
    pub keys: Vec<RowKey>,
    pub freshness: Freshness,
}

/// Rows by their keys, and the epoch of their partition, all of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// `None` if none was ever set.
    pub epoch: Option<i32>,
    /// In the order of the keys.
    pub rows: Vec<Option<StoredRow>>,
}

/// Asks for the next rows of a range.
#[derive(Clone, Debug)]
pub struct PageRequest {
    pub partition: Partition,
    pub kind: Kind,
    pub range: KeyRange,
    /// Whether the rows come in descending order.
    pub is_reversed: bool,
    /// The most rows, at least 1.
    pub limit: usize,
    /// Whether the values and tokens are left out.
    pub keys_only: bool,
}

/// The next rows of a range, read with [`Freshness::Settled`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The epoch of the partition when the rows were read. `None` if none was ever set. A page
    /// without rows may have `None` in any case, if the store would have to read again to know it.
    pub epoch: Option<i32>,
    pub rows: Vec<StoredRow>,
    /// Whether the range has no more rows behind these. A page that is not the last has rows.
    pub is_last: bool,
}

/// What a row must be, so that a batch is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub row: RowKey,
    /// The token it must have. `None`: there must be no row, or one without a token.
    pub token: Option<Token>,
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets all of a row.
    Set { kind: Kind, row: StoredRow },
    /// Removes a row, if it is there.
    Delete(RowKey),
}

/// The most rows that a batch changes or expects. Each is a statement, of which Cassandra's
/// protocol counts 65,535 in a batch.
pub const STATEMENTS_MAX: usize = 65_500;
/// A batch with this many changes takes no more documents. One document makes at most 60,000, see
/// [`Catalog::changes`](flagstone::remote::Catalog::changes).
pub(crate) const STATEMENTS_FULL: usize = 5_000;

/// Changes of one partition, which are made all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub partition: Partition,
    /// What the epoch of the partition must be.
    pub epoch: i32,
    /// May be empty. At most one of a row.
    pub conditions: Vec<Condition>,
    /// At most one of a row.
    pub changes: Vec<Change>,
}

/// What became of a conditional call that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All changes were made.
    Applied,
    /// A condition did not hold: nothing was changed.
    Refused,
}

/// A note of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub version: i64,
    pub note: Slice,
}

/// A distributed store.
///
/// # Errors
/// Of all calls: Unavailable, Closed, Corruption for what cannot be decoded, Unsupported for a
/// store that lacks something; of those that change something also Unknown, as above.
pub trait Store: Send + Sync {
    /// Reads rows by their keys, of several partitions at once. Returns an answer for each request.
    fn rows(&self, requests: &[RowsRequest]) -> Vec<Result<Rows>>;

    /// Reads rows of ranges, of several partitions at once. Returns an answer for each request.
    fn pages(&self, requests: &[PageRequest]) -> Vec<Result<Page>>;

    /// Makes the changes of a batch if its epoch is that of the partition and all its conditions
    /// hold.
    fn batch(&self, batch: &Batch) -> Result<Outcome>;

    /// Sets the epoch of a partition if it is `expected`; `None` if none was ever set.
    fn set_epoch(&self, partition: Partition, expected: Option<i32>, new: i32) -> Result<Outcome>;

    /// Removes all rows of a partition without a condition. Its epoch stays. Called only for
    /// partitions whose epoch no batch has any more.
    fn remove_rows(&self, partition: Partition) -> Result<()>;

    /// Removes all rows of a kind without a condition. Called only for kinds that no batch with the
    /// epoch of the partition writes.
    fn remove_kind(&self, partition: Partition, kind: Kind) -> Result<()>;

    /// Reads a note of the catalog.
    fn note(&self, name: &str, freshness: Freshness) -> Result<Option<Record>>;

    /// Reads the version of a note alone, which may be cheaper.
    fn version(&self, name: &str, freshness: Freshness) -> Result<Option<i64>> {
        Ok(self.note(name, freshness)?.map(|record| record.version))
    }

    /// Reads rows as [`Store::rows`], and at the same time the version of a note, settled.
    fn rows_and_version(
        &self,
        requests: &[RowsRequest],
        name: &str,
    ) -> (Vec<Result<Rows>>, Result<Option<i64>>) {
        (self.rows(requests), self.version(name, Freshness::Settled))
    }

    /// Reads all notes of the catalog, in any order.
    fn notes(&self) -> Result<Vec<(String, Record)>>;

    /// Sets a note if its version is `expected`; `None` if there is none. Notes are never removed.
    fn set_note(&self, name: &str, expected: Option<i64>, new: &Record) -> Result<Outcome>;

    /// Returns what is known of the machines of the store, for people.
    ///
    /// # Errors
    /// Unavailable, Closed.
    fn facts(&self) -> Result<Value> {
        Ok(Value::Map(Map::new()))
    }

    /// Ends the connections. Later calls fail with Closed.
    fn close(&self) {}
}
