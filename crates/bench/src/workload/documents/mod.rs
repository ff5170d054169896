//! Documents: loading them, getting them by sampled keys, changing them; flagstone alone.

mod load;

mod checkpoint;

mod work;

pub(super) use load::{describe_load, run_load};
pub(super) use work::{begin_gets, begin_updates, describe_get, describe_update};
