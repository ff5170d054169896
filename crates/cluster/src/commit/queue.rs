//! The queue of the calls of a bucket, and who leads it.

use super::call::{Call, Decider, Done, Woken};
use flagstone_base::{Error, ErrorKind};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The calls that a leader takes at once have at most so many writes, or it takes one call.
pub(super) const GROUP_MAX: usize = 200;

#[derive(Default)]
pub(super) struct Queue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    calls: VecDeque<Arc<Call>>,
    /// Whether a thread leads, or was told to.
    is_led: bool,
}

/// The calls of one group, until they have their results. The next leader is chosen when this is
/// dropped, and calls without a result get an error.
pub(super) struct Lead<'q> {
    queue: &'q Queue,
    calls: Vec<(Arc<Call>, bool)>,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `call` is done, here by `run`, which gets the group of the leader and the place
    /// of `call` in it, or by another thread.
    pub(super) fn pass(
        &self,
        call: &Arc<Call>,
        decider: &mut Decider<'_>,
        run: impl FnOnce(&mut Lead<'_>, usize, &mut Decider<'_>),
    ) -> Done {
        let mut waiting = self.waiting();
        waiting.calls.push_back(Arc::clone(call));
        let leads = !std::mem::replace(&mut waiting.is_led, true);
        drop(waiting);
        if !leads && let Woken::Done(done) = call.wait(decider) {
            return done;
        }
        let mut lead = self.take();
        match lead.calls.iter().position(|(one, _)| Arc::ptr_eq(one, call)) {
            Some(mine) => run(&mut lead, mine, decider),
            // Not possible: the leader is the first that waits.
            None => call.end(Err(Error::new(ErrorKind::Conflict, "a queue lost a write: retry"))),
        }
        drop(lead);
        match call.wait(decider) {
            Woken::Done(done) => done,
            Woken::Lead => {
                Err(Error::new(ErrorKind::Conflict, "a queue lost its leader: retry")).into()
            }
        }
    }

    /// A queue whose calls were told nothing yet.
    #[cfg(test)]
    pub(super) fn of(calls: Vec<Arc<Call>>) -> Self {
        Self(Mutex::new(Waiting { calls: calls.into(), is_led: true }))
    }

    /// Takes the calls of the next group.
    pub(super) fn take(&self) -> Lead<'_> {
        let mut waiting = self.waiting();
        let (mut calls, mut items) = (Vec::new(), 0);
        while let Some(call) = waiting.calls.front() {
            items += call.items.len();
            if items > GROUP_MAX && !calls.is_empty() {
                break;
            }
            calls.extend(waiting.calls.pop_front().map(|call| (call, false)));
        }
        Lead { queue: self, calls }
    }
}

impl Lead<'_> {
    pub(super) const fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn call(&self, at: usize) -> &Arc<Call> {
        &self.calls[at].0
    }

    /// Ends a call.
    pub(super) fn end(&mut self, at: usize, done: impl Into<Done>) {
        let (call, is_done) = &mut self.calls[at];
        *is_done = true;
        call.end(done);
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        for (call, _) in self.calls.iter().filter(|(_, is_done)| !is_done) {
            let text = "the thread that wrote for this call has panicked: it may have written";
            call.end(Err(Error::new(ErrorKind::Unknown, text)));
        }
        let mut waiting = self.queue.waiting();
        waiting.is_led = !waiting.calls.is_empty();
        if let Some(next) = waiting.calls.front() {
            next.lead();
        }
    }
}
