//! What is left of a query that a shell has printed the beginning of.

use std::sync::{Mutex, PoisonError};

/// Where a query goes on.
#[derive(Clone, Debug)]
pub(super) enum Rest {
    /// After the position of this token.
    After(String),
    /// After this many documents or groups.
    Skip(u64),
}

/// A query runs in a thread of its own, and leaves its rest here.
static REST: Mutex<Option<Rest>> = Mutex::new(None);

/// Keeps the rest of a query.
pub(super) fn keep(rest: Option<Rest>) {
    *REST.lock().unwrap_or_else(PoisonError::into_inner) = rest;
}

/// Takes the rest of the query that ran last, if there is any.
pub(super) fn take() -> Option<Rest> {
    REST.lock().unwrap_or_else(PoisonError::into_inner).take()
}
