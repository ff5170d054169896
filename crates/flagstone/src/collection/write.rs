//! The funnel: every write of a document passes here.
//!
//! ```text
//! put, JSON, structs ----------------------> put -------\
//! deletes, blind patches ------------------> one -------\
//! batches, bulk loads ---------------------> in_batch ---+--> the engine
//! deletes of ranges -----------------------> range -----/
//! clear -----------------------------------> clear -----/
//! update, remove, patches that read first -> rewrite ---/
//!
//! in a transaction: all of these ----------> in_transaction, rewrite --> a transaction
//! ```
//! Code that must see changes of documents (indexes, unique keys, a feed of changes) belongs here
//! and nowhere else. Each function asks with one atomic load whether the collection has indexes. If
//! it has, `index` reads the old documents under the locks of the commit and adds the changes of
//! the entries. A batch does so when it is committed.
//!
//! The engine refuses a write of the other path with Conflict if the first index was created
//! meanwhile; then the write is done again with the index.

use super::index::{self, Indexed};
pub(super) use super::rewrite::Rewrite;
use super::stored::Stored;
use crate::loads;
use crate::remote::{Remote, Write, unsupported};
use crate::write::{Destination, KeyChange, Own};
use flagstone_base::{Error, ErrorKind, KeyRange, Kind, Moment, Result};
use flagstone_engine::{Admitted, Batch};
use std::sync::Arc;

/// Documents of at least this many bytes are not copied by the commit.
const COPIED_MAX: usize = 64 << 10;

/// Waits for the admission of a document of about `bytes`, if it is large. Called before the
/// document is encoded, because that allocates its first copy.
pub(crate) fn admission_for<'a>(
    stored: &'a Stored,
    key: &[u8],
    bytes: usize,
) -> Result<Option<Admitted<'a>>> {
    if stored.remote().is_some() {
        return Ok(None);
    }
    stored.keyspace()?.admission_for(key, bytes.min(stored.document_bytes_max()))
}

/// Returns whether a write that failed with `error` must be done again with the indexes: the first
/// one was created after the write had looked.
fn was_indexed(stored: &Stored, error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && stored.is_indexed()
}

/// Sets the document of the encoded `key` to `bytes`. `admission` is what [`admission_for`]
/// returned, if it was called.
pub(crate) fn put(
    stored: &Stored,
    key: &[u8],
    mut bytes: Vec<u8>,
    expiry: Option<Moment>,
    admission: Option<Admitted<'_>>,
) -> Result<()> {
    if let Some(remote) = stored.remote() {
        return remote.put(key, &bytes, expiry);
    }
    if stored.is_indexed() {
        drop(admission);
        return index::one(stored, key, KeyChange::Put(&bytes, expiry));
    }
    if admission.is_some() || bytes.len() >= COPIED_MAX {
        return match stored.keyspace()?.put_encoded(key, &mut bytes, expiry, admission) {
            Err(error) if was_indexed(stored, &error) => {
                index::one(stored, key, KeyChange::Put(&bytes, expiry))
            }
            written => written,
        };
    }
    one(stored, key, KeyChange::Put(&bytes, expiry))
}

/// Changes the document of the encoded `key`, by itself.
pub(crate) fn one(stored: &Stored, key: &[u8], change: KeyChange<'_>) -> Result<()> {
    if let Some(remote) = stored.remote() {
        return match change {
            KeyChange::Put(bytes, expiry) => remote.put(key, bytes, expiry),
            KeyChange::Delete => {
                remote.rewrite(key, &mut |_old| Ok(Write::Delete)).map(|_was_there| ())
            }
            KeyChange::Merge(_) => {
                Err(unsupported("a patch without a read", "Collection::patch_if"))
            }
        };
    }
    if stored.is_indexed() {
        return index::one(stored, key, change);
    }
    let (effect, value) = change.entry();
    match stored.keyspace()?.write_one(effect, key, value) {
        Err(error) if was_indexed(stored, &error) => index::one(stored, key, change),
        written => written,
    }
}

/// Changes the document of the encoded `key` together with the rest of `batch`.
pub(crate) fn in_batch(
    stored: &Stored,
    batch: &mut Batch,
    key: &[u8],
    change: KeyChange<'_>,
) -> Result<()> {
    index::push_dated(stored, batch, key, change)
}

/// Changes the document of the encoded `key` in a transaction.
pub(crate) fn in_transaction(
    stored: &Stored,
    mut own: Own<'_>,
    key: &[u8],
    change: KeyChange<'_>,
) -> Result<()> {
    // Before it is looked up: an index that is created in between is a Conflict.
    own.transaction.note_set(stored.keyspace()?);
    if !stored.is_indexed() {
        let (effect, value) = change.entry();
        return own.transaction.write(stored.keyspace()?, effect, key, value);
    }
    match change {
        KeyChange::Put(bytes, expiry) => {
            Indexed::of(&mut own).write(stored, key, Some((bytes, expiry)))
        }
        KeyChange::Delete => Indexed::of(&mut own).write(stored, key, None),
        KeyChange::Merge(operand) => Indexed::of(&mut own).patch(stored, key, operand),
    }
}

/// Removes the documents of a range of encoded keys.
pub(crate) fn range(stored: &Stored, range: KeyRange) -> Result<()> {
    if let Some(remote) = stored.remote() {
        return remote.delete_range(&range);
    }
    let core = stored.keyspace()?;
    core.check_may_write()?;
    // Loads go on behind their marks if nothing is removed.
    let is_marked = loads::marks_of(stored.engine(), core.id())?.is_some();
    if is_marked && !core.scan_range(range.clone()).with_expired().advance()? {
        return Ok(());
    }
    end_loads(stored)?;
    let removed = remove_range(stored, range);
    end_loads(stored)?;
    removed
}

/// Removes the documents of a range of encoded keys that a transaction sees, one by one.
pub(crate) fn range_in_transaction(
    stored: &Stored,
    mut own: Own<'_>,
    range: KeyRange,
) -> Result<()> {
    let mut keys = Vec::new();
    let mut scan = own.transaction.scan(stored.keyspace()?, range)?;
    while scan.advance()? {
        keys.push(scan.key().to_vec());
    }
    drop(scan);
    if !keys.is_empty() {
        end_loads_in(stored, own.reborrowed())?;
    }
    keys.iter().try_for_each(|key| in_transaction(stored, own.reborrowed(), key, KeyChange::Delete))
}

/// Ends the marks of loads that were stopped, whose documents are removed. Called before a removal,
/// in case that it is cut short, and after it, in case that a load has begun meanwhile.
pub(crate) fn end_loads(stored: &Stored) -> Result<()> {
    if let Some(remote) = stored.remote() {
        return remote.end_loads();
    }
    loads::forget(stored.engine(), stored.keyspace()?.id())
}

/// As [`end_loads`], by a transaction.
pub(crate) fn end_loads_in(stored: &Stored, own: Own<'_>) -> Result<()> {
    let id = stored.keyspace()?.id();
    let Some(marks) = loads::marks_of(stored.engine(), id)? else { return Ok(()) };
    own.transaction.write(&marks, Kind::Delete, &loads::range_of(id).0, b"")
}

fn remove_range(stored: &Stored, range: KeyRange) -> Result<()> {
    if stored.is_indexed() {
        return index::remove_range(stored, range);
    }
    match stored.keyspace()?.delete_keys(range.clone()) {
        Err(error) if was_indexed(stored, &error) => index::remove_range(stored, range),
        removed => removed,
    }
}

/// Removes all documents. The engine empties the indexes by the same commit.
pub(crate) fn clear(stored: &Stored) -> Result<()> {
    end_loads(stored)?;
    match stored.remote() {
        Some(remote) => remote.clear()?,
        None => stored.keyspace()?.clear()?,
    }
    end_loads(stored)
}

/// Reads the document of the encoded `key` and does what `decide` returns. No other write of the
/// key comes between. Returns whether something was written.
pub(super) fn rewrite(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    decide: impl FnMut(Option<&[u8]>) -> Result<Rewrite>,
) -> Result<bool> {
    match (to, stored.remote()) {
        (Destination::Database, Some(remote)) => rewrite_remote(remote, key, decide),
        (to, _) => rewrite_here(stored, to, key, decide),
    }
}

/// As [`rewrite`], in a cluster: `decide` is called again if another write came first.
fn rewrite_remote(
    remote: &Arc<dyn Remote>,
    key: &[u8],
    mut decide: impl FnMut(Option<&[u8]>) -> Result<Rewrite>,
) -> Result<bool> {
    remote.rewrite(key, &mut |old| {
        let bytes = old.map(|row| &*row.document);
        Ok(match decide(bytes)? {
            Rewrite::Nothing => Write::Nothing,
            Rewrite::Delete => Write::Delete,
            Rewrite::Put(bytes) => Write::Put(bytes, old.and_then(|row| row.expiry)),
        })
    })
}

fn rewrite_here(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    decide: impl FnOnce(Option<&[u8]>) -> Result<Rewrite>,
) -> Result<bool> {
    match to {
        Destination::Transaction(mut own) => {
            // As in `in_transaction`.
            own.transaction.note_set(stored.keyspace()?);
            if stored.is_indexed() {
                return Indexed::of(&mut own).rewrite(stored, key, decide);
            }
            let change = |old: Option<&[u8]>| decide(old).map(Rewrite::entry);
            own.transaction.read_modify_write(stored.keyspace()?, key, change)
        }
        Destination::Database if stored.is_indexed() => index::rewrite(stored, key, decide),
        Destination::Database => rewrite_plain(stored, key, decide),
    }
}

fn rewrite_plain(
    stored: &Stored,
    key: &[u8],
    decide: impl FnOnce(Option<&[u8]>) -> Result<Rewrite>,
) -> Result<bool> {
    let mut decide = Some(decide);
    let change = |old: Option<&[u8]>| match decide.take() {
        Some(decide) => decide(old).map(Rewrite::entry),
        None => Ok(None),
    };
    let written = stored.keyspace()?.read_modify_write(key, change);
    match (written, decide) {
        (Err(error), Some(decide)) if was_indexed(stored, &error) => {
            index::rewrite(stored, key, decide)
        }
        (written, _) => written,
    }
}
