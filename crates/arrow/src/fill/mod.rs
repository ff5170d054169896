//! Columns that are filled value by value: from stored bytes, and from entries of indexes.

mod json_text;

mod filler;

mod indexed;

pub use filler::OnMismatch;
pub(crate) use filler::{Filler, Unfit, surplus};
