//! Commits of documents of indexed collections: the old documents are read under the locks of the
//! commit, and the changes of the indexes become a part of it.

use super::blind::is_blind;
use super::changes::{IndexChanges, Stated, expiry_after_drop, expiry_by_date};
use crate::collection::stored::Stored;
use crate::collection::write::Rewrite;
use crate::index::{Definition, IndexState};
use crate::write::KeyChange;
use flagstone_base::{Error, ErrorKind, KeyRange, Kind, Moment, Result};
use flagstone_engine::{
    Batch, Durability, Effect, Engine, HeldBatch, Keyspace, KeyspaceCore, OP_OVERHEAD, StoredPut,
    Ticket, TryCommit, Wait,
};
use std::sync::Arc;
use std::time::Duration;

/// Batches of at least this many bytes are not copied by a commit.
const COPIED_MAX: usize = 64 << 10;
/// After this time a batch that found no room is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// A step of the removal of a range has at most this many documents ..
const STEP_DOCUMENTS: usize = 1000;
/// .. and about this many bytes of keys.
const STEP_BYTES: u64 = 1 << 20;

/// Commits `batch`, with the changes of the indexes of its collections.
///
/// # Errors
/// Duplicate for a value that a unique index has already; InvalidInput for a document that an index
/// cannot hold; else as [`Engine::start`].
pub(crate) fn start(engine: &Engine, mut batch: Batch, durability: Durability) -> Result<Ticket> {
    if is_prepared(&batch) {
        return start_held(engine, batch, durability, Wait::Yes);
    }
    let started = if batch.bytes() >= COPIED_MAX {
        engine.start_owned(&mut batch, durability)
    } else {
        engine.start(&batch, durability, Wait::Yes)
    };
    match started {
        Err(error) if was_indexed(&batch, &error) => {
            start_held(engine, batch, durability, Wait::Yes)
        }
        started => started,
    }
}

/// Returns whether a commit of the batch depends on what is stored: it has collections with
/// indexes, or expiries by the dates of an index that may have been dropped.
fn is_prepared(batch: &Batch) -> bool {
    batch.has_owned() || batch.is_dated()
}

/// Returns whether a batch that failed with `error` must be prepared again: the first index of one
/// of its collections was created after the batch was looked at. If it was another Conflict, the
/// batch fails again.
fn was_indexed(batch: &Batch, error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && batch.has_owned()
}

/// As [`start`], but returns after which time to try again where that would wait for flushes or
/// compactions.
pub(crate) fn try_start(
    engine: &Engine,
    batch: &Batch,
    durability: Durability,
) -> Result<TryCommit> {
    if !is_prepared(batch) {
        match engine.try_start(batch, durability) {
            Err(error) if was_indexed(batch, &error) => {}
            started => return started,
        }
    }
    match start_held(engine, batch.copied(), durability, Wait::No) {
        Ok(ticket) => Ok(TryCommit::Started { ticket, pause: Duration::ZERO }),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(TryCommit::RetryAfter(BUSY_PAUSE)),
        Err(error) => Err(error),
    }
}

fn start_held(engine: &Engine, batch: Batch, durability: Durability, wait: Wait) -> Result<Ticket> {
    let hold = engine.hold(batch).durability(durability).wait(wait);
    let hold = hold.resolve(&|owner, _key, operand| !is_blind(owner, operand));
    let commit = |held: &mut HeldBatch<'_>| IndexChanges::commit(held, &mut IndexChanges::add_held);
    let (ticket, ()) = hold.commit(commit)?;
    // A batch without effect is done when everything before it is.
    ticket.map_or_else(|| engine.start(&Batch::default(), durability, wait), Ok)
}

/// Writes the document of the encoded `key` by itself.
pub(in crate::collection) fn one(stored: &Stored, key: &[u8], change: KeyChange<'_>) -> Result<()> {
    let (engine, mut batch) = (stored.engine(), Batch::default());
    push_dated(stored, &mut batch, key, change)?;
    start_held(engine, batch, engine.options().durability, Wait::Yes)?.wait()
}

/// Reads the document of the encoded `key` and does what `decide` returns. Returns whether
/// something was written. A put keeps the expiry of the document that it replaces.
pub(in crate::collection) fn rewrite(
    stored: &Stored,
    key: &[u8],
    decide: impl FnOnce(Option<&[u8]>) -> Result<Rewrite>,
) -> Result<bool> {
    let (core, engine) = (stored.keyspace()?, stored.engine());
    let hold = engine.hold(Batch::default()).key(core, key);
    let (ticket, is_written) = hold.commit(|held| {
        let found = held.get(core, key)?;
        let Some((kind, bytes)) = decide(found.value.as_deref())?.entry() else {
            return Ok(false);
        };
        let (effect, new) = match kind {
            Kind::Put => {
                let expiry = expiry_by_date(core, &bytes, found.expiry)?;
                (Effect::put(expiry), Some((bytes.as_slice(), expiry)))
            }
            _ => (Kind::Delete.into(), None),
        };
        // What has expired by now needs no write, but the write was one.
        if change(held, core, key, new)? {
            held.push(core, effect, key, &bytes)?;
        }
        Ok(true)
    })?;
    ticket.map_or(Ok(()), |ticket| ticket.wait())?;
    Ok(is_written)
}

/// Adds the changes of the indexes when the document of `key`, which is locked, becomes `new`.
/// Returns false if it need not be written: it has expired since it was read, and a document that
/// has got one of its values has removed it.
fn change(
    held: &mut HeldBatch<'_>,
    core: &Arc<KeyspaceCore>,
    key: &[u8],
    new: Option<Stated<'_>>,
) -> Result<bool> {
    let mut first = None;
    let changed = IndexChanges::commit(held, &mut |changes, held| {
        let old = held.get_stored(core, key)?;
        changes.add(core, key, &old, new)?;
        first.get_or_insert(old);
        Ok(())
    });
    let error = match changed {
        Ok(()) => return Ok(true),
        Err(error) => error,
    };
    let has_expired = |(_, expiry): &Stated<'_>| expiry.is_some_and(|at| at <= held.moment());
    match (first, new.filter(has_expired)) {
        (Some(old), Some((new, _))) if error.kind() == ErrorKind::Duplicate => {
            // Values that it did not have before are refused nevertheless.
            IndexChanges::check_values(held, core, key, old, new).map(|()| false)
        }
        _ => Err(error),
    }
}

/// Adds a write to `batch`, with the expiry that the date in its document says, if a date decides.
/// A batch that has such a put notes what all later ones were given.
pub(in crate::collection) fn push_dated(
    stored: &Stored,
    batch: &mut Batch,
    key: &[u8],
    change: KeyChange<'_>,
) -> Result<()> {
    let (core, (effect, value)) = (stored.keyspace()?, change.entry());
    if effect.kind() != Kind::Put || !(stored.is_indexed() || batch.is_dated()) {
        return batch.push(core, effect, key, value);
    }
    let given = effect.expiry();
    let effect = Effect::put(expiry_by_date(core, value, given)?);
    batch.push_dated(core, effect, given, key, value)
}

/// Writes those documents again that expire at another moment by a date in them, also since an
/// index was `dropped`. What has expired gets no later moment: the clock may be far ahead, and set
/// right later.
pub(super) fn apply_dates(stored: &Stored, dropped: Option<&Definition>) -> Result<()> {
    let core = stored.keyspace()?;
    let mut scan = core.scan_range(KeyRange::ALL).with_expired();
    while scan.advance()? {
        let key = scan.key();
        let hold = stored.engine().hold(Batch::default()).key(core, key);
        let (ticket, ()) = hold.commit(|held| {
            let StoredPut { value: Some(bytes), expiry: old, .. } = held.get_stored(core, key)?
            else {
                return Ok(());
            };
            let expiry = match dropped {
                Some(dropped) => expiry_after_drop(core, &bytes, dropped, old)?,
                None => expiry_by_date(core, &bytes, old)?,
            };
            let has_expired = old.is_some_and(|at| at <= held.moment());
            let end = |expiry: Option<Moment>| expiry.unwrap_or(Moment::MAX);
            if expiry == old || (has_expired && end(expiry) > end(old)) {
                return Ok(());
            }
            if change(held, core, key, Some((&bytes, expiry)))? {
                held.push(core, Effect::put(expiry), key, &bytes)
            } else {
                Ok(())
            }
        })?;
        ticket.map_or(Ok(()), |ticket| ticket.wait())?;
    }
    Ok(())
}

/// An index: its keyspace, which the collection owns, and its state.
#[derive(Clone, Copy)]
pub(super) struct OwnedIndex<'a> {
    pub(super) owned: &'a Keyspace,
    pub(super) state: &'a IndexState,
}

/// Puts the unique `entry` of the document of the encoded `key` again, if the document still has
/// it. Returns false if another document has the value, and that of `key` has expired.
///
/// # Errors
/// Duplicate if both have it.
pub(super) fn restore_entry(
    stored: &Stored,
    index: OwnedIndex<'_>,
    key: &[u8],
    entry: &[u8],
) -> Result<bool> {
    let (core, engine) = (stored.keyspace()?, stored.engine());
    let mut has_expired = false;
    let hold = engine.hold(Batch::default()).key(core, key);
    let restored = hold.commit(|held| {
        IndexChanges::commit(held, &mut |changes, held| {
            let old = held.get_stored(core, key)?;
            has_expired = old.expiry.is_some_and(|at| at <= held.moment());
            changes.add_again(core, key, &old, index.owned, index.state, entry)
        })
    });
    match restored {
        Ok((ticket, ())) => ticket.map_or(Ok(()), |ticket| ticket.wait()).map(|()| true),
        Err(error) if error.kind() == ErrorKind::Duplicate && has_expired => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the document of the encoded `key` if it has expired.
pub(super) fn remove_expired(stored: &Stored, key: &[u8]) -> Result<()> {
    let (core, engine) = (stored.keyspace()?, stored.engine());
    let hold = engine.hold(Batch::default()).key(core, key);
    let (ticket, ()) = hold.commit(|held| {
        let expiry = held.get_stored(core, key)?.expiry;
        if expiry.is_none_or(|expiry| expiry > held.moment()) {
            return Ok(());
        }
        change(held, core, key, None)?;
        held.push(core, Kind::Delete, key, b"")
    })?;
    ticket.map_or(Ok(()), |ticket| ticket.wait())
}

/// Removes the documents of a range of encoded keys, in steps of a bounded number of documents. A
/// step is one commit.
pub(in crate::collection) fn remove_range(stored: &Stored, range: KeyRange) -> Result<()> {
    // Half of what a batch may take: the other half is for the entries.
    let bytes_max = (stored.keyspace()?.batch_bytes_max() / 2).min(STEP_BYTES) as usize;
    let mut scan = stored.keyspace()?.scan_range(range).with_expired();
    loop {
        let (mut keys, mut bytes, mut has_more) = (Vec::new(), 0, false);
        while keys.len() < STEP_DOCUMENTS && bytes < bytes_max {
            has_more = scan.advance()?;
            if !has_more {
                break;
            }
            bytes += scan.key().len() + OP_OVERHEAD;
            keys.push(scan.key().to_vec());
        }
        if !keys.is_empty() {
            scan.park();
            remove_all(stored, &keys)?;
        }
        if !has_more {
            return Ok(());
        }
    }
}

/// Removes the documents of these keys, by one commit if the changes of their entries fit into it.
fn remove_all(stored: &Stored, keys: &[Vec<u8>]) -> Result<()> {
    let (engine, mut batch) = (stored.engine(), Batch::default());
    for key in keys {
        batch.delete(stored.keyspace()?, key)?;
    }
    let removed = start_held(engine, batch, engine.options().durability, Wait::Yes);
    match removed.and_then(|ticket| ticket.wait()) {
        Err(error) if error.kind() == ErrorKind::InvalidInput && keys.len() > 1 => {
            let (first, rest) = keys.split_at(keys.len() / 2);
            remove_all(stored, first)?;
            remove_all(stored, rest)
        }
        removed => removed,
    }
}
