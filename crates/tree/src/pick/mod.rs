//! What to compact next: pure functions of a version.

mod job;
mod shape;

mod window;

mod choose;
mod hidden;

pub use choose::{pick, pick_full};
pub use hidden::pick_hidden;
pub use job::{Job, JobReason};
pub use shape::{Policy, Pressure, pressure};
