//! A large write: the log shares its bytes, so memory holds them once between the call and the
//! memtable.

use super::batch::{Batch, BatchOp, Effect, Write};
use super::record::{LoggedOp, put_head};
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::EntryCheck;
use flagstone_base::flip::{self, Site};
use flagstone_base::large_buffer::reserve_large;
use std::sync::Arc;

/// A write of at least this many bytes is large: it waits until there is room for it, and the log
/// does not copy it.
pub(crate) const LARGE_WRITE: usize = 64 << 10;

/// The payload of a large write. Dropping it frees the memory.
pub(crate) struct LargeWrite {
    head: Vec<u8>,
    shared: Arc<Vec<u8>>,
}

fn check_of(core: &KeyspaceCore, effect: Effect, key: &[u8], value: &[u8]) -> EntryCheck {
    if core.entry_checks { effect.check(core.hash(key), value) } else { EntryCheck::default() }
}

impl LargeWrite {
    /// The write of one key with a copy of `value`, and its operation. The check of the operation
    /// is computed from the caller's bytes.
    pub(crate) fn of_slice(
        core: &KeyspaceCore,
        effect: Effect,
        key: &[u8],
        value: &[u8],
    ) -> (Self, BatchOp) {
        let check = check_of(core, effect, key, value);
        let mut copy = Vec::new();
        reserve_large(&mut copy, value.len());
        copy.extend_from_slice(value);
        let (large, op) = Self::of_value(core, effect, key, copy);
        (large, BatchOp { check, ..op })
    }

    /// The write of one key with the buffer of `value`, and its operation.
    pub(crate) fn of_value(
        core: &KeyspaceCore,
        effect: Effect,
        key: &[u8],
        mut value: Vec<u8>,
    ) -> (Self, BatchOp) {
        let Effect { kind, expiry } = effect;
        let (hash, layout) = (core.hash(key), core.layout());
        let check = check_of(core, effect, key, &value);
        let mut head = Vec::with_capacity(key.len() + super::batch::OP_OVERHEAD);
        let logged = LoggedOp { kind, expiry, keyspace: core.id, key, value: &value };
        let (key_at, value_at) = put_head(&mut head, &logged);
        let (key_range, value_range) = (key_at..key_at + key.len(), 0..value.len());
        flip::arrived_apart(Site::Batch, &mut head, key_range, &mut value, value_range);
        let range = |at: usize, len: usize| at as u32..(at + len) as u32;
        let op = BatchOp {
            kind,
            expiry,
            keyspace: 0,
            partition: layout.route.partition(key, hash) as u16,
            layout: layout.number(),
            hash,
            key: range(key_at, key.len()),
            value: range(value_at, value.len()),
            check,
        };
        (Self { head, shared: Arc::new(value) }, op)
    }

    /// Takes the payload out of a batch; `None` if the payload is small.
    pub(crate) fn of_batch(batch: &mut Batch) -> Option<Self> {
        Self::of_payload(&mut batch.payload)
    }

    /// Takes `payload` over; `None` if it is small.
    pub(super) fn of_payload(payload: &mut Vec<u8>) -> Option<Self> {
        let is_large = payload.len() >= LARGE_WRITE;
        is_large.then(|| Self { head: Vec::new(), shared: Arc::new(std::mem::take(payload)) })
    }

    /// Returns the buffer that was taken over, after a commit that was refused.
    pub(crate) fn give_back(mut self) -> Vec<u8> {
        let shared = std::mem::take(&mut self.shared);
        Arc::try_unwrap(shared).unwrap_or_else(|shared| shared.to_vec())
    }

    /// Returns `write` with this payload.
    pub(crate) fn as_write<'a>(&'a self, write: Write<'a>) -> Write<'a> {
        Write { payload: &self.head, shared: Some(&self.shared), ..write }
    }
}

impl Drop for LargeWrite {
    fn drop(&mut self) {
        let freed = self.shared.capacity();
        self.shared = Arc::default();
        flagstone_env::os::freed(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_large_write_has_the_bytes_and_the_operation_of_a_small_one() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("k").unwrap();
        let mut batch = Batch::default();
        let value = vec![7; LARGE_WRITE];
        batch.put(&kv, "key", &value).unwrap();
        let (large, op) = LargeWrite::of_value(kv.core(), Effect::put(None), b"key", value);
        let large = large.as_write(batch.as_write());
        let small = batch.as_write();
        assert_eq!((large.len(), large.checksum()), (small.len(), small.checksum()));
        assert_eq!(format!("{op:?}"), format!("{:?}", batch.ops[0]));
        for range in [&op.key, &op.value] {
            assert_eq!(large.bytes(range), small.bytes(range));
        }
        let (expected, checksum) = (batch.payload.clone(), large.checksum());
        let taken = LargeWrite::of_batch(&mut batch).unwrap();
        assert_eq!(batch.bytes(), 0);
        let taken = taken.as_write(batch.as_write());
        assert_eq!((taken.bytes(&op.key), taken.checksum()), (&b"key"[..], checksum));
        assert_eq!(taken.shared.unwrap().as_slice(), expected);
    }
}
