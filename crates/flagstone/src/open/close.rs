//! Closing: what is only in memory goes to tables, then everything is let go in order.

use crate::manifest::Edit;
use crate::shared::Shared;
use flagstone_base::Result;
use std::sync::Arc;

/// Closes the database; `None` when somebody did already.
pub(crate) fn close(shared: &Arc<Shared>) -> Option<Result<()>> {
    let writable = shared.check_open_for_writing().is_ok();
    if !shared.set_closed() {
        return None;
    }
    shared.publisher.wait_for_all();
    let closed = if writable { write_out(shared) } else { Ok(()) };
    shared.executor.shut_down();
    shared.background.stop();
    let marked = mark_clean(shared, writable && closed.is_ok());
    if closed.is_ok() && marked.is_ok() && writable {
        shared.sweep();
    }
    *shared.lock.lock() = None;
    Some(closed.and(marked))
}

fn write_out(shared: &Arc<Shared>) -> Result<()> {
    // The log first: whatever happens to the flush, what was logged is kept.
    if let Some(log) = &shared.log {
        log.sync_all()?;
    }
    shared.flush_all()
}

fn mark_clean(shared: &Shared, clean: bool) -> Result<()> {
    let Some(mut manifest) = shared.manifest.lock().take() else { return Ok(()) };
    if clean {
        shared.append_edit(&mut manifest, Edit { clean_close: true, ..Edit::default() })?;
    }
    Ok(())
}
