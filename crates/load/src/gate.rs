//! Admits chunks in the order of the input, and bounds their bytes, however long a document is.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A limit on the bytes between readers and writers. A chunk larger than the limit is admitted
/// alone. Readers work on tasks side by side; their chunks are admitted in the order of the tasks.
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
    bytes_max: u64,
}

struct GateState {
    bytes: u64,
    /// The number of the task whose chunks are admitted now.
    task: u64,
    /// The number of the next chunk.
    next: u64,
    is_closed: bool,
}

/// Holds the bytes of a chunk that was admitted, until it is dropped.
pub(crate) struct Permit {
    gate: Arc<Gate>,
    bytes: u64,
    /// The number of the chunk: 0, 1 and so on in the order of the input, without gaps.
    pub(crate) number: u64,
}

impl Gate {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        let state = GateState { bytes: 0, task: 0, next: 0, is_closed: false };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), bytes_max })
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, GateState>) -> MutexGuard<'a, GateState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the chunks of all tasks before `task` were admitted. Returns false if the gate
    /// is closed. Until the task ends, no other enters.
    pub(crate) fn wait_for(&self, task: u64) -> bool {
        let mut state = self.lock();
        while !state.is_closed && state.task != task {
            state = self.wait(state);
        }
        !state.is_closed
    }

    /// Waits until the chunks of all tasks before `task` were admitted, and `bytes` more fit.
    /// Returns `None` if the gate is closed: the load stops.
    pub(crate) fn enter(self: &Arc<Self>, task: u64, bytes: u64) -> Option<Permit> {
        let mut state = self.lock();
        while !state.is_closed
            && (state.task != task || state.bytes > 0 && state.bytes + bytes > self.bytes_max)
        {
            state = self.wait(state);
        }
        if state.is_closed {
            return None;
        }
        state.bytes += bytes;
        let number = state.next;
        state.next += 1;
        Some(Permit { gate: Arc::clone(self), bytes, number })
    }

    /// Ends `task`, whose chunks were all admitted: those of the next task follow. Waits until the
    /// tasks before it have ended.
    pub(crate) fn finish(&self, task: u64) {
        let mut state = self.lock();
        while !state.is_closed && state.task != task {
            state = self.wait(state);
        }
        state.task += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Admits nothing more: a task has ended early, and what follows must not be loaded.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.lock().bytes -= self.bytes;
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::time::Duration;

    const SHORTLY: Duration = Duration::from_millis(20);

    /// Calls `enter` on a thread of its own; the receiver gets the number of the chunk.
    fn enter(gate: &Arc<Gate>, task: u64, bytes: u64) -> mpsc::Receiver<Option<u64>> {
        let (entered, told) = mpsc::channel();
        let gate = Arc::clone(gate);
        std::thread::spawn(move || {
            let permit = gate.enter(task, bytes);
            entered.send(permit.as_ref().map(|permit| permit.number)).unwrap();
        });
        told
    }

    #[test]
    fn bytes_wait_until_others_have_left() {
        let gate = Gate::new(10);
        let first = gate.enter(0, 8).unwrap();
        let second = gate.enter(0, 2).unwrap();
        let third = enter(&gate, 0, 100);
        drop(first);
        assert_eq!(third.recv_timeout(SHORTLY), Err(RecvTimeoutError::Timeout));
        drop(second);
        assert_eq!(third.recv(), Ok(Some(2)));
    }

    #[test]
    fn chunks_enter_in_the_order_of_their_tasks() {
        let gate = Gate::new(100);
        let later = enter(&gate, 2, 1);
        let empty = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || gate.finish(1))
        };
        assert_eq!(gate.enter(0, 1).unwrap().number, 0);
        assert_eq!(gate.enter(0, 1).unwrap().number, 1);
        assert_eq!(later.recv_timeout(SHORTLY), Err(RecvTimeoutError::Timeout));
        gate.finish(0);
        assert_eq!(later.recv(), Ok(Some(2)));
        empty.join().unwrap();
    }

    #[test]
    fn a_closed_gate_admits_nothing_and_nobody_waits_at_it() {
        let gate = Gate::new(100);
        let waiting = enter(&gate, 5, 1);
        gate.close();
        assert_eq!(waiting.recv(), Ok(None));
        assert!(gate.enter(0, 1).is_none());
        gate.finish(7);
    }
}
