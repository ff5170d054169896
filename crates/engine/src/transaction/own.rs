//! What a transaction has written: the state of each key, in the order of the keys. The commit has
//! the keys in the order of their first writes, which readers of changes see.

use crate::commit::{Batch, Effect, Expect, OP_OVERHEAD};
use crate::history::VersionToken;
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::key::KeyRange;
use flagstone_base::{Kind, Moment, Result, Slice};
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;
use std::sync::Arc;

/// Operands are combined while the result has at most this many bytes, because each time it is
/// copied.
const COMBINED_BYTES_MAX: usize = 512;

/// The state of a key, and the place of its first write among those of all keys.
pub(super) struct Own {
    pub(super) write: OwnWrite,
    place: u64,
}

/// What a transaction has done to a key. The last write of a key counts.
pub(super) enum OwnWrite {
    Put {
        value: Slice,
        expiry: Option<Moment>,
        /// The moment of the transaction is not before `expiry`.
        has_expired: bool,
    },
    Delete,
    /// Operands over the value in the snapshot, oldest first.
    Merge(Vec<Slice>),
}

impl OwnWrite {
    /// The bytes that the write takes in a batch, at most.
    fn bytes(&self, key: &[u8]) -> usize {
        let entry = key.len() + OP_OVERHEAD;
        match self {
            Self::Put { value, .. } => entry + value.len(),
            Self::Delete => entry,
            Self::Merge(operands) => operands.iter().map(|operand| entry + operand.len()).sum(),
        }
    }

    /// Returns the value of `key` after the write, where the snapshot has `base`.
    pub(super) fn over(
        &self,
        core: &KeyspaceCore,
        key: &[u8],
        base: Option<&[u8]>,
    ) -> Option<Slice> {
        match self {
            Self::Put { value, has_expired, .. } => (!has_expired).then(|| value.clone()),
            Self::Delete => None,
            Self::Merge(operands) => {
                let operands: Vec<&[u8]> = operands.iter().map(|operand| &**operand).collect();
                core.fold.as_deref()?.fold(key, base, &operands).map(Slice::from)
            }
        }
    }

    /// Adds the write of `key` to `batch`.
    fn push_to(&self, batch: &mut Batch, core: &Arc<KeyspaceCore>, key: &[u8]) -> Result<()> {
        match self {
            Self::Put { value, expiry, .. } => batch.push(core, Effect::put(*expiry), key, value),
            Self::Delete => batch.push(core, Kind::Delete, key, b""),
            Self::Merge(operands) => {
                operands.iter().try_for_each(|operand| batch.push(core, Kind::Merge, key, operand))
            }
        }
    }
}

/// Adds `operand` to the operands of a key, or combines it with the last one if the fold can.
/// Returns how many bytes the last one was, and is now.
fn push(
    core: &KeyspaceCore,
    key: &[u8],
    operands: &mut Vec<Slice>,
    operand: &[u8],
) -> (Option<usize>, usize) {
    if let (Some(fold), Some(last)) = (core.fold.as_deref(), operands.last_mut())
        && last.len() + operand.len() <= COMBINED_BYTES_MAX
        && let Some(both) = fold.partial(key, last, operand)
    {
        let before = last.len();
        *last = Slice::from(both);
        return (Some(before), last.len());
    }
    operands.push(Slice::copy_of(operand));
    (None, operand.len())
}

/// The writes of a transaction.
#[derive(Default)]
pub(super) struct OwnWrites {
    keyspaces: Vec<OwnKeyspace>,
    bytes: usize,
    /// The place of the next first write.
    next: u64,
}

struct OwnKeyspace {
    core: Arc<KeyspaceCore>,
    keys: BTreeMap<Vec<u8>, Own>,
}

impl OwnWrites {
    /// The number of keys that were written.
    pub(super) fn len(&self) -> usize {
        self.keyspaces.iter().map(|keyspace| keyspace.keys.len()).sum()
    }

    /// The bytes that the writes take in a batch, at most.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn of(&self, core: &Arc<KeyspaceCore>) -> Option<&OwnKeyspace> {
        self.keyspaces.iter().rfind(|keyspace| Arc::ptr_eq(&keyspace.core, core))
    }

    /// Returns what was written to `key`.
    pub(super) fn get(&self, core: &Arc<KeyspaceCore>, key: &[u8]) -> Option<&OwnWrite> {
        self.of(core)?.keys.get(key).map(|own| &own.write)
    }

    /// Returns the keys of `range` that were written, if there can be any.
    pub(super) fn range(
        &self,
        core: &Arc<KeyspaceCore>,
        range: &KeyRange,
    ) -> Option<Range<'_, Vec<u8>, Own>> {
        let keys = &self.of(core)?.keys;
        // A map refuses ranges that end before they begin.
        if range.is_empty() {
            return None;
        }
        let bounds = (as_bytes(&range.start), as_bytes(&range.end));
        Some(keys.range::<[u8], _>(bounds))
    }

    /// Sets the write of `key`. `check` gets the bytes that all writes take then. If it returns an
    /// error, nothing changes.
    pub(super) fn set(
        &mut self,
        core: &Arc<KeyspaceCore>,
        key: &[u8],
        write: OwnWrite,
        check: impl FnOnce(usize) -> Result<()>,
    ) -> Result<()> {
        let before = self.get(core, key).map_or(0, |own| own.bytes(key));
        let bytes = self.bytes - before + write.bytes(key);
        check(bytes)?;
        self.bytes = bytes;
        match self.keys_of(core).get_mut(key) {
            Some(own) => own.write = write,
            None => self.add(core, key, write),
        }
        Ok(())
    }

    /// Adds the first write of a key.
    fn add(&mut self, core: &Arc<KeyspaceCore>, key: &[u8], write: OwnWrite) {
        let place = self.next;
        self.next += 1;
        self.keys_of(core).insert(key.to_vec(), Own { write, place });
    }

    fn keys_of(&mut self, core: &Arc<KeyspaceCore>) -> &mut BTreeMap<Vec<u8>, Own> {
        let known = self.keyspaces.iter().rposition(|known| Arc::ptr_eq(&known.core, core));
        let at = known.unwrap_or_else(|| {
            self.keyspaces.push(OwnKeyspace { core: Arc::clone(core), keys: BTreeMap::new() });
            self.keyspaces.len() - 1
        });
        &mut self.keyspaces[at].keys
    }

    /// Adds an operand to what is merged into `key`, which has no other write. `check` as for
    /// [`OwnWrites::set`].
    pub(super) fn add_operand(
        &mut self,
        core: &Arc<KeyspaceCore>,
        key: &[u8],
        operand: &[u8],
        check: impl FnOnce(usize) -> Result<()>,
    ) -> Result<()> {
        let entry = key.len() + OP_OVERHEAD;
        check(self.bytes + entry + operand.len())?;
        let before = match self.keys_of(core).get_mut(key) {
            Some(Own { write: OwnWrite::Merge(operands), .. }) => {
                push(core, key, operands, operand)
            }
            _ => {
                self.add(core, key, OwnWrite::Merge(vec![Slice::copy_of(operand)]));
                (None, operand.len())
            }
        };
        self.bytes = match before {
            (Some(before), now) => self.bytes - before + now,
            (None, now) => self.bytes + entry + now,
        };
        Ok(())
    }

    /// Returns all writes as a batch. With `unchanged_since` its commit returns Conflict if one of
    /// the keys was written after that.
    pub(super) fn into_batch(self, unchanged_since: Option<VersionToken>) -> Result<Batch> {
        let mut batch = Batch::default();
        let mut all = Vec::with_capacity(self.len());
        for OwnKeyspace { core, keys } in self.keyspaces {
            let is_owned = core.owner().is_some();
            all.extend(keys.into_iter().map(|(key, own)| (own, Arc::clone(&core), key, is_owned)));
        }
        all.sort_unstable_by_key(|(own, ..)| own.place);
        // One by one, so that memory does not hold everything twice.
        for (own, core, key, is_owned) in all {
            own.write.push_to(&mut batch, &core, &key)?;
            // Keys of an owned keyspace are protected by those of the owner.
            if let Some(version) = unchanged_since.filter(|_| !is_owned) {
                batch.expect_written(&core, &key, Expect::UnchangedSince(version))?;
            }
        }
        Ok(batch)
    }
}

fn as_bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
