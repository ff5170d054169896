//! A collection gets another number of buckets while others read and write it.

use super::clear::sweep;
use super::copy::{Bucket, Copy, Goes};
use super::core::{Ground, View};
use super::epochs::raise_all;
use super::generations::{complete, noted};
use crate::catalog::{Generation, Note, State, next_number};
use crate::side_by_side::side_by_side;
use crate::store::Freshness;
use flagstone::remote::RemoteIndex;
use flagstone_base::{Error, ErrorKind, Result};
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

/// The buckets of which pages are copied side by side.
const SIDE_BY_SIDE: usize = 8;
/// All wait while the last rows are copied: so many may be left ..
const FEW: u64 = 200;
/// .. or so many, if they do not become fewer in further rounds ..
const MANY: u64 = 5_000;
/// .. of which there are at most so many.
const ROUNDS: u32 = 20;

/// Called with the number of documents that are copied; ends the call by `Break`.
type Watch<'w> = &'w mut dyn FnMut(u64) -> ControlFlow<()>;

/// Divides the collection into so many buckets. A call that was cut short is continued by the next
/// one with the same number. One with the number that the collection has gives it up.
///
/// # Errors
/// InvalidInput if the collection was dropped; Busy while an index is being built, another number
/// of buckets is being made, or documents are written as fast as they are copied; Conflict if
/// another call has given it up; those of the store.
pub(crate) fn rebalance(
    ground: &Ground,
    buckets: u32,
    watch: Watch<'_>,
) -> Result<ControlFlow<()>> {
    // The move of which this call was a part, and the generation from which it moves.
    let mut joined = None;
    loop {
        let view = ground.reload(Freshness::Serial)?;
        let rows = view.note.rows;
        match view.note.state {
            State::Moving(next) if next.buckets == buckets => {
                joined = Some((next, rows.number));
                if copy(ground, &view, next, watch)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            State::Live if rows.buckets == buckets => {
                // What cannot be removed now, the next call removes.
                let _rest = sweep(ground);
                return Ok(ControlFlow::Continue(()));
            }
            State::Live if joined.is_some_and(|(_, from)| from == rows.number) => {
                return Err(given_up(ground, buckets));
            }
            State::Live => begin(ground, buckets)?,
            State::Moving(next) if rows.buckets == buckets => give_up(ground, next)?,
            State::Moving(next) => return Err(is_moving(ground, next, rows, "divide it again")),
            State::Switching(next) => {
                // If nobody has set a fence yet, there may be much.
                Copy::new(ground, &view, next).again(noted(&view), false)?;
                drop(complete(ground)?);
            }
            _ => drop(complete(ground)?),
        }
    }
}

/// Begins to move the collection.
fn begin(ground: &Ground, buckets: u32) -> Result<()> {
    let next = Generation { number: next_number(&*ground.store)?, buckets };
    let mut epoch = None;
    ground.alter(&mut |note| {
        // Who begins raises the epoch: so this number is not used twice, though an answer was lost
        // and others have given up what was begun.
        let is_same = *epoch.get_or_insert(note.epoch) == note.epoch;
        let begins = is_same && note.state == State::Live;
        if begins {
            check_complete(ground, note)?;
            note.state = State::Moving(next);
            note.epoch += 1;
            (note.copy_epoch, note.noted_since) = (note.epoch, note.epoch);
        }
        Ok(begins)
    })?;
    Ok(())
}

/// Ends a move without a new generation.
fn give_up(ground: &Ground, next: Generation) -> Result<()> {
    let mut noted = 0..0;
    let view = ground.alter(&mut |note| {
        let is_moving = note.state == State::Moving(next);
        if is_moving {
            noted = note.noted_since..note.epoch + 1;
            note.replaced.push(next);
            note.state = State::Live;
            note.epoch += 1;
        }
        Ok(is_moving)
    })?;
    raise_all(ground)?;
    Copy::new(ground, &view, next).forget(noted)
}

/// The error of a call whose move another one has given up.
#[cold]
fn given_up(ground: &Ground, buckets: u32) -> Error {
    let text = format!(
        "another call has given up to divide collection {:?} into {buckets} buckets: nothing has \
         changed",
        ground.name
    );
    Error::new(ErrorKind::Conflict, text)
}

/// Refuses to move while an index is incomplete: the copies would lack entries.
fn check_complete(ground: &Ground, note: &Note) -> Result<()> {
    for index in &note.indexes {
        let known = RemoteIndex::new(index.id, &index.name, &index.note)?;
        if !known.is_complete() {
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
    match note.next() {
        Some(next) => Err(is_moving(ground, next, note.rows, "change its indexes")),
        None => Ok(()),
    }
}

#[cold]
fn is_moving(ground: &Ground, next: Generation, rows: Generation, what: &str) -> Error {
    let (buckets, name, now) = (next.buckets, &ground.name, rows.buckets);
    let text = format!(
        "collection {name:?} is being divided into {buckets} buckets: {what} afterwards. If that \
         was cut short, flagstone rebalance with --buckets {buckets} completes it, and with \
         --buckets {now} gives it up"
    );
    Error::new(ErrorKind::Busy, text)
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
    let mut last = u64::MAX;
    for round in 1.. {
        let Some(noted) = end_notes(ground, next)? else { return Ok(ControlFlow::Continue(())) };
        let Some(written) = copy.again(noted.clone(), true)? else {
            return Ok(ControlFlow::Continue(()));
        };
        forgotten(ground, next, noted.end)?;
        if written <= FEW || (written <= MANY && written > last / 4 * 3) {
            break;
        }
        if round == ROUNDS {
            return Err(too_fast(ground, written));
        }
        last = written;
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

/// Lets writers note what they write under a new epoch. Returns the epochs before it, under which
/// nothing is written any more; `None` if the collection is not moved any more.
fn end_notes(ground: &Ground, next: Generation) -> Result<Option<Range<i32>>> {
    let view = ground.alter(&mut |note| {
        let is_moving = note.state == State::Moving(next);
        note.epoch += i32::from(is_moving);
        Ok(is_moving)
    })?;
    raise_all(ground)?;
    let note = &view.note;
    Ok((note.state == State::Moving(next)).then_some(note.noted_since..note.epoch))
}

/// Notes that nothing is left of what was noted under the epochs before this one.
fn forgotten(ground: &Ground, next: Generation, before: i32) -> Result<()> {
    ground.alter(&mut |note| {
        let is_new = note.state == State::Moving(next) && note.noted_since < before;
        if is_new {
            note.noted_since = before;
        }
        Ok(is_new)
    })?;
    Ok(())
}

#[cold]
fn too_fast(ground: &Ground, written: u64) -> Error {
    let text = format!(
        "documents of collection {:?} are written as fast as they are copied: {written} while the \
         last ones were. Rebalance again when fewer are written: it goes on",
        ground.name
    );
    Error::new(ErrorKind::Busy, text)
}
