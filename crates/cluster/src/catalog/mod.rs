//! The catalog: what all processes must agree on. One note for each collection.
//!
//! A note is changed by a conditional call that expects the version that was read. A note stays
//! when its collection is dropped: so a call that was delayed, and expects no note, finds one.

mod buckets;
mod names;
mod note;

pub(crate) use buckets::{BOUND_BYTES_MAX, BOUNDS_BYTES_MAX, Buckets};
pub(crate) use names::{NUMBERS, alter, check_name, next_number, read};
pub(crate) use note::{Generation, Index, Note, Replaced, State};
