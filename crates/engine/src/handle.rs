//! What keeps a database open: every public handle holds one, the last one closes.

use crate::event::Event;
use crate::inside::Inside;
use crate::shared::Shared;
use flagstone_base::{Error, Result};
use flagstone_env::executor::run_apart;
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
        let inside = [Inside::Listener, Inside::Background];
        if self.shared.is_inside(&inside).is_none() {
            return close(&self.shared);
        }
        // The close would wait for what this thread holds or runs. Without a thread for it the database
        // stays open until the process ends, and the next open recovers it.
        let shared = Arc::clone(&self.shared);
        let _no_thread = run_apart("flagstone-close", move || close(&shared));
    }
}

/// Nobody is left to return an error to: it goes to the listeners.
fn close(shared: &Arc<Shared>) {
    if let Some(closed) = crate::open::close(shared) {
        shared.tell(&Event::Closed { error: closed.err() });
    }
}
