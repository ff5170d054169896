//! Changes of a document that happen only if it is there and a condition holds for it.

use super::stored::Stored;
use super::write::{self, Rewrite};
use crate::write::Destination;
use flagstone_base::Result;

/// The result of a conditional change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is no document, or the condition does not hold for it.
    Unmatched,
    /// The document is already as it would be.
    Unchanged,
    Changed,
}

/// Does to the document of the encoded `key` what `decide` returns.
pub(super) fn rewrite(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    mut condition: impl FnMut(&[u8]) -> Result<bool>,
    mut decide: impl FnMut(&[u8]) -> Result<Rewrite>,
) -> Result<Outcome> {
    let mut matches = false;
    let is_changed = write::rewrite(stored, to, key, |old| {
        matches = false;
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
