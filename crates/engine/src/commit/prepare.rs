//! A batch that is completed under its locks: what else it must write depends on what it changes.
//!
//! ```text
//! admission -> gates, stripes -> conditions, merges -> the caller reads, and adds writes
//!     -> stripes of values, if the caller asks -> numbering, as for any write
//! ```

use super::admission::{Admitted, ValueAdmission};
use super::batch::{Batch, OP_OVERHEAD};
use super::condition::check_at_moment;
use super::pipeline::{Commits, busy_with_ingest};
use super::resolve::{ChosenMerges, Resolved, Resolves};
use super::stripes::HeldStripes;
use crate::keyspace_core::KeyspaceCore;
use crate::reads::ReadMoment;
use crate::stall::Wait;
use flagstone_base::{Error, Moment, Result};
use std::sync::Arc;

/// What a batch locks.
#[derive(Clone, Copy)]
pub(crate) struct Locked<'a> {
    /// The keyspaces of the batch.
    pub(crate) cores: &'a [Arc<KeyspaceCore>],
    /// Keys besides those of the batch: the index of the keyspace, and the hash.
    pub(crate) keys: &'a [(u16, u64)],
}

impl Commits {
    /// Locks what `batch` writes and depends on, checks its conditions and resolves its merges, all
    /// as of the moment of the reader that `read` registers under the locks. If the values of
    /// merges do not fit, the locks are released, and it waits unless it may not.
    ///
    /// # Errors
    /// Conflict if a condition does not hold; Busy; errors of reading and of writing.
    pub(crate) fn hold_to_prepare<'a, R>(
        &'a self,
        batch: &mut Batch,
        locked: Locked<'a>,
        resolves: Resolves<'_>,
        admitted: &mut Option<Admitted<'a>>,
        wait: Wait,
        read: impl Fn() -> (R, Moment),
    ) -> Result<(HeldStripes<'a>, R)> {
        self.core.health.check_open_for_writing()?;
        let write = batch.as_write();
        write.check_ops()?;
        self.note_expiries(&write)?;
        let operands = if admitted.is_some() { write.len() } else { 0 };
        let admitted = admitted.get_or_insert_with(|| self.admission.nothing());
        let mut values = ValueAdmission::new(&self.admission, operands, admitted, wait);
        loop {
            let held = self.stripes.hold_to_prepare(locked.cores, &write, locked.keys, wait);
            let held = held.ok_or_else(busy_with_ingest)?;
            let (reader, moment) = read();
            let moment = ReadMoment::at(&self.reads, moment);
            check_at_moment(&self.reads, &write, &moment)?;
            let chosen = ChosenMerges::of_owners(&write, resolves);
            if chosen.is_nothing(&write) {
                return Ok((held, reader));
            }
            let resolved = Resolved::at_moment(&self.reads, &write, &chosen, &moment, &mut values)?;
            if let Some(Resolved { payload, ops }) = resolved {
                values.shrink_to(payload.len());
                (batch.payload, batch.ops) = (payload, ops);
                return Ok((held, reader));
            }
            drop((held, reader));
            values.wait()?;
        }
    }

    /// Refuses a write of `key` and `value` that `batch` cannot take any more.
    pub(crate) fn check_prepared_bytes(
        &self,
        batch: &Batch,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let most = self.core.setup().batch_bytes_max();
        let bytes = batch.bytes() + key.len() + value.len() + OP_OVERHEAD;
        if bytes as u64 <= most {
            return Ok(());
        }
        Err(too_large_with_owned(most))
    }

    /// Admits what was added to `batch` under its locks, besides what was admitted before. Returns
    /// Busy instead if it may not `wait`.
    pub(crate) fn admit_prepared(
        &self,
        batch: &Batch,
        admitted: Option<&Admitted<'_>>,
        wait: Wait,
    ) -> Result<Option<Admitted<'_>>> {
        let before = admitted.map_or(0, |admitted| admitted.bytes() as usize);
        let more = batch.payload.len().saturating_sub(before);
        self.admission.admit_update(more, wait)
    }
}

/// Returns the error of a write that takes more than `most` bytes together with what changes in
/// owned keyspaces.
#[cold]
pub fn too_large_with_owned(most: u64) -> Error {
    Error::invalid(format!(
        "a write that takes more than {most} bytes (a quarter of the memory budget) with all that \
         changes in the indexes: change or delete less at once"
    ))
}
