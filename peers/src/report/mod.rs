//! Result files to tables: medians over the rounds, and what flagstone is to the best peer.

mod medians;
mod table;

pub(crate) use table::print;
