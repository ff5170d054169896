//! `$setWindowFields`: fields computed from windows of rows around each row.
//!
//! A sort brings the rows of a partition together and in order. They stay in memory from their
//! arrival until no window needs them: a window that grows adds each row once, and one that slides
//! keeps the rows inside of it.

mod aggregate;
mod bounds;
mod buffer;
mod covariance;
mod function;
mod rows;
mod stage;

pub(super) use rows::Windowed;
pub(super) use stage::Window;
