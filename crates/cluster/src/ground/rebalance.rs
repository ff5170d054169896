//! A collection gets another number of buckets while others read and write it.

use super::clear::sweep;
use super::copy::{Bucket, Copy, Goes};
use super::core::{Ground, View};
use super::epochs::raise_all;
use super::generations::complete;
use crate::catalog::{Generation, Note, State, next_number};
use crate::side_by_side::side_by_side;
use crate::store::Freshness;
use flagstone::remote::RemoteIndex;
use flagstone_base::{Error, ErrorKind, Result};
use std::ops::ControlFlow;
use std::sync::Mutex;

/// The buckets of which pages are copied side by side.
const SIDE_BY_SIDE: usize = 8;
/// Writers wait while the last rows are copied: at most so many should be left ..
const FEW: u64 = 200;
/// .. unless others write faster than they are copied.
const ROUNDS: u32 = 20;

/// Called with the number of documents that are copied; ends the call by `Break`.
type Watch<'w> = &'w mut dyn FnMut(u64) -> ControlFlow<()>;

/// Divides the collection into so many buckets. A call that was cut short is continued by the next
/// one with the same number. One with the number that the collection has gives it up.
///
/// # Errors
/// InvalidInput if the collection was dropped; Busy while an index is being built; those of the
/// store.
pub(crate) fn rebalance(
    ground: &Ground,
    buckets: u32,
    watch: Watch<'_>,
) -> Result<ControlFlow<()>> {
    loop {
        let view = ground.reload(Freshness::Serial)?;
        match view.note.state {
            State::Moving(next) if next.buckets == buckets => {
                if copy(ground, &view, next, watch)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            State::Live if view.note.rows.buckets == buckets => {
                // What cannot be removed now, the next call removes.
                let _rest = sweep(ground);
                return Ok(ControlFlow::Continue(()));
            }
            State::Live => begin(ground, buckets)?,
            State::Moving(_) if view.note.rows.buckets == buckets => give_up(ground)?,
            State::Moving(_) => begin(ground, buckets)?,
            _ => drop(complete(ground)?),
        }
    }
}

/// Begins to move the collection, instead of what was begun before.
fn begin(ground: &Ground, buckets: u32) -> Result<()> {
    let next = Generation { number: next_number(&*ground.store)?, buckets };
    let mut epoch = None;
    ground.alter(&mut |note| {
        // Who begins raises the epoch: so this number is not used twice, though an answer was lost
        // and others have given up what was begun.
        let is_same = *epoch.get_or_insert(note.epoch) == note.epoch;
        let begins = is_same && matches!(note.state, State::Live | State::Moving(_));
        if begins {
            check_complete(ground, note)?;
            note.replaced.extend(note.next());
            note.state = State::Moving(next);
            note.epoch += 1;
        }
        Ok(begins)
    })?;
    Ok(())
}

/// Ends a move without a new generation.
fn give_up(ground: &Ground) -> Result<()> {
    let view = ground.alter(&mut |note| {
        let State::Moving(next) = note.state else { return Ok(false) };
        note.replaced.push(next);
        note.state = State::Live;
        note.epoch += 1;
        Ok(true)
    })?;
    raise_all(ground)?;
    // Under the epoch that was reached here: what writers note under a later one is needed.
    if view.note.state == State::Live {
        Copy::new(ground, &view, view.note.rows).forget_all()
    } else {
        Ok(())
    }
}

/// Refuses to move while an index is incomplete: the copies would lack entries.
fn check_complete(ground: &Ground, note: &Note) -> Result<()> {
    for index in &note.indexes {
        if !RemoteIndex::new(index.id, &index.name, &index.note)?.is_complete() {
            let text = format!(
                "index {:?} of collection {:?} is being built: wait until it is complete, create \
                 it again if its build was cut short, or drop it",
                index.name, ground.name
            );
            return Err(Error::new(ErrorKind::Busy, text));
        }
    }
    Ok(())
}

/// Refuses to change indexes of a collection that is being moved.
///
/// # Errors
/// Busy.
pub(crate) fn refuse_while_moving(ground: &Ground, note: &Note) -> Result<()> {
    let Some(next) = note.next() else { return Ok(()) };
    let (buckets, name, now) = (next.buckets, &ground.name, note.rows.buckets);
    let text = format!(
        "collection {name:?} is being divided into {buckets} buckets: change its indexes \
         afterwards. If that was cut short, flagstone rebalance with --buckets {buckets} \
         completes it, and with --buckets {now} gives it up"
    );
    Err(Error::new(ErrorKind::Busy, text))
}

/// Copies the collection into `next`, and switches to it.
fn copy(
    ground: &Ground,
    view: &View,
    next: Generation,
    watch: Watch<'_>,
) -> Result<ControlFlow<()>> {
    // From here on each writer notes what it writes.
    raise_all(ground)?;
    let copy = Copy::new(ground, view, next);
    copy.found()?;
    let mut buckets = copy.buckets();
    loop {
        let mut some: Vec<&mut Bucket> = Vec::with_capacity(SIDE_BY_SIDE);
        for bucket in buckets.iter_mut().filter(|bucket| !bucket.is_done) {
            if some.len() < SIDE_BY_SIDE && !some.iter().any(|one| copy.share(one, bucket)) {
                some.push(bucket);
            }
        }
        if some.is_empty() {
            break;
        }
        let goes = Mutex::new(Goes::On);
        side_by_side(some, |bucket| {
            if copy.page(bucket)? == Goes::NotOn {
                *goes.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Goes::NotOn;
            }
            Ok(())
        })?;
        if goes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) == Goes::NotOn {
            return Ok(ControlFlow::Continue(()));
        }
        if watch(buckets.iter().map(|bucket| bucket.documents).sum()).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    for _ in 0..ROUNDS {
        match copy.catch_up()? {
            None => return Ok(ControlFlow::Continue(())),
            Some(written) if written <= FEW => break,
            Some(_) => {}
        }
    }
    ground.alter(&mut |note| {
        let is_moving = note.state == State::Moving(next);
        if is_moving {
            note.state = State::Switching(next);
        }
        Ok(is_moving)
    })?;
    drop(complete(ground)?);
    Ok(ControlFlow::Continue(()))
}
