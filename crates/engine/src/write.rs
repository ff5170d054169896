//! Writes of one key: blind, or after a read of the key.

use crate::background::Admitted;
use crate::commit::{Batch, Held, LARGE_WRITE, LargeWrite, Op, Write, encode_op, trees_of};
use crate::inside::Inside;
use crate::keyspace::Keyspace;
use flagstone_base::key::{check_key, check_value};
use flagstone_base::{Kind, Result};
use flagstone_env::sync::atomic::Ordering;
use std::cell::RefCell;
use std::slice::from_ref;

impl Keyspace {
    /// Puts, deletes or merges `key`.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn write_one(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        thread_local! {
            static PAYLOAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        check_key(key)?;
        check_value(value)?;
        let (shared, core) = (self.handle().shared(), self.core());
        let trees = || core.tree_of(key, core.hash(key));
        let admitted = shared.before_write(value.len(), true, trees)?;
        if value.len() >= LARGE_WRITE {
            // Before it is copied.
            shared.check_batch_bytes(value.len())?;
            let large = LargeWrite::of_slice(core, kind, key, value);
            return self.commit_large(large, admitted, None);
        }
        let mut payload = PAYLOAD.take();
        payload.clear();
        let op = encode_op(&mut payload, core, 0, kind, key, value);
        let durability = shared.options.durability;
        let committed = shared.write(&self.write_of(&payload, from_ref(&op)), durability, None);
        // Long keys may have made the buffer too large to keep.
        if payload.capacity() <= LARGE_WRITE {
            PAYLOAD.set(payload);
        }
        shared.wait_durable(committed?.lsn, durability)
    }

    /// Waits for room for a value of about `bytes` that is still to be encoded. `None` for a small value, which needs no
    /// admission.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn turn_for(&self, key: &[u8], bytes: usize) -> Result<Option<Admitted<'_>>> {
        if bytes < LARGE_WRITE {
            return Ok(None);
        }
        let core = self.core();
        self.handle().shared().before_write(bytes, true, || core.tree_of(key, core.hash(key)))
    }

    /// Sets `key` to `value`, whose buffer it takes over; `turn` is what [`Keyspace::turn_for`] returned, if it was asked.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_encoded(
        &self,
        key: &[u8],
        value: Vec<u8>,
        turn: Option<Admitted<'_>>,
    ) -> Result<()> {
        if value.len() < LARGE_WRITE && turn.is_none() {
            return self.write_one(Kind::Put, key, &value);
        }
        check_key(key)?;
        check_value(&value)?;
        let turn = match turn {
            None => self.turn_for(key, value.len())?,
            Some(mut turn) => {
                turn.grow_to(value.len());
                Some(turn)
            }
        };
        let large = LargeWrite::of_value(self.core(), Kind::Put, key, value);
        self.commit_large(large, turn, None)
    }

    /// Reads `key`, asks `change` what to write (`None`: nothing), and writes it; no other write of
    /// the key comes between. Returns whether something was written.
    ///
    /// # Errors
    /// What `change` returns; else as [`Keyspace::put`].
    pub fn read_modify_write(
        &self,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>) -> Result<Option<(Kind, Vec<u8>)>>,
    ) -> Result<bool> {
        let (shared, core) = (self.handle().shared(), self.core());
        // The length of the new value is not known: assume that of the last update. The room is not kept, since nobody
        // knows how long `change` takes.
        let hash = core.hash(key);
        let like_the_last = core.updated_bytes.load(Ordering::Relaxed);
        drop(shared.before_write(like_the_last, true, || core.tree_of(key, hash))?);
        let held = shared.stripes.hold_to_update(core, hash);
        let changed = {
            let _inside = shared.run_inside(Inside::Update);
            let found = shared.get_found(core, key, hash, None)?;
            change(found.value.as_deref())?
        };
        let Some((kind, value)) = changed else { return Ok(false) };
        check_value(&value)?;
        let admitted = shared.admit_update(value.len())?;
        if admitted.is_some() {
            core.updated_bytes.store(value.len(), Ordering::Relaxed);
            let large = LargeWrite::of_value(core, kind, key, value);
            return self.commit_large(large, admitted, Some(held)).map(|()| true);
        }
        if like_the_last > 0 {
            core.updated_bytes.store(0, Ordering::Relaxed);
        }
        let mut payload = Vec::with_capacity(key.len() + value.len() + 16);
        let op = encode_op(&mut payload, core, 0, kind, key, &value);
        let durability = shared.options.durability;
        let write = self.write_of(&payload, from_ref(&op));
        let committed = shared.write(&write, durability, Some(held))?;
        shared.wait_durable(committed.lsn, durability)?;
        Ok(true)
    }

    pub(crate) fn commit_own(&self, batch: &Batch) -> Result<()> {
        let shared = self.handle().shared();
        let durability = shared.options.durability;
        let write = batch.as_write();
        let admitted = shared.before_write(write.len(), true, || trees_of(&write))?;
        let committed = shared.write(&write, durability, None)?;
        drop(admitted);
        shared.wait_durable(committed.lsn, durability)
    }

    /// Commits a large write; frees its memory, then its admission, before it waits for a sync.
    fn commit_large(
        &self,
        (large, op): (LargeWrite, Op),
        admitted: Option<Admitted<'_>>,
        held: Option<Held<'_>>,
    ) -> Result<()> {
        let shared = self.handle().shared();
        let durability = shared.options.durability;
        let write = large.as_write(self.write_of(&[], from_ref(&op)));
        let committed = shared.write(&write, durability, held);
        drop(large);
        drop(admitted);
        shared.wait_durable(committed?.lsn, durability)
    }

    fn write_of<'a>(&'a self, payload: &'a [u8], ops: &'a [Op]) -> Write<'a> {
        let keyspaces = from_ref(self.core());
        Write { payload, shared: None, ops, conditions: &[], keyspaces }
    }
}
