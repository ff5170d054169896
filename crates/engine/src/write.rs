//! Writes through the commit path, and what is due after them. Writes of one key: blind, or after a
//! read of the key.

use crate::background::act_after_commit;
use crate::commit::{
    Admitted, Batch, BatchOp, Committed, Effect, HeldStripes, LARGE_WRITE, LargeWrite, Write,
    WriteAdmission, encode_op, trees_of,
};
use crate::due::Due;
use crate::keyspace_core::{KeyspaceCore, Trees};
use crate::options::Durability;
use crate::parts::Parts;
use crate::stall::Wait;
use crate::user_code::UserCode;
use flagstone_base::key::{check_key, check_value};
use flagstone_base::{Error, ErrorKind, Kind, Moment, Result, SeqNo};
use flagstone_env::sync::atomic::Ordering;
use std::cell::RefCell;
use std::slice::from_ref;
use std::sync::Arc;

/// Commits `write` up to publication, and acts on what is due after it. `held` are the stripes if
/// the caller holds them already. `admitted` is the admission of a large write: it is given back
/// where the values that merges become must wait for theirs.
pub(crate) fn commit<'p>(
    parts: &'p Parts,
    write: &Write<'_>,
    durability: Durability,
    held: Option<HeldStripes<'_>>,
    admitted: Option<&mut Admitted<'p>>,
) -> Result<Committed> {
    commit_with(parts, write, durability, held, WriteAdmission { admitted, wait: Wait::Yes })
}

/// Like [`commit`]. If `write` may not wait, returns Busy, and has done nothing, where that would
/// wait for an ingest, for a merge of partitions or for the values that merges become.
pub(crate) fn commit_with<'p>(
    parts: &'p Parts,
    write: &Write<'_>,
    durability: Durability,
    held: Option<HeldStripes<'_>>,
    admission: WriteAdmission<'_, 'p>,
) -> Result<Committed> {
    let (committed, due) = parts.commits.write(write, durability, held, admission);
    if !due.is_empty() {
        act_on_due(parts, write, due, committed.as_ref().ok());
    }
    committed
}

fn act_on_due(parts: &Parts, write: &Write<'_>, due: Due, committed: Option<&Committed>) {
    let last = committed.map_or(SeqNo::ZERO, |committed| committed.last);
    let wants_trees = due.has(Due::RANGES) || due.has(Due::CHECK);
    let trees = if wants_trees { trees_of(write) } else { Trees::new() };
    act_after_commit(&parts.upkeep, due, &trees, last);
}

/// Puts, deletes or merges `key`.
pub(crate) fn write_one(
    parts: &Parts,
    core: &Arc<KeyspaceCore>,
    effect: Effect,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    thread_local! {
        static PAYLOAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    check_key(key)?;
    check_value(value)?;
    let trees = || core.tree_of(key, core.hash(key));
    let admitted = parts.commits.admission.admit(value.len(), Wait::Yes, trees)?;
    if value.len() >= LARGE_WRITE {
        // Checked before the value is copied.
        parts.commits.check_batch_bytes(value.len())?;
        let (large, op) = LargeWrite::of_slice(core, effect, key, value);
        return commit_large(parts, core, large, &op, admitted, None, None);
    }
    let mut payload = PAYLOAD.take();
    payload.clear();
    let op = encode_op(&mut payload, core, 0, effect, key, value);
    let durability = parts.core.setup().options.durability;
    let write = write_of(core, &payload, from_ref(&op));
    let committed = commit(parts, &write, durability, None, None);
    // Long keys may have made the buffer too large to keep.
    if payload.capacity() <= LARGE_WRITE {
        PAYLOAD.set(payload);
    }
    parts.core.log.wait_durable(committed?.lsn, durability)
}

/// Admits a value of about `bytes` that is still to be encoded. Returns `None` for a small value,
/// which needs no admission.
#[inline]
pub(crate) fn admission_for<'p>(
    parts: &'p Parts,
    core: &KeyspaceCore,
    key: &[u8],
    bytes: usize,
) -> Result<Option<Admitted<'p>>> {
    if bytes < LARGE_WRITE {
        return Ok(None);
    }
    parts.commits.admission.admit(bytes, Wait::Yes, || core.tree_of(key, core.hash(key)))
}

/// Sets `key` to `value`, whose buffer it takes over, until `expiry` if that is given. After a
/// Conflict `value` is what it was. `admitted` is the result of [`admission_for`], if that was
/// called.
pub(crate) fn put_encoded(
    parts: &Parts,
    core: &Arc<KeyspaceCore>,
    key: &[u8],
    value: &mut Vec<u8>,
    expiry: Option<Moment>,
    admitted: Option<Admitted<'_>>,
) -> Result<()> {
    if value.len() < LARGE_WRITE && admitted.is_none() {
        return write_one(parts, core, Effect::put(expiry), key, value);
    }
    check_key(key)?;
    check_value(value)?;
    let admitted = match admitted {
        None => admission_for(parts, core, key, value.len())?,
        Some(mut admitted) => {
            admitted.grow_to(value.len());
            Some(admitted)
        }
    };
    let (large, op) = LargeWrite::of_value(core, Effect::put(expiry), key, std::mem::take(value));
    commit_large(parts, core, large, &op, admitted, None, Some(value))
}

/// Reads `key`, calls `change` to find out what to write (`None`: nothing), and writes it. No other
/// write of the key comes between. A put keeps the expiry of the value that it replaces. Returns
/// whether something was written.
pub(crate) fn read_modify_write(
    parts: &Parts,
    core: &Arc<KeyspaceCore>,
    key: &[u8],
    change: impl FnOnce(Option<&[u8]>) -> Result<Option<(Kind, Vec<u8>)>>,
) -> Result<bool> {
    // The length of the new value is not known, so that of the last update is assumed. The space is
    // not reserved, because the time that `change` takes is not known.
    let hash = core.hash(key);
    let like_the_last = core.updated_bytes.load(Ordering::Relaxed);
    drop(parts.commits.admission.admit(like_the_last, Wait::Yes, || core.tree_of(key, hash))?);
    let held = parts.commits.stripes.hold_to_update(core, hash);
    // The gate is held: what the keyspace owns does not change until the write is visible.
    core.check_accepts(&[])?;
    let (changed, expiry) = {
        let _user_code = parts.core.health.enter_user_code(UserCode::Update);
        let found = parts.reads.get_found(core, key, hash, None)?;
        (change(found.value.as_deref())?, found.lives_until())
    };
    let Some((kind, value)) = changed else { return Ok(false) };
    check_value(&value)?;
    debug_assert!(kind != Kind::Merge, "an update has read what it changes");
    let effect = if kind == Kind::Put { Effect::put(expiry) } else { kind.into() };
    let admitted = parts.commits.admission.admit_update(value.len(), Wait::Yes)?;
    if admitted.is_some() {
        core.updated_bytes.store(value.len(), Ordering::Relaxed);
        let (large, op) = LargeWrite::of_value(core, effect, key, value);
        return commit_large(parts, core, large, &op, admitted, Some(held), None).map(|()| true);
    }
    if like_the_last > 0 {
        core.updated_bytes.store(0, Ordering::Relaxed);
    }
    let mut payload = Vec::with_capacity(key.len() + value.len() + 16);
    let op = encode_op(&mut payload, core, 0, effect, key, &value);
    let durability = parts.core.setup().options.durability;
    let write = write_of(core, &payload, from_ref(&op));
    let committed = commit(parts, &write, durability, Some(held), None)?;
    parts.core.log.wait_durable(committed.lsn, durability)?;
    Ok(true)
}

/// Commits `batch` with the database's durability.
pub(crate) fn commit_batch(parts: &Parts, batch: &Batch) -> Result<()> {
    let durability = parts.core.setup().options.durability;
    let write = batch.as_write();
    let trees = || trees_of(&write);
    let mut admitted = parts.commits.admission.admit(write.len(), Wait::Yes, trees)?;
    let committed = commit(parts, &write, durability, None, admitted.as_mut())?;
    drop(admitted);
    parts.core.log.wait_durable(committed.lsn, durability)
}

/// Commits a large write. Frees its memory, then its admission, before it waits for a sync. After a
/// Conflict the value is back in `refused`, if that is given.
fn commit_large<'p>(
    parts: &'p Parts,
    core: &Arc<KeyspaceCore>,
    large: LargeWrite,
    op: &BatchOp,
    mut admitted: Option<Admitted<'p>>,
    held: Option<HeldStripes<'_>>,
    refused: Option<&mut Vec<u8>>,
) -> Result<()> {
    let durability = parts.core.setup().options.durability;
    let write = large.as_write(write_of(core, &[], from_ref(op)));
    let committed = commit(parts, &write, durability, held, admitted.as_mut());
    let is_conflict = |error: &Error| error.kind() == ErrorKind::Conflict;
    match refused.filter(|_| committed.as_ref().is_err_and(is_conflict)) {
        Some(value) => *value = large.give_back(),
        None => drop(large),
    }
    drop(admitted);
    parts.core.log.wait_durable(committed?.lsn, durability)
}

fn write_of<'a>(core: &'a Arc<KeyspaceCore>, payload: &'a [u8], ops: &'a [BatchOp]) -> Write<'a> {
    let keyspaces = from_ref(core);
    let has_expiry = ops.iter().any(|op| op.expiry.is_some());
    let (conditions, reads, prepared) = (&[], None, &[]);
    Write {
        payload,
        shared: None,
        ops,
        conditions,
        condition_bytes: 0,
        keyspaces,
        has_expiry,
        reads,
        prepared,
    }
}
