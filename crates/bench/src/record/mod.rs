//! Result files: one trial each, as lines of JSON: a header, a row an interval, events, a summary.
//!
//! A line is a [`Line`]; the first is its header, the last its summary. What was not measured is
//! absent, never zero. Reports read nothing but these files, so any engine that writes them can be
//! drawn.

mod csv;
mod line;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use csv::{events_as_csv, rows_as_csv};
pub use line::{
    Described, EventKind, EventLine, FORMAT, Header, Latency, Line, Machine, OpKind, RowLine,
    Summary,
};
pub use read::{Trial, read_dir, read_file};
pub use write::RecordWriter;
