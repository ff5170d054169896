//! Keeps a database open: every public handle holds a [`Handle`], and the last one closes.

use crate::event::Event;
use crate::keyspace_core::KeyspaceCore;
use crate::parts::Parts;
use crate::user_code::UserCode;
use flagstone_base::{Error, Result};
use flagstone_env::executor::run_apart;
use std::sync::Arc;

/// Closes the database when it is dropped.
pub(crate) struct Handle {
    parts: Parts,
}

impl Handle {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self { parts })
    }

    #[inline]
    pub(crate) const fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Refuses a keyspace of another database.
    pub(crate) fn check_same(&self, keyspace: &KeyspaceCore) -> Result<()> {
        if keyspace.belongs_to(&self.parts.core.trees) {
            return Ok(());
        }
        let other = keyspace.trees().first().map(|tree| tree.context().dir.display());
        Err(Error::invalid(format!(
            "a handle of {} was used with {}",
            other.map_or_else(String::new, |dir| dir.to_string()),
            self.parts.core.setup().dir.display()
        )))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.parts.core.setup().guard.is_forked() {
            // The files are those of the parent, its threads are not here, and locks may be held
            // for good. So nothing is closed, and no part is dropped.
            return std::mem::forget(self.parts.clone());
        }
        let codes = [UserCode::Listener, UserCode::Background];
        if self.parts.core.health.running_user_code(&codes).is_none() {
            return close(&self.parts);
        }
        // The close would wait for what this thread holds or runs. If no thread can be started the
        // database stays open until the process ends, and the next open recovers it.
        let parts = self.parts.clone();
        let _no_thread = run_apart("flagstone-close", move || close(&parts));
    }
}

/// Closes the database. An error goes to the listeners, since there is no caller to return it to.
fn close(parts: &Parts) {
    if let Some(closed) = crate::open::close(parts) {
        parts.core.health.tell(&Event::Closed { error: closed.err() });
    }
}
