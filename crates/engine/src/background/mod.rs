//! Background work: what to seal, flush and compact next, and installing the results.
//!
//! ```text
//! memtables half full -> seal the largest -> group -> flush job -> edit -> manifest -> install
//!                                                                      -> log released
//! install -> pick per tree -> compaction job -> edit -> manifest -> install -> sweep
//! ```
//! Modules are listed from the ground up. A job does not start the next one: `run` does, after the
//! job has ended.

mod deletes;
mod expiry_timer;
mod idle;
mod pace;
mod splits;

mod upkeep;

mod claims;
mod scrub;
mod seal;
mod sweep;

mod failures;
mod watch;

mod expired;

mod split_size;

mod garbage;
mod install;

mod compact;
mod flush;
mod pick;

mod cuts;
mod relayout;

mod merge;
mod split;

mod run;

mod full;
mod wait;

mod ingest;

pub(crate) use claims::TreeClaims;
pub(crate) use failures::resume_later;
pub use full::CompactProgress;
pub(crate) use full::compact_trees;
pub(crate) use ingest::{after_ingest, flush_most, flush_until_empty, wait_for_other_flushes};
pub(crate) use install::make_current;
pub(crate) use merge::note_divided;
pub(crate) use run::{
    act, act_after_commit, note_deletes, schedule, schedule_after_open, schedule_splits,
};
pub(crate) use scrub::Scrubber;
#[cfg(test)]
pub(crate) use seal::seal_all;
pub(crate) use split_size::note_size;
pub(crate) use sweep::sweep;
pub(crate) use upkeep::Upkeep;
pub(crate) use wait::{cut, flush_all, flush_replayed, flush_trees, make_history_durable};
pub(crate) use watch::watch;
