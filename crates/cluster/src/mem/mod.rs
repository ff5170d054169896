//! A store in memory, with faults that a seed decides. For tests.
//!
//! It does what [`crate::store`] promises and nothing more: a page without rows does not tell the
//! epoch, a change without an answer may come late, and one that is unfinished is seen only by
//! serial calls. It refuses a batch that no store must get.

mod faults;
mod state;

use crate::store::{
    Batch, Change, Freshness, Kind, Outcome, Page, PageRequest, Partition, Record, RowKey, Rows,
    RowsRequest, STATEMENTS_MAX, Store, StoredRow,
};
use faults::Dice;
pub use faults::{Fate, Faults};
use flagstone_base::{Error, ErrorKind, Result, interrupt};
use state::{Action, MemState};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A store in memory.
pub struct Mem {
    state: Mutex<MemState>,
    faults: Mutex<Faults>,
    planned: Mutex<VecDeque<Fate>>,
    dice: Dice,
    batches: AtomicU64,
    pages: AtomicU64,
    largest_read: AtomicU64,
    hook: Mutex<Option<Hook>>,
}

/// What is done before a batch, whose number it gets.
type Hook = Box<dyn FnMut(&Mem, u64) + Send>;

impl Mem {
    /// An empty store without faults.
    pub fn new() -> Self {
        Self::with_faults(0, Faults::default())
    }

    /// An empty store with faults.
    pub fn with_faults(seed: u64, faults: Faults) -> Self {
        Self {
            state: Mutex::default(),
            faults: Mutex::new(faults),
            planned: Mutex::default(),
            dice: Dice::new(seed),
            batches: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            largest_read: AtomicU64::new(0),
            hook: Mutex::default(),
        }
    }

    /// Changes which faults happen from now on.
    pub fn set_faults(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Decides what happens with the next changes.
    pub fn plan(&self, fates: &[Fate]) {
        *self.planned() = fates.iter().copied().collect();
    }

    /// Returns how many batches were sent.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Returns how many pages were asked for.
    pub fn pages_read(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Returns how many bytes of values the largest answer had.
    pub fn largest_read(&self) -> u64 {
        self.largest_read.load(Ordering::Relaxed)
    }

    /// Begins to count anew.
    pub fn forget_largest_read(&self) {
        self.largest_read.store(0, Ordering::Relaxed);
    }

    fn note_read<'r>(&self, rows: impl Iterator<Item = &'r StoredRow>) {
        let bytes = rows.map(|row| row.value.len() as u64).sum();
        self.largest_read.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Lets `hook` be called before each batch with the number of batches so far. It may use the
    /// store itself.
    pub fn before_batches(&self, hook: impl FnMut(&Self, u64) + Send + 'static) {
        *self.hook() = Some(Box::new(hook));
    }

    /// Tries all changes that are late.
    pub fn deliver(&self) {
        self.state().deliver(|_late| true);
    }

    /// Returns all rows of a partition, as serial reads see them.
    pub fn all_rows(&self, partition: Partition) -> Vec<(Kind, StoredRow)> {
        self.state().all_rows(partition)
    }

    /// Returns the partitions that have rows.
    pub fn partitions(&self) -> Vec<Partition> {
        self.state().partitions()
    }

    fn state(&self) -> MutexGuard<'_, MemState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> Faults {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hook(&self) -> MutexGuard<'_, Option<Hook>> {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn planned(&self) -> MutexGuard<'_, VecDeque<Fate>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a read, or fails.
    fn read<T>(&self, read: impl FnOnce(&mut MemState) -> T) -> Result<T> {
        interrupt::check()?;
        let faults = self.faults();
        self.dice.pause(&faults);
        if self.dice.fails(&faults) {
            return Err(unavailable());
        }
        let answer = read(&mut self.state());
        self.dice.pause(&faults);
        Ok(answer)
    }

    /// Does `action`, or what a fault makes of it.
    fn act(&self, action: Action) -> Result<Outcome> {
        let faults = self.faults();
        self.dice.pause(&faults);
        let planned = self.planned().pop_front();
        let fate = planned.unwrap_or_else(|| self.dice.fate(&faults));
        let mut state = self.state();
        state.deliver(|_late| self.dice.arrives(&faults));
        let answer = match fate {
            Fate::Answered => state.act(&action),
            Fate::Unavailable => Err(unavailable()),
            Fate::Refused if action.is_conditional() => Ok(Outcome::Refused),
            Fate::Refused => state.act(&action),
            Fate::Lost => Err(unknown("lost")),
            Fate::Unanswered => state.act(&action).and(Err(unknown("unanswered"))),
            Fate::Unfinished if action.is_conditional() => {
                state.begin(action);
                Err(unknown("unfinished"))
            }
            Fate::Late | Fate::Unfinished => {
                state.send_late(action);
                Err(unknown("late"))
            }
        };
        drop(state);
        self.dice.pause(&faults);
        answer
    }
}

impl Default for Mem {
    fn default() -> Self {
        Self::new()
    }
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "the store in memory drew: unavailable")
}

fn unknown(fate: &str) -> Error {
    Error::new(ErrorKind::Unknown, format!("the store in memory drew: {fate}"))
}

/// Refuses a batch that is too long, or has two changes, or two conditions, of one row: what it
/// does would depend on their order.
fn check(batch: &Batch) -> Result<()> {
    let of = |change: &Change| match change {
        Change::Set { kind, row } => RowKey { kind: *kind, key: row.key.clone() },
        Change::Delete(row) => row.clone(),
    };
    let changed: HashSet<RowKey> = batch.changes.iter().map(of).collect();
    let expected: HashSet<&RowKey> = batch.conditions.iter().map(|one| &one.row).collect();
    if changed.len() < batch.changes.len() || expected.len() < batch.conditions.len() {
        return Err(Error::invalid("a batch names a row twice"));
    }
    let held = expected.iter().filter(|row| !changed.contains(**row));
    let statements = changed.len() + held.count();
    if statements > STATEMENTS_MAX {
        return Err(Error::invalid(format!("a batch of {statements} statements")));
    }
    Ok(())
}

impl Store for Mem {
    fn rows(&self, requests: &[RowsRequest]) -> Vec<Result<Rows>> {
        let read = |request| self.read(|state| state.rows(request));
        let answers: Vec<Result<Rows>> = requests.iter().map(read).collect();
        self.note_read(answers.iter().flatten().flat_map(|rows| rows.rows.iter().flatten()));
        answers
    }

    fn pages(&self, requests: &[PageRequest]) -> Vec<Result<Page>> {
        self.pages.fetch_add(requests.len() as u64, Ordering::Relaxed);
        let read = |request| self.read(|state| state.page(request));
        let answers: Vec<Result<Page>> = requests.iter().map(read).collect();
        self.note_read(answers.iter().flatten().flat_map(|page| &page.rows));
        answers
    }

    fn batch(&self, batch: &Batch) -> Result<Outcome> {
        check(batch)?;
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        let hook = self.hook().take();
        if let Some(mut hook) = hook {
            hook(self, number);
            self.hook().get_or_insert(hook);
        }
        self.act(Action::Batch(batch.clone()))
    }

    fn set_epoch(&self, partition: Partition, expected: Option<i32>, new: i32) -> Result<Outcome> {
        self.act(Action::Epoch { partition, expected, new })
    }

    fn remove_rows(&self, partition: Partition) -> Result<()> {
        self.act(Action::RemoveRows(partition)).map(|_applied| ())
    }

    fn remove_kind(&self, partition: Partition, kind: Kind) -> Result<()> {
        self.act(Action::RemoveKind(partition, kind)).map(|_applied| ())
    }

    fn note(&self, name: &str, freshness: Freshness) -> Result<Option<Record>> {
        self.read(|state| state.note(name, freshness))
    }

    fn notes(&self) -> Result<Vec<(String, Record)>> {
        self.read(|state| state.notes())
    }

    fn set_note(&self, name: &str, expected: Option<i64>, new: &Record) -> Result<Outcome> {
        self.act(Action::Note { name: name.to_owned(), expected, new: new.clone() })
    }
}

#[cfg(test)]
mod tests;
