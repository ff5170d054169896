//! `--expires`: the expiry of what a command puts.

use crate::failure::Failure;
use crate::units::{Expiry, show_moment};
use flagstone::internal::env::{Clock, SystemClock};
use flagstone::{Database, Moment};

/// Refuses a moment that has passed.
pub(super) fn check(expires: Option<Expiry>) -> Result<(), Failure> {
    match expires {
        Some(Expiry::At(moment)) if moment <= Moment::since_1970(SystemClock::default().wall()) => {
            let moment = show_moment(moment);
            Err(Failure::Usage(format!("--expires {moment}: this moment has passed")))
        }
        _ => Ok(()),
    }
}

/// Returns the moment at which an entry expires. A duration begins now.
pub(super) fn moment(database: &Database, expires: Option<Expiry>) -> Option<Moment> {
    expires.map(|expires| match expires {
        Expiry::After(duration) => database.now().after(duration),
        Expiry::At(moment) => moment,
    })
}
