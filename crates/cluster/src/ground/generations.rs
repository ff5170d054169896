//! How the generations of a collection end.

use super::core::{Ground, View, epoch_of, place};
use crate::backoff::Backoff;
use crate::catalog::{Generation, State, next_number};
use crate::side_by_side::side_by_side;
use crate::store::{Freshness, Partition, Store};
use flagstone_base::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The epoch that no batch expects.
const FENCE: i32 = -1;
/// How often a fence is tried to be set.
const TRIES: u32 = 100;

/// Removes all documents by a new generation.
///
/// # Errors
/// InvalidInput if the collection was dropped; those of the store.
pub(crate) fn clear(ground: &Ground) -> Result<()> {
    let next = next_number(&*ground.store)?;
    // One that runs already also clears what was committed before this call.
    ground.alter(&mut |note| {
        // Unless it is complete already: another call has done the rest, and this answer was lost.
        let is_live = note.state == State::Live && note.rows.number < next;
        if is_live {
            note.state = State::Clearing(next);
        }
        Ok(is_live)
    })?;
    drop(complete(ground)?);
    // The collection is empty. What cannot be removed now, the next clear removes.
    let _rest = sweep(ground);
    Ok(())
}

/// Returns what is known of a collection whose generation `fenced` has a fence, after what has set
/// it is complete.
///
/// # Errors
/// InvalidInput if the collection was dropped; Corruption if it was neither cleared nor dropped;
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

/// Completes a clear that has begun.
fn complete(ground: &Ground) -> Result<Arc<View>> {
    let view = ground.reload(Freshness::Serial)?;
    let State::Clearing(next) = view.note.state else { return Ok(view) };
    let ending = view.note.rows;
    fence(&*ground.store, &ground.name, ending)?;
    ground.alter(&mut |note| {
        let is_begun = note.state == State::Clearing(next);
        if is_begun {
            note.state = State::Live;
            note.rows = Generation { number: next, ..ending };
            note.replaced.push(ending);
            note.dropped_indexes.clear();
        }
        Ok(is_begun)
    })
}

/// Removes the rows of generations that were replaced.
fn sweep(ground: &Ground) -> Result<()> {
    for old in ground.view().note.replaced.clone() {
        drop_rows(&*ground.store, &ground.name, old)?;
        ground.alter(&mut |note| {
            let before = note.replaced.len();
            note.replaced.retain(|one| *one != old);
            Ok(note.replaced.len() < before)
        })?;
    }
    Ok(())
}

/// Ends a generation and removes its rows. The fences stay.
///
/// # Errors
/// Those of the store: then some rows may be left.
pub(crate) fn drop_rows(store: &dyn Store, name: &str, generation: Generation) -> Result<()> {
    fence(store, name, generation)?;
    side_by_side(partitions(generation), |partition| store.remove_rows(partition))
}

fn partitions(generation: Generation) -> Vec<Partition> {
    let partition = |bucket| Partition { generation: generation.number, bucket };
    (0..generation.buckets as i32).map(partition).collect()
}

/// Sets a fence in each bucket: no batch is applied there any more.
fn fence(store: &dyn Store, name: &str, generation: Generation) -> Result<()> {
    side_by_side(partitions(generation), |partition| {
        let mut backoff = Backoff::of(TRIES);
        loop {
            let set = epoch_of(store, partition).and_then(|epoch| match epoch {
                Some(FENCE) => Ok(true),
                other => store.set_epoch(partition, other, FENCE).map(|_outcome| false),
            });
            match set {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::Unknown => {}
                Err(error) => return Err(error),
            }
            if !backoff.again() {
                let place = place(name, partition);
                let text = format!("the fence of {place} could not be set: try again");
                return Err(Error::new(ErrorKind::Unavailable, text));
            }
        }
    })
}
