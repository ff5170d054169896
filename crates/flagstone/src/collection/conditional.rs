//! Changes of a document that happen only if it is there and a condition holds for it.

use super::stored::Stored;
use super::update::{self, patch_fold};
use super::write::{self, Destination, Rewrite};
use flagstone_base::Result;
use flagstone_doc::Patch;

/// The result of a conditional change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is no document, or the condition does not hold for it.
    Unmatched,
    /// The document is already as it would be.
    Unchanged,
    Changed,
}

/// Changes the document of the encoded `key` by a patch, which is given with its stored form.
pub(super) fn patch(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    (patch, operand): (&Patch, &[u8]),
    condition: impl FnOnce(&[u8]) -> Result<bool>,
) -> Result<Outcome> {
    let fold = patch_fold(stored);
    rewrite(stored, to, key, condition, |old| {
        update::patched(stored, &fold, (patch, operand), Some(old))
    })
}

/// Removes the document of the encoded `key`.
pub(super) fn remove(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    condition: impl FnOnce(&[u8]) -> Result<bool>,
) -> Result<Outcome> {
    rewrite(stored, to, key, condition, |_old| Ok(Rewrite::Delete))
}

fn rewrite(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    condition: impl FnOnce(&[u8]) -> Result<bool>,
    decide: impl FnOnce(&[u8]) -> Result<Rewrite>,
) -> Result<Outcome> {
    let mut matches = false;
    let is_changed = write::rewrite(stored, to, key, |old| {
        let Some(old) = old else { return Ok(Rewrite::Nothing) };
        matches = condition(old)?;
        if matches { decide(old) } else { Ok(Rewrite::Nothing) }
    })?;
    Ok(match (matches, is_changed) {
        (false, _) => Outcome::Unmatched,
        (true, false) => Outcome::Unchanged,
        (true, true) => Outcome::Changed,
    })
}
