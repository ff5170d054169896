//! Bounds the bytes between readers and writers, however long a single document is.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A limit on bytes in flight. A piece larger than the limit is admitted alone.
pub(crate) struct Gate {
    inside: Mutex<u64>,
    bell: Condvar,
    bytes_max: u64,
}

/// Holds bytes that were admitted, until it is dropped.
pub(crate) struct Permit {
    gate: Arc<Gate>,
    bytes: u64,
}

impl Gate {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { inside: Mutex::new(0), bell: Condvar::new(), bytes_max })
    }

    /// Waits until `bytes` more can be admitted.
    pub(crate) fn enter(self: &Arc<Self>, bytes: u64) -> Permit {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        while *inside > 0 && *inside + bytes > self.bytes_max {
            inside = self.bell.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        *inside += bytes;
        Permit { gate: Arc::clone(self), bytes }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.gate.inside.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.gate.bell.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn bytes_wait_until_others_have_left() {
        let gate = Gate::new(10);
        let first = gate.enter(8);
        let second = gate.enter(2);
        let (entered, told) = mpsc::channel();
        let waiting = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || {
                let _permit = gate.enter(100);
                entered.send(()).unwrap();
            })
        };
        drop(first);
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err());
        drop(second);
        told.recv().unwrap();
        waiting.join().unwrap();
    }
}
