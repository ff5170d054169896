//! A collection gets another layout while others read and write it.

use super::clear::sweep;
use super::copy::{Copy, Goes, Notes};
use super::core::{Ground, View};
use super::epochs::raise_all;
use super::generations::{complete, noted};
use super::parts::Part;
use super::sample::{Divided, ranges};
use crate::catalog::{Buckets, Generation, Note, State, next_number};
use crate::layout::Layout;
use crate::side_by_side::side_by_side;
use crate::store::Freshness;
use flagstone::remote::RemoteIndex;
use flagstone_base::{Error, ErrorKind, Result};
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

/// The parts of which pages are copied side by side.
const SIDE_BY_SIDE: usize = 8;
/// All wait while the last rows are copied: so many may be left ..
const FEW: u64 = 200;
/// .. or so many, if they do not become fewer in further rounds ..
const MANY: u64 = 5_000;
/// .. of which there are at most so many.
const ROUNDS: u32 = 20;

/// Called with the number of documents that are copied; ends the call by `Break`.
pub(super) type Watch<'w> = &'w mut dyn FnMut(u64) -> ControlFlow<()>;

/// Gives the collection another layout. A call that was cut short is continued by the next one with
/// the same layout. One with the layout that the collection has gives it up. Ranges of keys that
/// are not about equal any more are made anew.
///
/// # Errors
/// InvalidInput if the collection was dropped, or has too few keys for so many ranges; Busy while
/// an index is being built, another layout is being made, or documents are written as fast as they
/// are copied; Conflict if another call has given it up; those of the store.
pub(crate) fn rebalance(
    ground: &Ground,
    wanted: Layout,
    watch: Watch<'_>,
) -> Result<ControlFlow<()>> {
    // The generation to which this call has moved, and the one from which.
    let mut joined = None;
    loop {
        let view = ground.reload(Freshness::Serial)?;
        let rows = &view.note.rows;
        let has_it = rows.buckets.layout() == wanted;
        match &view.note.state {
            State::Moving(next) if next.buckets.layout() == wanted => {
                joined = Some((next.number, rows.number));
                if copy(ground, &view, next, watch)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            State::Live if joined.is_some_and(|(_, from)| from == rows.number) => {
                return Err(given_up(ground, wanted));
            }
            State::Live => {
                let is_done = has_it && !rows.buckets.are_ranges()
                    || joined.is_some_and(|(next, _)| next == rows.number);
                let begins =
                    if is_done { Begins::NotNeeded } else { begin(ground, &view, wanted, watch)? };
                match begins {
                    Begins::Perhaps => {}
                    Begins::NotNeeded => {
                        // What cannot be removed now, the next call removes.
                        let _rest = sweep(ground);
                        return Ok(ControlFlow::Continue(()));
                    }
                    Begins::Stopped => return Ok(ControlFlow::Break(())),
                }
            }
            State::Moving(next) if has_it => {
                give_up(ground, next)?;
                // Unless others have completed it meanwhile, nothing more is to be done.
                let now = ground.reload(Freshness::Serial)?;
                if now.note.state == State::Live && now.note.rows.buckets.layout() == wanted {
                    let _rest = sweep(ground);
                    return Ok(ControlFlow::Continue(()));
                }
            }
            State::Moving(next) => {
                return Err(is_moving(ground, next, rows, "divide it again"));
            }
            State::Switching(next) => {
                // If nobody has set a fence yet, there may be much.
                Copy::new(ground, &view, next).again(noted(&view), Notes::Keep)?;
                drop(complete(ground)?);
            }
            _ => drop(complete(ground)?),
        }
    }
}

/// What became of the begin of a move.
enum Begins {
    /// It has begun, or the collection has changed.
    Perhaps,
    /// The collection is divided as it is wanted.
    NotNeeded,
    /// The watcher has ended the call.
    Stopped,
}

/// Begins to move the collection, if it is still what `view` says.
fn begin(ground: &Ground, view: &View, wanted: Layout, watch: Watch<'_>) -> Result<Begins> {
    check_complete(ground, &view.note)?;
    let buckets = match wanted {
        Layout::Hash(count) => Buckets::Hash(count),
        Layout::Ranges(count) => match ranges(ground, view, count, watch)? {
            Divided::Into(buckets) => buckets,
            Divided::AsItIs => return Ok(Begins::NotNeeded),
            Divided::Stopped => return Ok(Begins::Stopped),
        },
    };
    let next = Generation { number: next_number(&*ground.store)?, buckets };
    ground.alter(&mut |note| {
        // Who begins raises the epoch: so this number is not used twice, though an answer was lost
        // and others have given up what was begun.
        let is_same = (note.epoch, note.rows.number) == (view.note.epoch, view.note.rows.number);
        let begins = is_same && note.state == State::Live;
        if begins {
            check_complete(ground, note)?;
            note.state = State::Moving(next.clone());
            note.epoch += 1;
            (note.copy_epoch, note.noted_since) = (note.epoch, note.epoch);
        }
        Ok(begins)
    })?;
    Ok(Begins::Perhaps)
}

/// Ends a move without a new generation.
fn give_up(ground: &Ground, next: &Generation) -> Result<()> {
    let mut noted = 0..0;
    let view = ground.alter(&mut |note| {
        let is_moving = note.is_moving_to(next.number);
        if is_moving {
            noted = note.noted_since..note.epoch + 1;
            note.replaced.push(next.replaced());
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
fn given_up(ground: &Ground, wanted: Layout) -> Error {
    let text = format!(
        "another call has given up to divide collection {:?} into {wanted}: nothing has changed",
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
        Some(next) => Err(is_moving(ground, next, &note.rows, "change its indexes")),
        None => Ok(()),
    }
}

#[cold]
fn is_moving(ground: &Ground, next: &Generation, rows: &Generation, what: &str) -> Error {
    let [next, now] = [next, rows].map(|of| of.buckets.layout());
    let (name, completes, gives_up) = (&ground.name, next.options(), now.options());
    let gives_up =
        if next == now { String::new() } else { format!(", and with {gives_up} gives it up") };
    let text = format!(
        "collection {name:?} is being divided into {next}: {what} afterwards. If that was cut \
         short, flagstone rebalance with {completes} completes it{gives_up}"
    );
    Error::new(ErrorKind::Busy, text)
}

/// Copies the collection into `next`, and switches to it.
fn copy(
    ground: &Ground,
    view: &View,
    next: &Generation,
    watch: Watch<'_>,
) -> Result<ControlFlow<()>> {
    // From here on each writer notes what it writes.
    raise_all(ground)?;
    let copy = Copy::new(ground, view, next);
    copy.found()?;
    let mut parts = copy.parts();
    loop {
        let mut some: Vec<&mut Part> = Vec::with_capacity(SIDE_BY_SIDE);
        for part in parts.iter_mut().filter(|part| !part.is_done) {
            if some.len() < SIDE_BY_SIDE && !some.iter().any(|one| copy.share(one, part)) {
                some.push(part);
            }
        }
        if some.is_empty() {
            break;
        }
        let goes = Mutex::new(Goes::On);
        side_by_side(some, |part| {
            if copy.page(part)? == Goes::NotOn {
                *goes.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Goes::NotOn;
            }
            Ok(())
        })?;
        if goes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) == Goes::NotOn {
            return Ok(ControlFlow::Continue(()));
        }
        if watch(parts.iter().map(|part| part.documents).sum()).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    let mut last = u64::MAX;
    for round in 1.. {
        let Some(noted) = end_notes(ground, next)? else { return Ok(ControlFlow::Continue(())) };
        let Some(written) = copy.again(noted.clone(), Notes::Remove)? else {
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
        let is_moving = note.is_moving_to(next.number);
        if is_moving {
            note.state = State::Switching(next.clone());
        }
        Ok(is_moving)
    })?;
    drop(complete(ground)?);
    Ok(ControlFlow::Continue(()))
}

/// Lets writers note what they write under a new epoch. Returns the epochs before it, under which
/// nothing is written any more; `None` if the collection is not moved any more.
fn end_notes(ground: &Ground, next: &Generation) -> Result<Option<Range<i32>>> {
    let view = ground.alter(&mut |note| {
        let is_moving = note.is_moving_to(next.number);
        note.epoch += i32::from(is_moving);
        Ok(is_moving)
    })?;
    raise_all(ground)?;
    let note = &view.note;
    Ok(note.is_moving_to(next.number).then_some(note.noted_since..note.epoch))
}

/// Notes that nothing is left of what was noted under the epochs before this one.
fn forgotten(ground: &Ground, next: &Generation, before: i32) -> Result<()> {
    ground.alter(&mut |note| {
        let is_new = note.is_moving_to(next.number) && note.noted_since < before;
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
