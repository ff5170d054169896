//! Panics that tests ask for, in builds for tests alone.

use pyo3::prelude::*;

#[cfg(debug_assertions)]
static AT: std::sync::Mutex<Option<String>> = std::sync::Mutex::new(None);

/// Panics if a test has asked for it.
#[inline]
#[cfg_attr(debug_assertions, expect(clippy::panic, reason = "the purpose of the function"))]
pub(crate) fn at(place: &str) {
    #[cfg(debug_assertions)]
    {
        let is_here = AT.lock().is_ok_and(|mut at| at.take_if(|at| at == place).is_some());
        if is_here {
            panic!("a panic for a test");
        }
    }
    #[cfg(not(debug_assertions))]
    let _ = place;
}

/// Has the next call of this callback panic, for the tests of what follows. Returns whether this is
/// a build in which it does.
#[pyfunction]
pub(crate) fn _panic_at(place: String) -> bool {
    #[cfg(debug_assertions)]
    if let Ok(mut at) = AT.lock() {
        *at = Some(place);
        return true;
    }
    #[cfg(not(debug_assertions))]
    drop(place);
    false
}
