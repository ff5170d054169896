//! How the generations of a collection end.

use super::copy::{Copy, Notes};
use super::core::{Ground, View, place, set_epoch};
use crate::catalog::{Generation, Replaced, State, next_number};
use crate::side_by_side::side_by_side;
use crate::store::{Freshness, Store};
use flagstone_base::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The epoch that no batch expects.
const FENCE: i32 = -1;
/// A writer reads the note again when its last reading is this old.
const LOOK_AGE: Duration = Duration::from_secs(5);

/// Returns what is known of a collection whose generation `fenced` has a fence, after what has set
/// it is complete.
///
/// # Errors
/// InvalidInput if the collection was dropped; Corruption if its generation was not replaced;
/// those of the store.
pub(crate) fn pass_fence(ground: &Ground, fenced: i32) -> Result<Arc<View>> {
    let view = complete(ground)?;
    if view.note.rows.number == fenced {
        let text = format!(
            "collection {:?}: buckets of generation {fenced} (table rows, c) have a fence: \
             expected another generation in its note (table catalog)",
            ground.name
        );
        return Err(Error::new(ErrorKind::Corruption, text));
    }
    Ok(view)
}

impl Ground {
    /// Reads the note again. A clear that was cut short is completed: what others write before that
    /// is lost with it.
    ///
    /// # Errors
    /// InvalidInput if the collection was dropped; those of the store.
    pub(crate) fn reload(&self, freshness: Freshness) -> Result<Arc<View>> {
        let view = self.reread(freshness)?;
        if !view.is_being_cleared() {
            return Ok(view);
        }
        // Who only reads has written nothing.
        complete(self).map_err(unanswered)
    }

    /// As [`Ground::reload`], if that was not done for a while, or there is a clear to complete:
    /// for writers, who have no other reason to read the note.
    pub(crate) fn look(&self) -> Result<Arc<View>> {
        let (view, now) = (self.view(), self.clock.monotonic());
        if view.is_being_cleared() {
            return complete(self).map_err(unanswered);
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if now < *looked + LOOK_AGE {
            return Ok(view);
        }
        *looked = now;
        drop(looked);
        match self.reload(Freshness::Settled) {
            // The bucket may be there, unless it is being cleared.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let known = self.view();
                if known.is_being_cleared() { Err(error) } else { Ok(known) }
            }
            read => read,
        }
    }
}

/// Returns the error of a call that others may have to complete, for one that has begun nothing.
#[cold]
pub(crate) fn unanswered(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unknown => Error::new(ErrorKind::Unavailable, error.to_string()),
        _ => error,
    }
}

/// Completes a clear, or a switch to another generation, that has begun.
pub(super) fn complete(ground: &Ground) -> Result<Arc<View>> {
    let _alone = ground.completing.lock().unwrap_or_else(PoisonError::into_inner);
    let view = ground.reread(Freshness::Serial)?;
    let (state, claims) = (view.note.state.clone(), view.note.claims.clone());
    let ending = view.note.rows.replaced();
    let next = match &state {
        State::Clearing(number) => Generation { number: *number, ..view.note.rows.clone() },
        State::Switching(next) => next.clone(),
        _ => return Ok(view),
    };
    fence(&*ground.store, &ground.name, ending)?;
    if matches!(state, State::Switching(_)) {
        let rest = Copy::new(ground, &view, &next).again(noted(&view), Notes::Keep)?;
        let now = if rest.is_some() { view } else { ground.reread(Freshness::Serial)? };
        if rest.is_none() && now.note.state == state {
            let name = &ground.name;
            let text = format!("the last documents of collection {name:?} could not be copied");
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
    }
    // Documents that are not there any more claim nothing.
    let claims = match (&state, claims) {
        (State::Clearing(_), Some(claims)) => {
            Some(Generation { number: next_number(&*ground.store)?, ..claims })
        }
        _ => None,
    };
    ground.alter(&mut |note| {
        let is_begun = note.state == state;
        if is_begun {
            if state == State::Clearing(next.number) {
                note.cleared = next.number;
                if claims.is_some() {
                    note.replaced.extend(note.claims.as_ref().map(Generation::replaced));
                    note.claims.clone_from(&claims);
                }
            } else {
                // Nothing is copied into it any more as soon as its buckets have this epoch.
                note.epoch += 1;
            }
            note.state = State::Live;
            note.rows = next.clone();
            note.replaced.push(ending);
            note.dropped_indexes.clear();
        }
        Ok(is_begun)
    })
}

/// Returns the error of a call that has begun to change a collection, and cannot go on: what it has
/// begun is done, or completed later. `what` says it.
#[cold]
pub(crate) fn begun(what: &str, error: Error) -> Error {
    if error.kind() != ErrorKind::Unavailable {
        return error;
    }
    Error::new(ErrorKind::Unknown, format!("{what}: {error}"))
}

/// Returns the epochs under which writers have noted what may still be there.
pub(super) fn noted(view: &View) -> Range<i32> {
    view.note.noted_since..view.note.epoch + 1
}

/// Ends a generation and removes its rows. The fences stay.
///
/// # Errors
/// Those of the store: then some rows may be left.
pub(crate) fn drop_rows(store: &dyn Store, name: &str, generation: Replaced) -> Result<()> {
    fence(store, name, generation)?;
    side_by_side(generation.partitions().collect(), |partition| store.remove_rows(partition))
}

/// Sets a fence in each bucket: no batch is applied there any more.
fn fence(store: &dyn Store, name: &str, generation: Replaced) -> Result<()> {
    side_by_side(generation.partitions().collect(), |partition| {
        if set_epoch(store, partition, FENCE, |epoch| epoch == Some(FENCE))? {
            return Ok(());
        }
        let place = place(name, partition);
        let text = format!("the fence of {place} could not be set: try again");
        Err(Error::new(ErrorKind::Unavailable, text))
    })
}
