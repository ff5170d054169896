//! The promise that the acknowledgement of a commit makes.

use flagstone_base::{Error, Result};
use std::time::Duration;

/// When a commit returns, and so what its acknowledgement promises.
///
/// A commit is acknowledged only when everything before it in the log is as durable as itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// Not logged. Kept only once a later `Database::flush` or `Database::close` has returned; an
    /// earlier crash keeps a whole cut of history.
    None,
    /// Handed to the operating system: survives the death of the process (kill -9), but not that of
    /// the machine. The default: about a microsecond a commit.
    #[default]
    Buffered,
    /// As `Buffered`, and synced in the background, each time this long after the last sync has
    /// ended. A power cut loses what came after the start of the last finished sync: writes of
    /// about this time plus that of a sync, more while a flush keeps the disk busy.
    Interval(Duration),
    /// Synced before it returns. Commits that wait at the same time share one sync.
    Group,
    /// Synced before it returns, by a sync of its own. For devices where only latency counts.
    Each,
}

impl Durability {
    /// Returns whether the commit is written to the write-ahead log.
    pub(crate) const fn is_logged(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// Refuses an interval that is too short to keep.
pub(crate) fn check_interval(interval: Duration) -> Result<()> {
    if interval < Duration::from_millis(1) {
        return Err(Error::invalid(format!("a sync every {interval:?}: expected at least 1 ms")));
    }
    Ok(())
}
