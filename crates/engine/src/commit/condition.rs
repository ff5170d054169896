//! Checks the conditions of a batch while the write holds the stripes of their keys.

use super::batch::{Condition, Expected, Write};
use crate::keyspace_core::KeyspaceCore;
use crate::reads::{ReadMoment, Reads};
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_tree::{Found, Tree};
use std::sync::Arc;

/// Checks the conditions of `write`, all as of the same moment.
///
/// # Errors
/// Conflict if a condition does not hold.
#[inline]
pub(super) fn check_conditions(reads: &Reads, write: &Write<'_>) -> Result<()> {
    if write.conditions.is_empty() { Ok(()) } else { check_all(reads, write) }
}

#[inline(never)]
fn check_all(reads: &Reads, write: &Write<'_>) -> Result<()> {
    loop {
        let moment = ReadMoment::new(reads);
        check_at_moment(reads, write, &moment)?;
        if moment.is_valid_in(trees_of_conditions(write)) {
            return Ok(());
        }
    }
}

/// Like [`check_conditions`], as of `moment`, which must be valid in [`trees_of_conditions`].
pub(super) fn check_at_moment(
    reads: &Reads,
    write: &Write<'_>,
    moment: &ReadMoment<'_>,
) -> Result<()> {
    let mut conditions = write.conditions.iter();
    conditions.try_for_each(|condition| check_condition(reads, write, condition, moment))
}

/// Returns the trees of the keys that the conditions of `write` name.
pub(super) fn trees_of_conditions<'a>(write: &Write<'a>) -> impl Iterator<Item = &'a Arc<Tree>> {
    let Write { conditions, keyspaces, .. } = *write;
    conditions.iter().map(move |condition| {
        let keyspace = &keyspaces[usize::from(condition.keyspace)];
        keyspace.layout().tree_of(&condition.key, condition.hash)
    })
}

/// Checks one condition.
///
/// # Errors
/// Conflict, with the version found and the one expected, if the condition does not hold.
fn check_condition(
    reads: &Reads,
    write: &Write<'_>,
    condition: &Condition,
    moment: &ReadMoment<'_>,
) -> Result<()> {
    let keyspace = &write.keyspaces[usize::from(condition.keyspace)];
    let found = reads.get_at_moment(keyspace, &condition.key, condition.hash, moment)?;
    let present = found.value.as_ref().and(found.seqno);
    let is_here = condition.expected.token().is_none_or(|t| t.history == reads.history.id);
    let holds = is_here
        && match condition.expected {
            Expected::Absent => present.is_none(),
            Expected::Version(token) => present == Some(token.seqno),
            Expected::UnchangedSince(token) => {
                last_write(keyspace, condition, &found) <= token.seqno
            }
        };
    if holds {
        return Ok(());
    }
    let expected = match condition.expected {
        Expected::Version(token) | Expected::UnchangedSince(token) if !is_here => {
            format!("expected at {token}, and this is history {:016x}", reads.history.id.0)
        }
        Expected::Absent => "expected to be absent".to_owned(),
        Expected::Version(token) => format!("expected at {}", token.seqno),
        Expected::UnchangedSince(token) => {
            format!("expected to be unchanged since {}", token.seqno)
        }
    };
    let state = present.map_or("absent".to_owned(), |seqno| format!("at {seqno}"));
    Err(Error::new(
        ErrorKind::Conflict,
        format!(
            "key {} of keyspace {:?} is {state}, {expected}",
            condition.key.escape_ascii(),
            keyspace.name()
        ),
    ))
}

/// An upper bound of the SeqNo of the newest write of the key, deletes included.
fn last_write(keyspace: &KeyspaceCore, condition: &Condition, found: &Found) -> SeqNo {
    found.seqno.unwrap_or_else(|| {
        // A compaction may have dropped a tombstone, but none above its watermark. The watermark is
        // read after the key, so it is not older than that of the view in which nothing was found.
        keyspace.layout().tree_of(&condition.key, condition.hash).peek().watermark()
    })
}
