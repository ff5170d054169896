//! Ingests: sorted entries that become tables directly.

use crate::args::{Key, NewValue};
use crate::keyspace::Keyspace;
use flagstone_base::Result;
use flagstone_engine::IngestReport;
use std::fmt;

/// Entries in the order of their keys, which go into tables directly, without log and memtable, and
/// become visible all at once. For loads of sorted data: every byte is written once.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Ingest, Space};
///
/// let kv = db.keyspace("words")?;
/// kv.put("banana", "old")?;
/// let mut ingest = Ingest::new(&kv)?;
/// for (word, value) in [("apple", "1"), ("banana", "2"), ("cherry", "3")] {
///     ingest.put(word, value)?;
/// }
/// assert_eq!(kv.get("apple")?, None, "nothing is visible yet");
/// let report = ingest.finish()?;
/// assert_eq!(report.entries, 3);
/// assert_eq!(kv.get("banana")?.as_deref(), Some(b"2".as_slice()));
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// # All or nothing
/// When [`Ingest::finish`] returns Ok, all entries are visible and survive a power cut, whatever
/// the [`Durability`](crate::Durability) of the database; so does everything that was acknowledged
/// before `finish` was called, unless the disk is full. After a crash before that moment, or if the
/// ingest is dropped, there is no trace of it; nor after an error, except one that
/// [`Ingest::finish`] names.
///
/// # Its place among other writes
/// The entries are one write, newer than everything before [`Ingest::finish`]: they replace older
/// values of their keys, also those that were put while the ingest was being filled. Snapshots
/// taken before do not see them. Conditions of batches see them, and merges fold onto them.
///
/// # Others meanwhile
/// While the ingest is filled, no other call waits for it. `finish` flushes the memtables of the
/// partitions that it adds tables to. Writers of these partitions wait for the last part of that
/// flush, and so do updates, conditions and range deletes of the whole keyspace. Then all commits
/// of the database wait for a sync of the manifest to become visible. Readers never wait.
///
/// # Resources
/// One table is written at a time with range partitions or a single partition. With hash partitions
/// each has one: an open file, some 300 KiB of buffers, and a share of a sixteenth of the memory
/// budget.
///
/// A keyspace of documents or of typed values cannot be ingested into.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Ingest, Space};
/// let kv = db.keyspace("kv")?;
/// kv.put("b", "old")?;
/// let mut ingest = Ingest::new(&kv)?;
/// ingest.put("a", "1")?;
/// ingest.put("b", "2")?;
/// assert!(ingest.put("a", "3").is_err());                     // not above "b": it is left out
/// assert_eq!((ingest.entries(), ingest.bytes()), (2, 4));
/// assert_eq!(kv.count()?, 1);                                 // nothing is visible yet
/// ingest.finish()?;
/// assert_eq!((kv.count()?, kv.get("b")?.as_deref()), (2, Some(b"2".as_slice())));
/// # Ok::<(), flagstone::Error>(())
/// ```
pub struct Ingest {
    inner: flagstone_engine::Ingest,
    keyspace: Keyspace,
}

impl Ingest {
    /// Starts an ingest into `keyspace`. Creates no file yet.
    ///
    /// # Errors
    /// InvalidInput if the keyspace was dropped, inside a callback, or if the database is open for
    /// reading only; OutOfSpace, Io, Poisoned, Closed.
    pub fn new(keyspace: &Keyspace) -> Result<Self> {
        Ok(Self { inner: keyspace.0.ingest()?, keyspace: keyspace.clone() })
    }

    /// Adds `key` with `value`, which may have an expiry ([`Expires`](crate::Expires)). Keys must
    /// come in strictly ascending order of their bytes.
    ///
    /// # Errors
    /// InvalidInput for a key that is not above the one before: the text names both. InvalidInput
    /// for a size out of bounds, as of [`Space::put`](crate::Space::put). The entry is left out
    /// then, and the ingest can go on. InvalidInput for a dropped keyspace, OutOfSpace, Io,
    /// Corruption, Poisoned, Closed: the ingest is over, its files are removed, and every later
    /// call returns the same error.
    #[inline]
    pub fn put(&mut self, key: impl Key<Keyspace>, value: impl NewValue<Keyspace>) -> Result<()> {
        let bytes = value.value_bytes(&self.keyspace)?;
        self.inner.put(key.key_bytes()?.as_ref(), &bytes, value.expiry())
    }

    /// Returns the number of entries so far.
    pub const fn entries(&self) -> u64 {
        self.inner.entries()
    }

    /// Returns the bytes of their keys and values.
    pub const fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    /// Makes all entries visible at once.
    ///
    /// # Errors
    /// The error that has ended the ingest; InvalidInput if the keyspace was dropped, or inside a
    /// callback; OutOfSpace, Io, Corruption, Poisoned, Closed. Then no entry is visible, and the
    /// files are removed. If the disk failed half-way in the manifest, a crash may show all
    /// entries; until that is ruled out, writes to the keyspace return Io.
    pub fn finish(self) -> Result<IngestReport> {
        self.inner.finish()
    }
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
