//! A batch whose locks are held: what it changes can be read, and writes be added.

use crate::commit::record::put_old;
use crate::commit::{Batch, Effect, HeldValues};
use crate::handle::Handle;
use crate::history::VersionToken;
use crate::keyspace_core::KeyspaceCore;
use crate::note::set_note;
use crate::read::{Scan, Snapshot, StoredPut};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, Kind, Moment, Result, SeqNo, Slice};
use std::sync::Arc;

/// A batch whose locks are held. No other write comes between what is read here and the commit.
pub struct HeldBatch<'a> {
    handle: &'a Arc<Handle>,
    batch: Batch,
    /// The number of operations that the batch had itself.
    len: usize,
    /// Sees what is visible since the locks are held.
    snapshot: Snapshot,
    values: Option<HeldValues<'a>>,
}

/// One operation of a held batch.
#[derive(Clone, Copy)]
pub struct HeldOp<'a> {
    /// The keyspace that is written.
    pub keyspace: &'a Arc<KeyspaceCore>,
    /// The effect of the operation on the key.
    pub effect: Effect,
    /// The key; of a RangeDelete the start of the range.
    pub key: &'a [u8],
    /// The value; of a RangeDelete the end of the range.
    pub value: &'a [u8],
}

/// The state of a key before a held batch.
#[derive(Clone, Debug, Default)]
pub struct HeldValue {
    /// The value, unless the key is absent.
    pub value: Option<Slice>,
    /// The moment from which on the key is absent, if it is present and has one.
    pub expiry: Option<Moment>,
    /// The version of the key, if it is present.
    pub version: Option<VersionToken>,
}

impl<'a> HeldBatch<'a> {
    pub(super) fn new(handle: &'a Arc<Handle>, batch: Batch, snapshot: Snapshot) -> Self {
        let len = batch.len();
        Self { handle, batch, len, snapshot, values: None }
    }

    /// The number of operations that the batch had before its locks were taken.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the batch had no operations before its locks were taken.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Operation number `at` of these. A merge is one only if it was not resolved.
    ///
    /// # Panics
    /// If `at` is not below [`HeldBatch::len`].
    pub fn op(&self, at: usize) -> HeldOp<'_> {
        assert!(at < self.len, "operation {at} of {}", self.len);
        let (keyspace, effect, key, value) = self.batch.operation(at);
        HeldOp { keyspace, effect, key, value }
    }

    /// Returns the state of `key` before the batch. It stays so until the commit if the key is
    /// locked.
    ///
    /// # Errors
    /// InvalidInput, Io, Corruption, Closed.
    pub fn get(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> Result<HeldValue> {
        let found = self.snapshot.find(keyspace, key)?;
        let expiry = found.lives_until();
        let history = self.handle.parts().core.history.id;
        let version = found.seqno.filter(|_| found.value.is_some());
        let version = version.map(|seqno| VersionToken { history, seqno });
        Ok(HeldValue { value: found.value, expiry, version })
    }

    /// Returns the put of `key` that is stored before the batch, whether or not it has expired.
    ///
    /// # Errors
    /// As [`HeldBatch::get`].
    pub fn get_stored(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> Result<StoredPut> {
        self.snapshot.get_stored(keyspace, key)
    }

    /// Scans the entries of `range` before the batch, in key order. Nothing is missing of a range
    /// that the batch deletes in a keyspace that owns others, and nothing of the entries under a
    /// value that is locked.
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database.
    pub fn scan(&self, keyspace: &Arc<KeyspaceCore>, range: KeyRange) -> Result<Scan> {
        self.snapshot.scan(keyspace, range)
    }

    /// Reads see the commits up to this SeqNo: those of before the locks were taken, or more.
    pub fn seqno(&self) -> SeqNo {
        self.snapshot.seqno()
    }

    /// The most bytes that a batch may take.
    pub fn batch_bytes_max(&self) -> u64 {
        self.handle.parts().core.setup().batch_bytes_max()
    }

    /// The moment by which the batch judges expiries.
    pub fn moment(&self) -> Moment {
        self.snapshot.judged_by()
    }

    /// Locks `values`, any bytes that stand for unique values in owned keyspaces: no other batch
    /// holds one of them until this one is visible. Later reads see everything that was committed
    /// before under these locks. The values that were locked before are released first, since two
    /// batches could wait for each other: what was read under them may be out of date.
    pub fn lock_also(&mut self, values: &[(Arc<KeyspaceCore>, Vec<u8>)]) {
        self.values = None;
        let values = values.iter().map(|(core, value)| (core.id, core.hash(value)));
        self.values = Some(self.handle.parts().commits.stripes.hold_values(values));
        self.snapshot = Snapshot::new(self.handle);
    }

    /// Returns whether a layer above has set expiries of the batch: see [`Batch::push_dated`].
    pub fn is_dated(&self) -> bool {
        self.batch.is_dated()
    }

    /// Returns the expiry that the caller gave operation number `at`, if that was noted: if the
    /// layer above has set another one, for it or for an earlier one.
    pub fn given(&self, at: usize) -> Option<Option<Moment>> {
        self.batch.given_of(at)
    }

    /// Notes that this commit itself has raised the number of a premise of its transaction: see
    /// [`Transaction::note_premise`](crate::Transaction::note_premise). What it has read before
    /// is as right as it was.
    pub fn raise_premise(&mut self, keyspace: &KeyspaceCore, from: u64, to: u64) {
        if let Some(reads) = &mut self.batch.reads {
            reads.raise_premise(keyspace.id, from, to);
        }
    }

    /// Adds a write: of an owned keyspace, whose keys are protected by those of the owner, or of a
    /// key that is locked. For a RangeDelete `value` is the end of the range.
    ///
    /// # Errors
    /// InvalidInput for a key or value out of bounds, a merge, a keyspace of another database, or
    /// more bytes than a batch may have. The batch stays as it was.
    pub fn push(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        effect: impl Into<Effect>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let effect = effect.into();
        self.handle.check_same(keyspace)?;
        if effect.kind() == Kind::Merge {
            return Err(Error::invalid("a merge cannot be added under the locks of a batch"));
        }
        self.handle.parts().commits.check_prepared_bytes(&self.batch, key, value)?;
        self.batch.push(keyspace, effect, key, value)
    }

    /// Sets the note of an owned keyspace, durably, before the batch is committed. It stays if the
    /// batch is refused.
    ///
    /// # Errors
    /// InvalidInput for a long note, or a keyspace without an owner; OutOfSpace, Io, Poisoned,
    /// Closed.
    pub fn set_note(&self, owned: &KeyspaceCore, note: &[u8]) -> Result<()> {
        set_note(self.handle.parts(), owned, note)
    }

    /// Adds the values that keys had before to the payload of the batch, if their keyspaces keep
    /// them. Called when the batch is complete.
    ///
    /// # Errors
    /// InvalidInput for more bytes than a batch may have; Io, Corruption, Closed.
    pub(super) fn keep_old(&mut self) -> Result<()> {
        let keeps: Vec<bool> = self.batch.keyspaces.iter().map(|core| core.keeps_old()).collect();
        if !keeps.contains(&true) || !self.handle.parts().core.history.keeps_changes() {
            return Ok(());
        }
        let mut olds = Vec::new();
        for at in 0..self.batch.len() {
            if !keeps[usize::from(self.batch.ops[at].keyspace)] {
                continue;
            }
            let (keyspace, effect, key, _) = self.batch.operation(at);
            if matches!(effect.kind(), Kind::Put | Kind::Delete) {
                let found = self.snapshot.find(keyspace, key)?;
                put_old(&mut olds, at, found.value.as_deref());
            }
        }
        self.handle.parts().commits.check_batch_bytes(self.batch.bytes() + olds.len())?;
        self.batch.payload.extend_from_slice(&olds);
        Ok(())
    }

    /// The completed batch, and the locks of the values.
    pub(super) fn into_parts(self) -> (Batch, Option<HeldValues<'a>>) {
        (self.batch, self.values)
    }
}
