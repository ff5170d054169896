//! What keeps a database open: every public handle holds one, the last one closes.

use crate::event::Event;
use crate::shared::Shared;
use flagstone_base::{Error, Result};
use std::sync::Arc;

/// Closes the database when the last holder goes.
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared })
    }

    #[inline]
    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Refuses to mix handles of two databases.
    pub(crate) fn check_same(&self, other: &Self) -> Result<()> {
        if Arc::ptr_eq(&self.shared, &other.shared) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a handle of {} was used with {}",
            other.shared.dir.display(),
            self.shared.dir.display()
        )))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to answer to: errors go to the listeners.
        if let Some(closed) = crate::open::close(&self.shared) {
            self.shared.tell(&Event::Closed { error: closed.err() });
        }
    }
}
