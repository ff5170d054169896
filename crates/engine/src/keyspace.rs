//! A keyspace: a named, ordered map of byte keys to byte values, spread over partitions.

use crate::change;
use crate::commit::{Admitted, Batch, Effect};
use crate::handle::Handle;
use crate::history::VersionToken;
use crate::hold::{self, Hold};
use crate::ingest::Ingest;
use crate::keyspace_core::KeyspaceCore;
use crate::options::{Durability, Options, Routing};
use crate::parts::Parts;
use crate::read::{Pin, Scan, Snapshot, TryGet, count};
use crate::scratch::Scratch;
use crate::write;
use flagstone_base::key::{KeyRange, check_key};
use flagstone_base::{ErrorKind, KeyspaceId, Kind, Moment, Result, Slice};
use flagstone_tree::{GetResult, Look};
use std::fmt;
use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

/// A handle of a keyspace. Cheap to clone; usable from any thread; keeps the database open.
#[derive(Clone)]
pub struct Keyspace {
    handle: Arc<Handle>,
    core: Arc<KeyspaceCore>,
}

impl Keyspace {
    pub(crate) const fn new(handle: Arc<Handle>, core: Arc<KeyspaceCore>) -> Self {
        Self { handle, core }
    }

    #[cfg(test)]
    pub(crate) const fn core(&self) -> &Arc<KeyspaceCore> {
        &self.core
    }

    #[cfg(test)]
    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    fn parts(&self) -> &Parts {
        self.handle.parts()
    }

    /// Counts a writer of `key` as one that had to wait for others, for tests, in which too few do.
    #[doc(hidden)]
    pub fn note_wait(&self, key: &[u8]) {
        self.core.layout().tree_of(key, self.core.hash(key)).note_wait(key);
    }

    /// The options that the database was opened with.
    pub fn options(&self) -> &Options {
        &self.parts().core.setup().options
    }

    /// The most bytes that a batch may take.
    pub fn batch_bytes_max(&self) -> u64 {
        self.parts().core.setup().batch_bytes_max()
    }

    /// Creates the temporary files of the database.
    pub fn scratch(&self) -> &Arc<Scratch> {
        &self.parts().scratch
    }

    /// A snapshot of all keyspaces as of now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.handle)
    }

    /// Identifies the keyspace in its database, also under another name. Ids are never reused.
    pub fn id(&self) -> KeyspaceId {
        self.core.id
    }

    /// The name of the keyspace now: [`Engine::rename_keyspace`](crate::Engine::rename_keyspace)
    /// changes it.
    pub fn name(&self) -> String {
        self.core.name()
    }

    /// How the keys are spread over partitions.
    pub fn routing(&self) -> Routing {
        self.core.record().routing()
    }

    /// Sets `key` to `value`, with the database's durability.
    ///
    /// # Errors
    /// InvalidInput, OutOfSpace, Io, Poisoned, Closed.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Returns the value of `key`, or `None` if it is absent.
    ///
    /// # Errors
    /// InvalidInput, Io, Corruption, Closed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        check_key(key)?;
        let reads = &self.parts().reads;
        Ok(reads.get_found(&self.core, key, self.core.hash(key), None)?.value)
    }

    /// Returns the value of `key` if memory can tell: no file is opened or read.
    ///
    /// # Errors
    /// Same as [`Keyspace::get`].
    pub fn try_get(&self, key: impl AsRef<[u8]>) -> Result<TryGet<Slice>> {
        let key = key.as_ref();
        check_key(key)?;
        let reads = &self.parts().reads;
        let found = reads.try_look_found(&self.core, key, self.core.hash(key), None)?;
        Ok(found
            .map_or(TryGet::WouldRead, |found| found.value.map_or(TryGet::Absent, TryGet::Found)))
    }

    /// Calls `read` with the value of `key` where it is stored, and returns what it returns; `None`
    /// if the key is absent. A value in a memtable is not copied, unlike by [`Keyspace::get`]; one
    /// that is folded of merge operands is made first.
    ///
    /// # Errors
    /// Same as [`Keyspace::get`].
    pub fn look<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let key = key.as_ref();
        check_key(key)?;
        let (reads, hash) = (&self.parts().reads, self.core.hash(key));
        let looked = look_by(read, |look| {
            reads.look_found(&self.core, key, hash, None, Some(look)).map(Some)
        })?;
        Ok(looked.flatten())
    }

    /// As [`Keyspace::look`], if memory can tell: no file is opened or read.
    ///
    /// # Errors
    /// Same as [`Keyspace::get`].
    pub fn try_look<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<TryGet<R>> {
        let key = key.as_ref();
        check_key(key)?;
        let (reads, hash) = (&self.parts().reads, self.core.hash(key));
        let looked = look_by(read, |look| reads.try_look_found(&self.core, key, hash, Some(look)))?;
        Ok(looked.map_or(TryGet::WouldRead, |read| read.map_or(TryGet::Absent, TryGet::Found)))
    }

    /// Returns the value of `key` with a token of the write that stored it.
    ///
    /// # Errors
    /// Same as [`Keyspace::get`].
    pub fn get_versioned(&self, key: impl AsRef<[u8]>) -> Result<Option<(VersionToken, Slice)>> {
        let key = key.as_ref();
        check_key(key)?;
        let parts = self.parts();
        let found = parts.reads.get_found(&self.core, key, self.core.hash(key), None)?;
        let token = |seqno| VersionToken { history: parts.core.history.id, seqno };
        Ok(found.seqno.map(token).zip(found.value))
    }

    /// Returns the moment from which on `key` is absent; `None` if it has no expiry, or is absent
    /// now.
    ///
    /// # Errors
    /// Same as [`Keyspace::get`].
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Moment>> {
        check_key(key)?;
        if !self.core.expires() {
            self.parts().core.health.check_open()?;
            return self.core.check_readable().map(|()| None);
        }
        let found = self.parts().reads.get_found(&self.core, key, self.core.hash(key), None)?;
        Ok(found.lives_until())
    }

    /// Removes `key` without reading it.
    ///
    /// # Errors
    /// Same as [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(Kind::Delete, key.as_ref(), b"")
    }

    /// Removes `key`. Returns whether it was present.
    ///
    /// # Errors
    /// Same as [`Keyspace::put`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        check_key(key)?;
        self.read_modify_write(key, |old| Ok(old.map(|_| (Kind::Delete, Vec::new()))))
    }

    /// Removes all keys of `range` at once, with one entry per partition.
    ///
    /// # Errors
    /// Same as [`Keyspace::put`].
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.delete_keys(owned_range(&range))
    }

    /// Like [`Keyspace::delete_range`], with owned bounds.
    ///
    /// # Errors
    /// Same as [`Keyspace::put`].
    pub fn delete_keys(&self, range: KeyRange) -> Result<()> {
        let mut batch = Batch::default();
        batch.delete_keys(&self.core, range)?;
        if batch.is_empty() { Ok(()) } else { write::commit_batch(self.parts(), &batch) }
    }

    /// Removes all keys, here and in all keyspaces that this one owns: one entry per partition in
    /// the log, and then one edit that removes tables and memtables without reading them. When the
    /// call returns, the removal survives a power cut.
    ///
    /// # Errors
    /// Same as [`Keyspace::put`]; InvalidInput inside a callback.
    pub fn clear(&self) -> Result<()> {
        let (parts, mut batch) = (self.parts(), Batch::default());
        batch.delete_keys(&self.core, KeyRange::ALL)?;
        let cleared = change::clear(parts, || {
            // The batch waits for no room, since it frees more than it takes.
            let committed = write::commit(parts, &batch.as_write(), Durability::Group, None, None)?;
            Ok((committed, vec![Arc::clone(&self.core)]))
        });
        match cleared {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                change::clear(parts, || hold::empty(&self.handle, &self.core, batch))
            }
            cleared => cleared,
        }
    }

    /// Returns the error with which every write of the caller would fail.
    ///
    /// # Errors
    /// InvalidInput inside a closure that may not write, if the keyspace was dropped, or if the
    /// database is open for reading only; Poisoned, Closed.
    pub fn check_may_write(&self) -> Result<()> {
        let health = &self.parts().core.health;
        health.check_may_write()?;
        health.check_open_for_writing()?;
        self.core.check_not_dropped()
    }

    /// Folds `operand` into the value of `key`, without reading the value. After the first expiry
    /// of the keyspace it is read.
    ///
    /// # Errors
    /// InvalidInput if the keyspace has no fold; otherwise those of [`Keyspace::put`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.core.check_fold()?;
        self.write_one(Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Makes the fold `to` that of the keyspace, whose fold is `from`: a version of it that reads
    /// the operands of `from`, too. The catalog holds the new name when this returns.
    ///
    /// # Errors
    /// InvalidInput if the keyspace has another fold, or was dropped; Io, OutOfSpace, Poisoned,
    /// Closed.
    pub fn upgrade_fold(&self, from: &str, to: &str) -> Result<()> {
        change::upgrade_fold(self.parts(), &self.core, from, to)
    }

    /// Scans the entries of `range` in key order, as of one moment over all partitions.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.scan_range(owned_range(&range))
    }

    /// Like [`Keyspace::scan`], with owned bounds.
    pub fn scan_range(&self, range: KeyRange) -> Scan {
        Scan::new(&self.core, range, Pin::new(&self.handle))
    }

    /// Puts, deletes or merges `key`.
    ///
    /// # Errors
    /// Same as [`Keyspace::put`].
    pub fn write_one(&self, effect: impl Into<Effect>, key: &[u8], value: &[u8]) -> Result<()> {
        write::write_one(self.parts(), &self.core, effect.into(), key, value)
    }

    /// Waits for room for a value of about `bytes` that is still to be encoded. Returns `None` for
    /// a small value, which needs no admission.
    ///
    /// # Errors
    /// Same as [`Keyspace::put`].
    #[inline]
    pub fn admission_for(&self, key: &[u8], bytes: usize) -> Result<Option<Admitted<'_>>> {
        write::admission_for(self.parts(), &self.core, key, bytes)
    }

    /// Sets `key` to `value`, whose buffer it takes over, until `expiry` if that is given. After a
    /// Conflict `value` is what it was. `admitted` is the result of [`Keyspace::admission_for`], if
    /// that was called.
    ///
    /// # Errors
    /// Same as [`Keyspace::put`].
    pub fn put_encoded(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        expiry: Option<Moment>,
        admitted: Option<Admitted<'_>>,
    ) -> Result<()> {
        write::put_encoded(self.parts(), &self.core, key, value, expiry, admitted)
    }

    /// Reads `key`, calls `change` to find out what to write (`None`: nothing), and writes it. No
    /// other write of the key comes between. Returns whether something was written.
    ///
    /// # Errors
    /// The error that `change` returns; otherwise those of [`Keyspace::put`].
    pub fn read_modify_write(
        &self,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>) -> Result<Option<(Kind, Vec<u8>)>>,
    ) -> Result<bool> {
        write::read_modify_write(self.parts(), &self.core, key, change)
    }

    /// Prepares `batch` for a commit that is completed under its locks: see [`Hold`].
    pub fn hold(&self, batch: Batch) -> Hold<'_> {
        Hold::new(&self.handle, batch)
    }

    /// Starts an ingest: see [`Ingest`].
    ///
    /// # Errors
    /// InvalidInput inside a callback, or if the keyspace was dropped; OutOfSpace, Io, Poisoned,
    /// Closed.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::start(&self.handle, &self.core)
    }

    /// Counts the keys by reading them all, on this thread and on as many more as compactions may
    /// use. Blocks that it reads do not go into the cache.
    ///
    /// # Errors
    /// Io, Corruption, Closed; InvalidInput if the keyspace was dropped meanwhile.
    pub fn count(&self) -> Result<u64> {
        count(&self.handle, &self.core)
    }
}

/// Batches and snapshots take a keyspace without its handle.
impl Deref for Keyspace {
    type Target = Arc<KeyspaceCore>;

    fn deref(&self) -> &Arc<KeyspaceCore> {
        &self.core
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyspace({:?})", self.core.name())
    }
}

/// Returns `range` with owned bounds.
pub fn owned_range<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
    KeyRange::of(range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref))
}

/// Returns what `read` returns for the value that `find` passes to it in place, or has folded;
/// `Some(None)` if `find` finds no value, and `None` if it cannot tell.
#[inline]
fn look_by<R>(
    read: impl FnOnce(&[u8]) -> R,
    find: impl FnOnce(Look<'_>) -> Result<Option<GetResult>>,
) -> Result<Option<Option<R>>> {
    let (mut read, mut result) = (Some(read), None);
    let mut look = |value: &[u8]| {
        if let Some(read) = read.take() {
            result = Some(read(value));
        }
    };
    let Some(found) = find(&mut look)? else { return Ok(None) };
    if let Some(folded) = &found.value {
        look(folded);
    }
    Ok(Some(result))
}
