//! Documents: loading them, getting them by sampled keys, changing them; flagstone alone.

mod load;

mod checkpoint;

mod work;

pub(super) use checkpoint::DocumentTrials;
pub(super) use load::{describe_load, run_load};
pub(super) use work::{describe_get, describe_update, run_gets, run_updates};
