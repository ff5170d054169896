//! Short ways to write batches and to read.

use flagstone_base::{KeyRange, Moment, Slice};
use flagstone_cluster::store::{
    Batch, Change, Condition, Freshness, Kind, Outcome, Page, PageRequest, Partition, RowKey, Rows,
    RowsRequest, Store, StoredRow, Token,
};

/// The epoch of the partitions of these tests.
pub(crate) const EPOCH: i32 = 3;

/// The token of this number.
pub(crate) fn token(n: u64) -> Token {
    Token(n.to_be_bytes())
}

pub(crate) fn row_key(kind: i32, key: impl AsRef<[u8]>) -> RowKey {
    RowKey { kind: Kind(kind), key: Slice::copy_of(key.as_ref()) }
}

/// A row with the token of this number; 0 for none.
pub(crate) fn row(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, number: u64) -> StoredRow {
    StoredRow {
        key: Slice::copy_of(key.as_ref()),
        value: Slice::copy_of(value.as_ref()),
        token: (number > 0).then(|| token(number)),
        expiry: None,
    }
}

pub(crate) fn expiring(row: StoredRow, expiry: Moment) -> StoredRow {
    StoredRow { expiry: Some(expiry), ..row }
}

/// A partition of a test.
#[derive(Clone, Copy)]
pub(crate) struct Place<'s> {
    pub(crate) store: &'s dyn Store,
    pub(crate) partition: Partition,
}

impl<'s> Place<'s> {
    /// A partition with [`EPOCH`].
    pub(crate) fn new(store: &'s dyn Store, generation: i32, bucket: i32) -> Self {
        let place = Self { store, partition: Partition { generation, bucket } };
        assert_eq!(place.set_epoch(None, EPOCH), Outcome::Applied);
        place
    }

    pub(crate) fn set_epoch(&self, expected: Option<i32>, new: i32) -> Outcome {
        self.store.set_epoch(self.partition, expected, new).unwrap()
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> Parts<'s> {
        let batch = Batch {
            partition: self.partition,
            epoch: EPOCH,
            conditions: Vec::new(),
            changes: Vec::new(),
        };
        Parts { store: self.store, batch }
    }

    /// Reads rows by their keys.
    pub(crate) fn read(&self, keys: &[RowKey], freshness: Freshness) -> Rows {
        let (partition, keys) = (self.partition, keys.to_vec());
        let request = RowsRequest { partition, keys, freshness };
        self.store.rows(&[request]).remove(0).unwrap()
    }

    /// Reads a document.
    pub(crate) fn get(&self, key: impl AsRef<[u8]>) -> Option<StoredRow> {
        self.read(&[row_key(0, key)], Freshness::Settled).rows.remove(0)
    }

    pub(crate) fn page(&self, request: PageRequest) -> Page {
        self.store.pages(&[request]).remove(0).unwrap()
    }

    /// A request for all rows of a kind, in ascending order.
    pub(crate) fn all(&self, kind: i32) -> PageRequest {
        PageRequest {
            partition: self.partition,
            kind: Kind(kind),
            range: KeyRange::ALL,
            is_reversed: false,
            limit: 1000,
            keys_only: false,
        }
    }

    /// Returns the keys of a kind as text.
    pub(crate) fn keys(&self, kind: i32) -> Vec<String> {
        keys(&self.page(self.all(kind)))
    }
}

/// Returns the keys of a page as text.
pub(crate) fn keys(page: &Page) -> Vec<String> {
    page.rows.iter().map(|row| String::from_utf8_lossy(&row.key).into_owned()).collect()
}

/// A batch that is being made.
pub(crate) struct Parts<'s> {
    store: &'s dyn Store,
    pub(crate) batch: Batch,
}

impl Parts<'_> {
    pub(crate) fn epoch(mut self, epoch: i32) -> Self {
        self.batch.epoch = epoch;
        self
    }

    /// Adds the condition that a row has the token of this number; 0 for none.
    pub(crate) fn when(mut self, kind: i32, key: impl AsRef<[u8]>, number: u64) -> Self {
        let token = (number > 0).then(|| token(number));
        self.batch.conditions.push(Condition { row: row_key(kind, key), token });
        self
    }

    pub(crate) fn set(mut self, kind: i32, row: StoredRow) -> Self {
        self.batch.changes.push(Change::Set { kind: Kind(kind), row });
        self
    }

    pub(crate) fn delete(mut self, kind: i32, key: impl AsRef<[u8]>) -> Self {
        self.batch.changes.push(Change::Delete(row_key(kind, key)));
        self
    }

    pub(crate) fn send(self) -> Outcome {
        self.store.batch(&self.batch).unwrap()
    }

    #[track_caller]
    pub(crate) fn applied(self) {
        assert_eq!(self.send(), Outcome::Applied);
    }

    #[track_caller]
    pub(crate) fn refused(self) {
        assert_eq!(self.send(), Outcome::Refused);
    }
}

/// Returns another partition, which is not used yet.
pub(crate) fn other(partition: Partition) -> Partition {
    Partition { bucket: partition.bucket + 1000, ..partition }
}
