//! Ctrl-C and the signal to terminate: the first asks for a clean stop, the second stops at once.

use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Makes the first Ctrl-C a request to stop.
pub(crate) fn listen() -> Result<(), Failure> {
    let handler = || {
        if IS_ASKED.swap(true, Ordering::AcqRel) {
            std::process::exit(130);
        }
        crate::output::note("stopping; press Ctrl-C again to stop without closing");
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Io(format!("cannot listen for Ctrl-C: {error}")))
}

/// Returns whether a stop was requested.
pub(crate) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Acquire)
}
