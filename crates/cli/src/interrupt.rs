//! Ctrl-C and the signal to terminate: the first asks for a clean stop, the second stops at once.

use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_ASKED: AtomicBool = AtomicBool::new(false);
static LISTENS: AtomicBool = AtomicBool::new(false);

/// Makes the first Ctrl-C a request to stop.
pub(crate) fn listen() -> Result<(), Failure> {
    if LISTENS.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let handler = || {
        if IS_ASKED.swap(true, Ordering::AcqRel) {
            std::process::exit(130);
        }
        crate::output::note("stopping; press Ctrl-C again to stop without closing");
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Io(format!("cannot listen for Ctrl-C: {error}")))
}

/// Forgets a request: a shell runs the next command.
pub(crate) fn reset() {
    IS_ASKED.store(false, Ordering::Release);
}

/// Returns an error if a stop was requested: for loops that only read.
pub(crate) fn check() -> Result<(), Failure> {
    if is_asked() { Err(Failure::Interrupted("stopped before the end".to_owned())) } else { Ok(()) }
}

/// Returns whether a stop was requested.
pub(crate) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Acquire)
}
