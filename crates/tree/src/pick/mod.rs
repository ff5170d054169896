//! Picks the next compaction, by pure functions of a version.

mod job;
mod shape;

mod fences;

mod piece;
mod window;

mod choose;
mod expired;
mod full;
mod hidden;
mod space;
mod trim;

mod around;
mod floor;

pub use around::{pick, pick_expired, pick_hidden};
pub(crate) use expired::expired_tables;
pub use expired::next_expiry;
pub(crate) use fences::{coarse, fences, table_bytes_max};
pub(crate) use floor::crosses;
pub use floor::pick_above;
pub use full::FullPass;
pub use job::{Job, JobReason};
pub use shape::{Policy, Pressure, pressure};
pub(crate) use space::pick_space;
pub use trim::pick_trim;
pub(crate) use window::is_contiguous;
