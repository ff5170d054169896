//! Turns result files into tables: medians over rounds, and flagstone compared with the best peer.

mod medians;
mod table;

pub(crate) use table::print;
