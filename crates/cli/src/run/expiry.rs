//! `--expires`: the expiry of what a command puts.

use crate::failure::Failure;
use crate::units::{Expiry, show_moment};
use flagstone::env::{Clock, SystemClock};
use flagstone::{Database, EntryOptions, Moment};

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

/// Returns the options of a put. A duration begins now.
pub(super) fn options(database: &Database, expires: Option<Expiry>) -> EntryOptions {
    match expires {
        None => EntryOptions::new(),
        Some(Expiry::After(duration)) => {
            EntryOptions::new().expires(database.now().after(duration))
        }
        Some(Expiry::At(moment)) => EntryOptions::new().expires(moment),
    }
}
