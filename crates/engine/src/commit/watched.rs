//! What a commit does under the numbering lock for serializable transactions.

use super::batch::Write;
use super::read_set::ReadSet;
use super::recent::{RecentWrite, RecentWrites, Removed};
use flagstone_base::{Kind, Result, SeqNo};

/// Checks what the transaction of `write` has read, if it is serializable. Called under the
/// numbering lock, and before it, so that the time under the lock is short.
///
/// # Errors
/// Conflict if something of it was written after its snapshot.
#[inline]
pub(super) fn check_reads(write: &Write<'_>) -> Result<()> {
    write.reads.map_or(Ok(()), ReadSet::check)
}

/// Notes the writes of a commit whose last SeqNo is `last`.
#[cold]
pub(super) fn note_writes(recent: &RecentWrites, write: &Write<'_>, last: SeqNo) -> Removed {
    let writes = write.ops.iter().map(|op| RecentWrite {
        keyspace: write.keyspaces[usize::from(op.keyspace)].id,
        key: write.bytes(&op.key),
        end: (op.kind == Kind::RangeDelete).then(|| write.bytes(&op.value)),
    });
    recent.note(last, writes)
}
