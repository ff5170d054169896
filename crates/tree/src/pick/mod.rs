//! What to compact next: pure functions of a version.

mod job;
mod shape;

mod window;

mod choose;
mod hidden;

mod around;

pub use around::{pick, pick_hidden};
pub use choose::pick_full;
pub use job::{Job, JobReason};
pub use shape::{Policy, Pressure, pressure};
