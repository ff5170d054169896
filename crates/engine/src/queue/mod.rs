//! The queue of background work: what is sealed, compacted, failing and wasteful. It is read and
//! changed under one lock, and starts no work.

mod back_off;
mod cut;
mod garbage;

mod groups;
mod work;

pub(crate) use back_off::BackOff;
pub(crate) use cut::{Cut, CutRequest};
pub(crate) use garbage::{RunningJobs, SpaceBudget};
pub(crate) use groups::{Flushes, SealGroup};
pub(crate) use work::{Queue, Work};
