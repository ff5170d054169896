//! What a caller wants written in one bucket, and how a leader talks to it.

use crate::store::{Kind, RowKey};
use flagstone::remote::{Decide, Row, Write};
use flagstone_base::{Error, ErrorKind, Result, Slice};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// A write of one document, or of a mark of a load.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) row: RowKey,
    pub(crate) op: Op,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put(Row),
    /// Sets a document that must not be there, and tells what became of that.
    Insert(Row, InsertResult),
    Delete,
    /// What the closure of the caller decides. It is the only item of its call.
    Decide,
}

/// Where a caller finds whether its document was added.
pub(crate) type InsertResult = Arc<OnceLock<Result<bool>>>;

/// The writes of one caller in one bucket.
pub(super) struct Call {
    pub(super) items: Vec<Item>,
    slot: Mutex<Slot>,
    changed: Condvar,
}

/// What a leader and a caller tell each other.
enum Slot {
    /// The caller waits.
    Empty,
    /// To the caller: lead.
    Lead,
    /// To the caller: decide.
    Turn(Option<Row>),
    /// To the leader.
    Decided(Result<Write>),
    /// To the caller.
    Done(Done),
}

/// What became of a call.
pub(super) struct Done {
    /// Whether something was written.
    pub(super) result: Result<bool>,
    /// How many of its writes, the last ones, were not tried, because they are of other buckets
    /// now.
    pub(super) left: usize,
}

impl From<Result<bool>> for Done {
    fn from(result: Result<bool>) -> Self {
        Self { result, left: 0 }
    }
}

/// Why a caller was woken.
pub(super) enum Woken {
    Lead,
    Done(Done),
}

impl Item {
    pub(crate) fn of_document(key: Slice, op: Op) -> Self {
        Self { row: RowKey { kind: Kind::DOCUMENTS, key }, op }
    }

    pub(crate) fn of_mark(key: Slice, op: Op) -> Self {
        Self { row: RowKey { kind: Kind::LOADS, key }, op }
    }
}

thread_local! {
    /// Whether this thread runs a closure that decides a write.
    static DECIDES: Cell<bool> = const { Cell::new(false) };
}

/// Refuses a write inside the closure of another write: the one could wait for the other.
pub(super) fn check_outside() -> Result<()> {
    if DECIDES.get() {
        return Err(Error::invalid(
            "the closure of an update writes to the cluster: write before or after the update",
        ));
    }
    Ok(())
}

/// A caller's closure. A panic inside is kept until the call has ended.
pub(super) struct Decider<'d> {
    decide: Option<Decide<'d>>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'d> Decider<'d> {
    pub(super) const fn new(decide: Option<Decide<'d>>) -> Self {
        Self { decide, panic: None }
    }

    pub(super) fn decide(&mut self, row: Option<&Row>) -> Result<Write> {
        let (Some(decide), None) = (&mut self.decide, &self.panic) else {
            return Err(Error::invalid("a write has no closure that decides"));
        };
        DECIDES.set(true);
        let decided = catch_unwind(AssertUnwindSafe(|| decide(row)));
        DECIDES.set(false);
        decided.unwrap_or_else(|panic| {
            self.panic = Some(panic);
            Err(Error::invalid("the closure of an update has panicked"))
        })
    }

    /// Goes on with a panic of the closure.
    pub(super) fn end(self) {
        if let Some(panic) = self.panic {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Call {
    pub(super) fn new(items: Vec<Item>) -> Self {
        Self { items, slot: Mutex::new(Slot::Empty), changed: Condvar::new() }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, told: Slot) {
        *self.slot() = told;
        self.changed.notify_all();
    }

    /// Takes what the other side tells, when `is_mine` says that it is no word of this side.
    fn hear(&self, is_mine: impl Fn(&Slot) -> bool) -> Slot {
        let mut slot = self.slot();
        while !is_mine(&slot) {
            slot = self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::replace(&mut slot, Slot::Empty)
    }

    /// Waits as the caller, and decides when it is asked to.
    pub(super) fn wait(&self, decider: &mut Decider<'_>) -> Woken {
        loop {
            match self.hear(|slot| matches!(slot, Slot::Lead | Slot::Turn(_) | Slot::Done(_))) {
                Slot::Turn(row) => self.tell(Slot::Decided(decider.decide(row.as_ref()))),
                Slot::Lead => return Woken::Lead,
                Slot::Done(done) => return Woken::Done(done),
                Slot::Empty | Slot::Decided(_) => {}
            }
        }
    }

    /// Makes the caller the leader.
    pub(super) fn lead(&self) {
        self.tell(Slot::Lead);
    }

    /// Lets the caller decide, on its own thread.
    pub(super) fn ask(&self, row: Option<Row>) -> Result<Write> {
        self.tell(Slot::Turn(row));
        match self.hear(|slot| matches!(slot, Slot::Decided(_))) {
            Slot::Decided(decided) => decided,
            _ => Err(Error::new(ErrorKind::Conflict, "a caller has told nothing: try again")),
        }
    }

    /// Ends the call.
    pub(super) fn end(&self, done: impl Into<Done>) {
        self.tell(Slot::Done(done.into()));
    }
}
