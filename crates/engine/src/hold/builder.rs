//! Takes the locks of a batch, has it completed, and commits it.

use super::batch::HeldBatch;
use crate::commit::{
    Admitted, Batch, Committed, HeldStripes, HeldValues, LargeWrite, Locked, Resolves, Ticket,
    WriteAdmission,
};
use crate::handle::Handle;
use crate::keyspace_core::{KeyspaceCore, Trees};
use crate::options::{Durability, check_interval};
use crate::read::Snapshot;
use crate::stall::Wait;
use crate::user_code::UserCode;
use crate::write::commit_with;
use flagstone_base::key::check_key;
use flagstone_base::{Error, Result};
use flagstone_env::sync::atomic::Ordering;
use std::sync::Arc;

/// A batch whose locks will be taken. Nothing is locked yet.
pub struct Hold<'a> {
    handle: &'a Arc<Handle>,
    batch: Batch,
    keys: Vec<(u16, u64)>,
    resolves: Resolves<'a>,
    durability: Durability,
    wait: Wait,
    is_admitted: bool,
    /// An error of [`Hold::key`].
    refused: Option<Error>,
}

/// The locks of a batch, and those of its values.
struct AllHeld<'a> {
    keys: HeldStripes<'a>,
    values: Option<HeldValues<'a>>,
}

impl<'a> Hold<'a> {
    pub(crate) fn new(handle: &'a Arc<Handle>, batch: Batch) -> Self {
        let durability = handle.parts().core.setup().options.durability;
        let (keys, resolves): (_, Resolves<'a>) = (Vec::new(), &|_, _, _| true);
        let (wait, is_admitted, refused) = (Wait::Yes, true, None);
        Self { handle, batch, keys, resolves, durability, wait, is_admitted, refused }
    }

    /// Also locks `key`, for an update that does not know yet what it writes.
    #[must_use]
    pub fn key(mut self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> Self {
        match check_key(key).and_then(|()| self.batch.keyspace_of(keyspace)) {
            Ok(at) => self.keys.push((at, keyspace.hash(key))),
            Err(error) => self.refused = Some(error),
        }
        self
    }

    /// Chooses the merges of operands into keys of keyspaces that own others which become puts or
    /// deletes before the batch is completed. The default is all. If one merge of a key is chosen,
    /// all of this key are; where entries expire, all merges are.
    #[must_use]
    pub fn resolve(mut self, resolves: Resolves<'a>) -> Self {
        self.resolves = resolves;
        self
    }

    /// Sets the durability of the commit. The default is that of the database. A batch that writes
    /// a keyspace which owns others is logged, also with `None`.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets whether the commit waits while writers are stopped. The default is to wait.
    #[must_use]
    pub const fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Takes the locks, calls `complete` once, and makes all writes visible together. Without
    /// writes there is no ticket. `complete` may write only through the held batch.
    ///
    /// # Errors
    /// The error of `complete`; Conflict if a condition does not hold; Busy if it may not wait;
    /// InvalidInput, OutOfSpace, Io, Poisoned, Closed. None of the writes has happened then.
    pub fn commit<T>(
        mut self,
        complete: impl FnOnce(&mut HeldBatch<'_>) -> Result<T>,
    ) -> Result<(Option<Ticket>, T)> {
        let handle = self.handle;
        if let Durability::Interval(interval) = self.durability {
            check_interval(interval)?;
        }
        let (mut complete, mut completed) = (Some(complete), None);
        let committed = self.run(&mut |held| {
            if let Some(complete) = complete.take() {
                completed = Some(complete(held)?);
            }
            Ok(())
        })?;
        let value = completed.ok_or_else(|| handle.parts().core.setup().closed())?;
        let (log, durability) = (|| Arc::clone(&handle.parts().core.log), self.durability);
        let ticket = committed.map(|Committed { last, lsn }| Ticket {
            log: log(),
            lsn,
            durability,
            seqno: last,
        });
        Ok((ticket, value))
    }

    /// Commits without admission, and so waits for no room.
    const fn unadmitted(mut self) -> Self {
        self.is_admitted = false;
        self
    }

    /// Does all of [`Hold::commit`].
    fn run(
        &mut self,
        complete: &mut dyn FnMut(&mut HeldBatch<'_>) -> Result<()>,
    ) -> Result<Option<Committed>> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        let parts = self.handle.parts();
        parts.core.health.check_may_write()?;
        // The conditions are gone when the completed batch is checked.
        parts.commits.check_batch_bytes(self.batch.bytes())?;
        let (cores, keys) = (self.batch.keyspaces.clone(), std::mem::take(&mut self.keys));
        cores.iter().try_for_each(|core| self.handle.check_same(core))?;
        let mut admitted = if self.is_admitted { self.admit(&cores)? } else { None };
        let locked = Locked { cores: &cores, keys: &keys };
        let register = || {
            let snapshot = Snapshot::new(self.handle);
            let moment = snapshot.judged_by();
            (snapshot, moment)
        };
        let (keys, snapshot) = parts.commits.hold_to_prepare(
            &mut self.batch,
            locked,
            self.resolves,
            &mut admitted,
            self.wait,
            register,
        )?;
        self.note_prepared(&cores);
        let values = {
            let _user_code = parts.core.health.enter_user_code(UserCode::Update);
            let mut held = HeldBatch::new(self.handle, std::mem::take(&mut self.batch), snapshot);
            complete(&mut held)?;
            held.keep_old()?;
            let (batch, values) = held.into_parts();
            self.batch = batch;
            values
        };
        if self.batch.is_empty() {
            return Ok(None);
        }
        self.log_owned();
        let more = if self.is_admitted {
            parts.commits.admit_prepared(&self.batch, admitted.as_ref(), self.wait)?
        } else {
            None
        };
        if let Some(core) = cores.first() {
            let bytes = if more.is_some() { self.batch.bytes() } else { 0 };
            core.updated_bytes.store(bytes, Ordering::Relaxed);
        }
        let committed = self.commit_held(AllHeld { keys, values });
        drop((more, admitted));
        committed.map(Some)
    }

    /// Admits the batch, after a wait for as much as the last one has added.
    fn admit(&self, cores: &[Arc<KeyspaceCore>]) -> Result<Option<Admitted<'a>>> {
        let admission = &self.handle.parts().commits.admission;
        let trees = || {
            let owned = cores.iter().map(|core| core.owned_set());
            let mut all: Vec<_> = owned.flat_map(|set| set.keyspaces.clone()).collect();
            all.extend(cores.iter().cloned());
            all
        };
        let last = cores.first().map_or(0, |core| core.updated_bytes.load(Ordering::Relaxed));
        let bytes = self.batch.bytes();
        let mut touched = Vec::new();
        if last > bytes {
            // What it will be is not known, so nothing is reserved.
            let _admitted = admission.admit(last, self.wait, || {
                touched = trees();
                touched.iter().flat_map(|core| core.trees()).collect::<Trees<'_>>()
            })?;
        }
        admission.admit(bytes, self.wait, || {
            touched = trees();
            touched.iter().flat_map(|core| core.trees()).collect::<Trees<'_>>()
        })
    }

    /// Notes with which sets of owned keyspaces the batch is completed. Where a transaction has
    /// noted an earlier set, that one counts: it has for each keyspace that it writes, also if that
    /// owned none.
    fn note_prepared(&mut self, cores: &[Arc<KeyspaceCore>]) {
        for core in cores.iter().filter(|core| core.has_owned()) {
            if self.batch.prepared.iter().all(|known| known.owner != core.id) {
                self.batch.prepared.push(core.prepared());
            }
        }
    }

    /// Has a batch logged that writes a keyspace which owns others. It changes what these hold of
    /// the value that was there before. If a crash lost the write of that value and kept this one,
    /// entries of an even earlier value would stay.
    fn log_owned(&mut self) {
        if self.durability == Durability::None && self.batch.writes_owner() {
            self.durability = Durability::Buffered;
        }
    }

    fn commit_held(&mut self, held: AllHeld<'_>) -> Result<Committed> {
        // The conditions hold as long as the locks are held.
        self.batch.clear_conditions();
        let large = LargeWrite::of_batch(&mut self.batch);
        let write = self.batch.as_write();
        let write = large.as_ref().map_or(write, |large| large.as_write(write));
        let AllHeld { keys, values } = held;
        let admission = WriteAdmission { admitted: None, wait: self.wait };
        let parts = self.handle.parts();
        let committed = commit_with(parts, &write, self.durability, Some(keys), admission);
        drop(values);
        committed
    }
}

/// Empties `core` and all that it owns. `batch` deletes everything in `core`. Returns what was
/// emptied.
pub(crate) fn empty(
    handle: &Arc<Handle>,
    core: &Arc<KeyspaceCore>,
    batch: Batch,
) -> Result<(Committed, Vec<Arc<KeyspaceCore>>)> {
    let mut emptied = vec![Arc::clone(core)];
    // The batch is not admitted, since it frees more than it takes.
    let mut hold = Hold::new(handle, batch).durability(Durability::Group).unadmitted();
    let committed = hold.run(&mut |held| {
        for owned in &core.owned_set().keyspaces {
            for (kind, key, end) in owned.removals_from(vec![0]) {
                held.push(owned, kind, &key, &end)?;
            }
            emptied.push(Arc::clone(owned));
        }
        Ok(())
    })?;
    Ok((committed.ok_or_else(|| handle.parts().core.setup().closed())?, emptied))
}
