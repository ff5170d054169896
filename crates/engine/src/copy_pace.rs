//! The rate of backups, and of the copies that a checkpoint makes where no links are possible.

use crate::health::Health;
use crate::rate::{Rate, rest};
use flagstone_base::Result;

/// Limits a copy to [`Options::copy_bytes_per_second`](crate::Options::copy_bytes_per_second), in
/// the caller's thread, and ends it when the database is closed.
pub(crate) fn copy_pace(health: &Health) -> impl FnMut(u64) -> Result<()> {
    let setup = &health.setup;
    let rate = Rate(setup.options.copy_bytes_per_second);
    let mut since = setup.now();
    move |bytes| {
        let took = setup.now().saturating_sub(since);
        rest(rate.rest(bytes, took), || health.check_open())?;
        since = setup.now();
        Ok(())
    }
}
