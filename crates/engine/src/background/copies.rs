//! The rate of backups and of the copies that a checkpoint makes where there are no links.

use crate::rate::{Rate, rest};
use crate::shared::Shared;
use flagstone_base::Result;

impl Shared {
    /// Keeps a copy to [`Options::copy_bytes_per_second`](crate::Options::copy_bytes_per_second), in the caller's
    /// thread, and ends it when the database is closed.
    pub(crate) fn copy_pace(&self) -> impl FnMut(u64) -> Result<()> + '_ {
        let (clock, rate) = (&self.environment.clock, Rate(self.options.copy_bytes_per_second));
        let mut since = clock.monotonic();
        move |bytes| {
            let took = clock.monotonic().saturating_sub(since);
            rest(rate.rest(bytes, took), || self.check_open())?;
            since = clock.monotonic();
            Ok(())
        }
    }
}
