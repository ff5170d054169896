//! A batch: writes that happen together, over any keyspaces and partitions, or not at all.
//!
//! A batch is encoded while it is filled, in the form that the log stores. Committing it copies
//! nothing.

use super::read_set::ReadSet;
use super::record::{self, LoggedOp};
use crate::history::VersionToken;
use crate::keyspace_core::{KeyspaceCore, Prepared};
use flagstone_base::check::{Short, changed};
use flagstone_base::flip::{self, Site};
use flagstone_base::key::{check_key, check_value, next_key};
use flagstone_base::{EntryCheck, Error, KeyRange, Kind, Moment, Result};
use flagstone_wal::{payload_checksum, payload_checksum_of_parts};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// A batch of writes, given to [`Engine::start`](crate::Engine::start). Later writes of a key win
/// over earlier ones.
///
/// Limit: 1 GiB, or a quarter of the memory budget if that is less. Conditions count, too.
#[derive(Default)]
pub struct Batch {
    pub(crate) payload: Vec<u8>,
    pub(crate) ops: Vec<BatchOp>,
    pub(crate) conditions: Vec<Condition>,
    /// The bytes that conditions take in memory, besides those that a transaction has for each of
    /// its writes.
    condition_bytes: usize,
    pub(crate) keyspaces: Vec<Arc<KeyspaceCore>>,
    pub(crate) has_expiry: bool,
    /// What was read for these writes, if they are those of a serializable transaction.
    pub(crate) reads: Option<Box<ReadSet>>,
    /// The sets of owned keyspaces with which the writes were prepared.
    pub(crate) prepared: Vec<Prepared>,
    /// The operations whose expiry the layer above has set, and its later puts, ascending, and the
    /// expiry that was given.
    given: Vec<(u32, Option<Moment>)>,
}

/// The effect of an operation on its key: its kind, and when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    pub(crate) kind: Kind,
    /// The moment from which on the key is absent. Only a Put has one.
    pub(crate) expiry: Option<Moment>,
}

impl From<Kind> for Effect {
    fn from(kind: Kind) -> Self {
        Self { kind, expiry: None }
    }
}

impl Effect {
    /// A put that expires at `expiry`, if given.
    #[inline]
    pub const fn put(expiry: Option<Moment>) -> Self {
        Self { kind: Kind::Put, expiry }
    }

    /// The kind of the operation.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The moment from which on the key is absent, if a put has one.
    pub const fn expiry(&self) -> Option<Moment> {
        self.expiry
    }

    /// The check of an operation with this effect on a key with the hash `key_hash`.
    #[inline]
    pub(super) fn check(self, key_hash: u64, value: &[u8]) -> EntryCheck {
        let check = EntryCheck::of(key_hash, self.kind, value);
        self.expiry.map_or(check, |expiry| check.expiring(expiry))
    }
}

/// One operation of a batch: its place in the payload and the tree that it goes to.
#[derive(Clone, Debug)]
pub(crate) struct BatchOp {
    pub(crate) kind: Kind,
    pub(crate) expiry: Option<Moment>,
    /// Index into the batch's keyspaces.
    pub(crate) keyspace: u16,
    /// The partition in the layout of this number. A RangeDelete goes to all that it overlaps.
    pub(crate) partition: u16,
    pub(crate) layout: u32,
    /// The hash of the key under the keyspace's seed.
    pub(crate) hash: u64,
    pub(crate) key: Range<u32>,
    pub(crate) value: Range<u32>,
    /// The check of key, kind and value as the caller gave them.
    pub(crate) check: EntryCheck,
}

impl BatchOp {
    #[inline]
    pub(super) const fn effect(&self) -> Effect {
        Effect { kind: self.kind, expiry: self.expiry }
    }
}

/// A condition of a batch. If it does not hold, the commit returns Conflict.
#[derive(Clone)]
pub(crate) struct Condition {
    pub(crate) keyspace: u16,
    pub(crate) hash: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) expected: Expect,
}

/// What a batch or a transaction expects of a key: their `expect` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expect {
    /// The key is absent.
    Absent,

    /// The newest write of the key is the one that `get_versioned` returned. A token of another
    /// history, such as that of the database from which this one was copied, is a conflict as well.
    Version(VersionToken),

    /// The key was not written after the token: not put, deleted, merged, or covered by a deleted
    /// range. With a snapshot this guards everything that a decision was based on, absent keys
    /// included.
    ///
    /// Flushes and compactions drop deletes, and entries that have expired. Where that cannot be
    /// ruled out for the key, the result is Conflict. So an absent key can be a conflict although
    /// it was not written, if tables were written or dropped since the token. That an entry expires
    /// is no write: until it is dropped, the condition holds. Read again and retry, as after any
    /// conflict.
    UnchangedSince(VersionToken),
}

/// A borrowed batch, as the commit path sees it.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) payload: &'a [u8],
    /// The bytes after `payload` if the write is large. The log shares them instead of copying
    /// them.
    pub(crate) shared: Option<&'a Arc<Vec<u8>>>,
    pub(crate) ops: &'a [BatchOp],
    pub(crate) conditions: &'a [Condition],
    /// The bytes of the conditions that count in the limit of a batch.
    pub(crate) condition_bytes: usize,
    pub(crate) keyspaces: &'a [Arc<KeyspaceCore>],
    /// Whether one of its puts may bring the first expiry of its keyspace.
    pub(crate) has_expiry: bool,
    /// Refuses the commit if something of it was written meanwhile.
    pub(crate) reads: Option<&'a ReadSet>,
    /// Refuses the commit if a keyspace owns others than these writes were prepared with.
    pub(crate) prepared: &'a [Prepared],
}

/// The most bytes that one write takes in a batch besides its key and value.
pub const OP_OVERHEAD: usize = 32;

/// The bytes that one condition takes in a batch besides its key.
pub const CONDITION_OVERHEAD: usize = size_of::<Condition>();

/// The most keyspaces that one batch can write.
const KEYSPACES_MAX: usize = u16::MAX as usize;
/// The most bytes of a batch: offsets into the payload have 32 bits.
const PAYLOAD_MAX: usize = 1 << 30;

impl Batch {
    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or over 65,535 bytes, a value over 512 MiB, or a batch that
    /// grows over 1 GiB. The batch stays as it was.
    pub fn put(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.push(keyspace, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Removes `key`. Nothing happens if it is absent.
    ///
    /// # Errors
    /// Same as [`Batch::put`].
    pub fn delete(&mut self, keyspace: &Arc<KeyspaceCore>, key: impl AsRef<[u8]>) -> Result<()> {
        self.push(keyspace, Kind::Delete, key.as_ref(), b"")
    }

    /// Removes all keys from `start` up to, but not including, `end`.
    ///
    /// # Errors
    /// Same as [`Batch::put`]; InvalidInput when `start` is not below `end`.
    pub fn delete_range(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (start, end) = (start.as_ref(), end.as_ref());
        if start >= end {
            return Err(Error::invalid("a range to delete must begin below its end"));
        }
        check_key(end)?;
        self.push(keyspace, Kind::RangeDelete, start, end)
    }

    /// Removes all keys of `range`, by one entry or two.
    ///
    /// # Errors
    /// Same as [`Batch::put`].
    pub fn delete_keys(&mut self, keyspace: &Arc<KeyspaceCore>, range: KeyRange) -> Result<()> {
        let (ops, payload) = (self.ops.len(), self.payload.len());
        self.push_removals(keyspace, range).inspect_err(|_refused| {
            self.ops.truncate(ops);
            self.payload.truncate(payload);
        })
    }

    fn push_removals(&mut self, keyspace: &Arc<KeyspaceCore>, range: KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        // No key is empty, so this is the smallest.
        let first = vec![0];
        let start = match range.start {
            Bound::Included(start) => start.max(first),
            Bound::Excluded(start) => match next_key(&start) {
                Some(start) => start,
                None => return Ok(()),
            },
            Bound::Unbounded => first,
        };
        let end = match range.end {
            Bound::Included(end) => {
                self.delete(keyspace, &end)?;
                end
            }
            Bound::Excluded(end) => end,
            Bound::Unbounded => {
                for (kind, key, end) in keyspace.removals_from(start) {
                    self.push(keyspace, kind, &key, &end)?;
                }
                return Ok(());
            }
        };
        if start < end {
            self.delete_range(keyspace, &start, &end)?;
        }
        Ok(())
    }

    /// Folds `operand` into the value of `key` with the keyspace's fold, without reading the value.
    /// After the first expiry of the keyspace the commit reads it.
    ///
    /// # Errors
    /// Same as [`Batch::put`]; InvalidInput when the keyspace has no fold.
    pub fn merge(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        keyspace.check_fold()?;
        self.push(keyspace, Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// The number of operations in the batch.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns whether the batch has no operations. It may have conditions.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Returns whether a keyspace of the batch owns others: then it is committed by
    /// [`Engine::hold`](crate::Engine::hold).
    pub fn has_owned(&self) -> bool {
        self.keyspaces.iter().any(|keyspace| keyspace.has_owned())
    }

    /// Returns whether the batch writes a keyspace that owns others. Conditions are no writes.
    pub(crate) fn writes_owner(&self) -> bool {
        self.ops.iter().any(|op| self.keyspaces[usize::from(op.keyspace)].has_owned())
    }

    /// The number of bytes that the limit counts: those of the batch in the log, and those of its
    /// conditions.
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.condition_bytes
    }

    /// Returns a copy of the writes and conditions.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self {
            payload: self.payload.clone(),
            ops: self.ops.clone(),
            conditions: self.conditions.clone(),
            condition_bytes: self.condition_bytes,
            keyspaces: self.keyspaces.clone(),
            has_expiry: self.has_expiry,
            reads: None,
            prepared: self.prepared.clone(),
            given: self.given.clone(),
        }
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.ops.clear();
        self.clear_conditions();
        self.keyspaces.clear();
        self.has_expiry = false;
        self.reads = None;
        self.prepared.clear();
        self.given.clear();
    }

    /// Removes the conditions, which hold.
    pub(crate) fn clear_conditions(&mut self) {
        self.conditions.clear();
        self.condition_bytes = 0;
    }

    /// Makes the commit return Conflict unless `key` is as `expected` then.
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or over 65,535 bytes, or a batch that grows over 1 GiB. The
    /// batch stays as it was.
    pub fn expect(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        key: impl AsRef<[u8]>,
        expected: Expect,
    ) -> Result<()> {
        let more = key.as_ref().len() + CONDITION_OVERHEAD;
        self.check_room(more)?;
        self.expect_written(keyspace, key.as_ref(), expected)?;
        self.condition_bytes += more;
        Ok(())
    }

    /// As [`Batch::expect`], for a key that the batch writes: the condition counts as a part of the
    /// write.
    pub(crate) fn expect_written(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        key: &[u8],
        expected: Expect,
    ) -> Result<()> {
        check_key(key)?;
        let hash = keyspace.hash(key);
        let keyspace = self.index_of(keyspace)?;
        self.conditions.push(Condition { keyspace, hash, key: key.to_vec(), expected });
        Ok(())
    }

    /// Adds a write of `key`. For a RangeDelete `value` is the end of the range.
    ///
    /// # Errors
    /// Same as [`Batch::put`].
    pub fn push(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        effect: impl Into<Effect>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.check_room(key.len() + value.len())?;
        let (at, effect): (u16, Effect) = (self.index_of(keyspace)?, effect.into());
        self.has_expiry |= effect.expiry.is_some();
        self.ops.push(encode_op(&mut self.payload, keyspace, at, effect, key, value));
        Ok(())
    }

    /// Refuses `more` bytes that the batch cannot take.
    #[inline]
    fn check_room(&self, more: usize) -> Result<()> {
        let bytes = self.bytes() + more;
        if bytes <= PAYLOAD_MAX && self.ops.len() < u32::MAX as usize {
            return Ok(());
        }
        Err(Error::invalid(format!("a batch of {bytes} bytes: expected at most {PAYLOAD_MAX}")))
    }

    /// As [`Batch::push`], for a put whose expiry a layer above has set where the caller `given`
    /// another one. If the reason is gone at the commit, the given one counts. From the first such
    /// put on, the others are noted, too: one that is given the moment that was set for an earlier
    /// put of its key is told from it.
    ///
    /// # Errors
    /// Same as [`Batch::put`].
    pub fn push_dated(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        effect: Effect,
        given: Option<Moment>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let at = self.ops.len() as u32;
        self.push(keyspace, effect, key, value)?;
        if effect.expiry != given || self.is_dated() {
            self.given.push((at, given));
        }
        Ok(())
    }

    /// Returns whether a layer above has set expiries: then the batch is committed by
    /// [`Engine::hold`](crate::Engine::hold).
    pub fn is_dated(&self) -> bool {
        !self.given.is_empty()
    }

    /// Returns the expiry that the caller gave operation number `at`, if that was noted.
    pub(crate) fn given_of(&self, at: usize) -> Option<Option<Moment>> {
        let found = self.given.binary_search_by_key(&at, |(at, _)| *at as usize);
        found.ok().map(|found| self.given[found].1)
    }

    fn index_of(&mut self, core: &Arc<KeyspaceCore>) -> Result<u16> {
        // Batches write few keyspaces, and mostly the same one repeatedly.
        if let Some(at) = self.keyspaces.iter().rposition(|known| Arc::ptr_eq(known, core)) {
            return Ok(at as u16);
        }
        if self.keyspaces.len() == KEYSPACES_MAX {
            return Err(Error::invalid(format!("a batch over {KEYSPACES_MAX} keyspaces")));
        }
        self.keyspaces.push(Arc::clone(core));
        Ok((self.keyspaces.len() - 1) as u16)
    }

    /// Returns the index of the keyspace `core`, which is added to those of the batch.
    pub(crate) fn keyspace_of(&mut self, core: &Arc<KeyspaceCore>) -> Result<u16> {
        self.index_of(core)
    }

    /// Returns the keyspace, the effect, the key and the value of operation number `at`.
    pub(crate) fn operation(&self, at: usize) -> (&Arc<KeyspaceCore>, Effect, &[u8], &[u8]) {
        let (op, write) = (&self.ops[at], self.as_write());
        let keyspace = &self.keyspaces[usize::from(op.keyspace)];
        (keyspace, op.effect(), write.bytes(&op.key), write.bytes(&op.value))
    }

    pub(crate) fn as_write(&self) -> Write<'_> {
        Write {
            payload: &self.payload,
            shared: None,
            ops: &self.ops,
            conditions: &self.conditions,
            condition_bytes: self.condition_bytes,
            keyspaces: &self.keyspaces,
            has_expiry: self.has_expiry,
            reads: self.reads.as_deref(),
            prepared: &self.prepared,
        }
    }
}

impl<'a> Write<'a> {
    /// The length of the whole payload in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.payload.len() + self.shared.map_or(0, |shared| shared.len())
    }

    /// Returns the key or value at `range`, which lies in `payload` or in `shared`, never in both.
    #[inline]
    pub(crate) fn bytes(&self, range: &Range<u32>) -> &'a [u8] {
        let (start, end) = (range.start as usize, range.end as usize);
        let at = self.payload.len();
        match self.shared {
            Some(shared) if start >= at => &shared[start - at..end - at],
            _ => &self.payload[start..end],
        }
    }

    /// The checksum of the whole payload that the log stores.
    pub(crate) fn checksum(&self) -> u32 {
        match self.shared {
            None => payload_checksum(self.payload),
            Some(shared) => payload_checksum_of_parts(&[self.payload, shared]),
        }
    }

    /// Compares every operation with what the caller gave. A checksum of the payload that was
    /// computed before this call is then known to be of the right bytes.
    ///
    /// # Errors
    /// Corruption that names the first operation that has changed in memory.
    pub(crate) fn check_ops(&self) -> Result<()> {
        for op in self.ops {
            let core = &self.keyspaces[usize::from(op.keyspace)];
            let (key, value) = (self.bytes(&op.key), self.bytes(&op.value));
            if core.entry_checks && op.effect().check(core.hash(key), value) != op.check {
                return Err(changed(format_args!(
                    "an operation of a batch on keyspace {:?}, whose key reads as {} now",
                    core.name(),
                    Short(key)
                )));
            }
        }
        Ok(())
    }
}

/// Appends an operation to `payload`, and returns it with its partition.
#[inline]
pub(crate) fn encode_op(
    payload: &mut Vec<u8>,
    core: &KeyspaceCore,
    keyspace: u16,
    effect: Effect,
    key: &[u8],
    value: &[u8],
) -> BatchOp {
    let Effect { kind, expiry } = effect;
    let hash = core.hash(key);
    let layout = core.layout();
    let op = LoggedOp { kind, expiry, keyspace: core.id, key, value };
    let (key_at, value_at) = record::put_op(payload, &op);
    let check = if core.entry_checks { effect.check(hash, value) } else { EntryCheck::default() };
    flip::arrived_at(
        Site::Batch,
        payload,
        key_at..key_at + key.len(),
        value_at..value_at + value.len(),
    );
    let range = |at: usize, len: usize| at as u32..(at + len) as u32;
    BatchOp {
        kind,
        expiry,
        keyspace,
        partition: layout.route.partition(key, hash) as u16,
        layout: layout.number(),
        hash,
        key: range(key_at, key.len()),
        value: range(value_at, value.len()),
        check,
    }
}
