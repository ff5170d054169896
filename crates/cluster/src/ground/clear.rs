//! A collection is cleared by another generation.
//!
//! A process that dies behind the first step, which is in the catalog alone, leaves a clear that
//! writers do not meet. It must not wait until somebody meets it long after: every reading of the
//! catalog completes it, and writers read it every few seconds.

use super::core::Ground;
use super::epochs::raise_all;
use super::generations::{begun, complete, drop_rows, unanswered};
use crate::catalog::{Generation, State, next_number};
use flagstone_base::Result;

/// Removes all documents by a new generation.
///
/// # Errors
/// InvalidInput if the collection was dropped; those of the store.
pub(crate) fn clear(ground: &Ground) -> Result<()> {
    let next = next_number(&*ground.store)?;
    loop {
        // One that runs already also clears what was committed before this call.
        let view = ground.alter(&mut |note| {
            // Unless it is complete already: another call has done the rest, and this answer was
            // lost.
            let is_new = note.cleared < next;
            let begins = is_new && matches!(note.state, State::Live | State::Moving(_));
            if begins {
                let other = note.next().map(Generation::replaced);
                note.replaced.extend(other);
                note.state = State::Clearing(next);
            }
            Ok(begins)
        })?;
        let is_begun = matches!(view.note.state, State::Clearing(_));
        let ended = complete(ground).map_err(|error| {
            if !is_begun {
                return unanswered(error);
            }
            let text = format!(
                "the clear of collection {:?} has begun, and the next calls complete it",
                ground.name
            );
            begun(&text, error)
        })?;
        drop(ended);
        if !matches!(view.note.state, State::Switching(_)) {
            break;
        }
    }
    // The collection is empty. What cannot be removed now, the next clear removes.
    let _rest = sweep(ground);
    Ok(())
}

/// Removes the rows of generations that were replaced.
pub(crate) fn sweep(ground: &Ground) -> Result<()> {
    let replaced = ground.view().note.replaced.clone();
    if replaced.is_empty() {
        return Ok(());
    }
    // Another process may still copy from one of them, and would take what is removed for documents
    // that were removed.
    raise_all(ground)?;
    for old in replaced {
        drop_rows(&*ground.store, &ground.name, old)?;
        ground.alter(&mut |note| {
            let before = note.replaced.len();
            note.replaced.retain(|one| *one != old);
            Ok(note.replaced.len() < before)
        })?;
    }
    Ok(())
}
