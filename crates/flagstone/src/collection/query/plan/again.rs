//! Plans that are made again.

use crate::collection::Stored;
use flagstone_base::{ErrorKind, Result};

/// How often a query is planned, at most, if indexes are dropped and created all the time.
pub(in crate::collection::query) const PLANS_MAX: usize = 16;

/// Runs `run` again if it has failed and an index was dropped or created meanwhile: the plan may
/// have been to read that index.
pub(in crate::collection::query) fn planned<R>(
    stored: &Stored,
    mut run: impl FnMut() -> Result<R>,
) -> Result<R> {
    let epoch = || stored.index_epoch();
    for _ in 1..PLANS_MAX {
        let before = epoch();
        match run() {
            Err(error) if error.kind() == ErrorKind::InvalidInput && epoch() != before => {}
            done => return done,
        }
    }
    run()
}
