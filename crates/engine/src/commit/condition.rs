//! Checks the conditions of a batch while the write holds the stripes of their keys.

use super::batch::{Condition, Expect, Write};
use crate::history::VersionToken;
use crate::keyspace_core::KeyspaceCore;
use crate::reads::{ReadMoment, Reads};
use flagstone_base::hash::HashedKey;
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_tree::{Tree, written_after};
use std::fmt;
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
fn check_condition(
    reads: &Reads,
    write: &Write<'_>,
    condition: &Condition,
    moment: &ReadMoment<'_>,
) -> Result<()> {
    let keyspace = &write.keyspaces[usize::from(condition.keyspace)];
    let Condition { key, hash, expected, .. } = condition;
    check_expected(reads, keyspace, key, *expected, || {
        let found = reads.get_at_moment(keyspace, key, *hash, moment)?;
        Ok(found.value.as_ref().and(found.seqno))
    })
}

/// Checks that `key` is as `expected`. `find` returns the SeqNo of its newest write if it has a
/// value.
///
/// # Errors
/// Conflict, with the version found and the one expected, if it is not; errors of reading.
pub(crate) fn check_expected(
    reads: &Reads,
    keyspace: &KeyspaceCore,
    key: &[u8],
    expected: Expect,
    find: impl FnOnce() -> Result<Option<SeqNo>>,
) -> Result<()> {
    let token = match expected {
        Expect::UnchangedSince(token) => return check_unchanged(reads, keyspace, key, token),
        Expect::Version(token) => Some(token),
        Expect::Absent => None,
    };
    let present = find()?;
    let is_here = token.is_none_or(|token| token.history == reads.core.history.id);
    if is_here && present == token.map(|token| token.seqno) {
        return Ok(());
    }
    let expected = match token {
        Some(token) if !is_here => {
            format!("expected at {token}, and this is history {:016x}", reads.core.history.id.0)
        }
        Some(token) => format!("expected at {}", token.seqno),
        None => "expected to be absent".to_owned(),
    };
    let state = present.map_or("absent".to_owned(), |seqno| format!("at {seqno}"));
    Err(conflict(keyspace, key, format_args!("is {state}, {expected}")))
}

/// Checks that `key` was not written after `token`.
///
/// # Errors
/// Conflict if it was, or if that is not known any more; errors of reading.
fn check_unchanged(
    reads: &Reads,
    keyspace: &KeyspaceCore,
    key: &[u8],
    token: VersionToken,
) -> Result<()> {
    reads.core.health.check_open()?;
    keyspace.check_readable()?;
    if token.history != reads.core.history.id {
        let here = reads.core.history.id.0;
        let what =
            format_args!("is in history {here:016x}, expected to be unchanged since {token}");
        return Err(conflict(keyspace, key, what));
    }
    let hash = keyspace.hash(key);
    let written = loop {
        let tree = keyspace.layout().tree_of(key, hash);
        let written = written_after(tree, HashedKey { key, hash }, token.seqno);
        // A tree that was replaced meanwhile is empty.
        if tree.successors().is_none() {
            break written;
        }
    };
    let Some(seqno) = written.map_err(|error| reads.reported(error))? else { return Ok(()) };
    let since = token.seqno;
    let what = format_args!("was written at {seqno}, expected to be unchanged since {since}");
    Err(conflict(keyspace, key, what))
}

/// Returns the Conflict of a key that is not as expected.
#[cold]
pub(crate) fn conflict(keyspace: &KeyspaceCore, key: &[u8], what: fmt::Arguments<'_>) -> Error {
    let (key, name) = (keyspace.key_text(key), keyspace.name());
    Error::new(ErrorKind::Conflict, format!("key {key} of keyspace {name:?} {what}"))
}
