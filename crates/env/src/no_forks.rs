//! On systems without forks everything stays in the process in which it was made.

use flagstone_base::Result;
use std::sync::OnceLock;

/// Allows every open.
#[expect(clippy::unnecessary_wraps, reason = "as where there are forks")]
pub(crate) fn check_may_open() -> Result<()> {
    Ok(())
}

/// Threads that nobody lacks.
pub(crate) struct HasThreads(());

impl HasThreads {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

/// A static value.
pub(crate) struct OfProcess<T: 'static>(OnceLock<T>);

impl<T: Default + Send + Sync> OfProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    pub(crate) fn get(&'static self) -> &'static T {
        self.0.get_or_init(T::default)
    }
}

/// The process in which something was made.
#[derive(Clone, Copy)]
pub(crate) struct Origin;

impl Origin {
    /// This process.
    pub(crate) fn here() -> Self {
        Self
    }

    /// Returns true.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        true
    }
}
