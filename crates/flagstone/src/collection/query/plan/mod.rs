//! Chooses how the documents of a query are found.

mod scan;

pub(super) use scan::{Need, explained, rows};
