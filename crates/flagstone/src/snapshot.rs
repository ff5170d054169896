//! A snapshot: the database as of one moment.

use crate::args::{Key, KeyRange};
#[cfg(feature = "documents")]
use crate::collection::Collection;
#[cfg(feature = "documents")]
use crate::collection::query::{Find, IntoFilter, Reads};
use crate::scan::Scan;
use crate::space::Space;
use flagstone_base::Result;
use flagstone_engine::VersionToken;

/// All keyspaces as of one moment; [`Database::snapshot`](crate::Database::snapshot) takes one.
///
/// A snapshot holds a SeqNo, no memory and no files. But what was overwritten or deleted after it
/// stays on disk until the snapshot is dropped.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Json, Space};
/// let (kv, orders) = (db.keyspace("kv")?, db.collection("orders")?);
/// kv.put("a", "1")?;
/// orders.put(7, Json(r#"{"total":5}"#))?;
/// let before = db.snapshot();
/// kv.put("a", "2")?;
/// orders.delete(7)?;
///
/// assert_eq!(before.get(&kv, "a")?.as_deref(), Some(b"1".as_slice()));
/// assert_eq!(before.get(&orders, 7)?.and_then(|order| order.int("total")), Some(5));
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot(pub(crate) flagstone_engine::Snapshot);

impl Snapshot {
    /// Returns a token of the last write that the snapshot sees, for
    /// [`Expect::UnchangedSince`](crate::Expect::UnchangedSince).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Expect, ErrorKind, Space};
    /// let kv = db.keyspace("kv")?;
    /// let seen = db.snapshot();
    /// kv.put("a", "1")?;
    /// let mut batch = db.batch();
    /// batch.expect(&kv, "a", Expect::UnchangedSince(seen.version()))?;
    /// batch.put(&kv, "a", "2")?;
    /// assert_eq!(db.commit(batch).unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn version(&self) -> VersionToken {
        self.0.version()
    }

    /// Returns what `key` had in `space`: a [`Slice`](crate::Slice), a `V`, or a
    /// [`Document`](crate::Document).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// let before = db.snapshot();
    /// kv.put("a", "2")?;
    /// assert_eq!(before.get(&kv, "a")?.as_deref(), Some(b"1".as_slice()));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As the get of the space; InvalidInput for a space of another database.
    #[inline]
    pub fn get<S: Space>(&self, space: &S, key: impl Key<S>) -> Result<Option<S::Value>> {
        let found = self.0.get(space.engine_keyspace()?, key.key_bytes()?.as_ref())?;
        found.map(|bytes| space.read(bytes)).transpose()
    }

    /// Begins a query for the documents of a collection that matched `filter`. See
    /// [`Collection::find`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Space};
    /// let orders = db.collection("orders")?;
    /// orders.put(7, Json(r#"{"total":5}"#))?;
    /// let before = db.snapshot();
    /// orders.put(8, Json(r#"{"total":9}"#))?;
    /// assert_eq!(before.find(&orders, r#"{"total":{"$gt":1}}"#).count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    #[cfg(feature = "documents")]
    pub fn find(&self, collection: &Collection, filter: impl IntoFilter) -> Find<'static> {
        Find::new(&collection.0, Reads::Snapshot(self.0.clone()), filter.into_filter())
    }

    /// Returns the entries of `range` in `space` as they were, in the order of their keys. Errors
    /// come from the iterator: see [`Scan`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// let before = db.snapshot();
    /// kv.put("b", "2")?;
    /// assert_eq!((before.scan(&kv, ..).count(), kv.scan(..).count()), (1, 2));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    #[inline]
    pub fn scan<S: Space>(&self, space: &S, range: impl KeyRange<S>) -> Scan<'static, S> {
        let scan = range.key_range().and_then(|range| self.0.scan(space.engine_keyspace()?, range));
        Scan::new(scan, space.decoder())
    }
}
