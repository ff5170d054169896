//! Reading ahead: an iterator of Python takes entries one by one, and visits the engine for many.

use flagstone::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Where entries come from.
pub(crate) type Source<T> = Box<dyn Iterator<Item = Result<T>> + Send>;

/// One visit reads at most this many entries. The first visits read fewer, for loops that end soon.
const ENTRIES_MAX: usize = 256;
/// The entry that exceeds this many bytes is the last one of its visit.
const BYTES_MAX: usize = 256 << 10;

/// An iterator that several threads may share.
pub(crate) struct Ahead<T>(Mutex<State<T>>);

struct State<T> {
    source: Source<T>,
    /// About how many bytes an entry takes.
    weigh: fn(&T) -> usize,
    /// Entries that were read and not returned yet.
    ready: VecDeque<T>,
    /// The error after them.
    failed: Option<Error>,
    /// How many entries the next visit reads; none after the end.
    next: usize,
}

impl<T> Ahead<T> {
    pub(crate) fn new(source: Source<T>, weigh: fn(&T) -> usize) -> Self {
        let state = State { source, weigh, ready: VecDeque::new(), failed: None, next: 1 };
        Self(Mutex::new(state))
    }

    /// Returns an entry that is ready, which needs no visit of the engine.
    pub(crate) fn ready(&self) -> Option<T> {
        let mut state = self.0.try_lock().ok()?;
        if state.failed.as_ref().is_some_and(is_interrupt) {
            return None;
        }
        state.ready.pop_front()
    }

    /// Returns the next entry, or `None` at the end.
    pub(crate) fn next(&self) -> Result<Option<T>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.ready.is_empty() {
            state.fill();
        }
        if let Some(error) = state.failed.as_ref().filter(|error| is_interrupt(error)) {
            // The caller gets an exception instead of the entries: none may be left out later.
            return Err(error.clone());
        }
        match state.ready.pop_front() {
            Some(entry) => Ok(Some(entry)),
            None => state.failed.take().map_or(Ok(None), Err),
        }
    }
}

fn is_interrupt(error: &Error) -> bool {
    error.kind() == ErrorKind::Interrupted
}

impl<T> State<T> {
    fn fill(&mut self) {
        let mut bytes = 0;
        while self.ready.len() < self.next && bytes < BYTES_MAX {
            match self.source.next() {
                Some(Ok(entry)) => {
                    bytes += (self.weigh)(&entry);
                    self.ready.push_back(entry);
                }
                Some(Err(error)) => {
                    self.failed = Some(error);
                    self.next = 0;
                }
                None => self.next = 0,
            }
        }
        self.next = (2 * self.next).min(ENTRIES_MAX);
    }
}
