//! Stages: what takes rows and gives rows. A row is a map.

mod condition;
mod constant;
mod fields;
mod row;

mod sort;
mod unwind;

mod sample;

mod pick;

mod accumulate;
mod bucket;
mod densify;
mod group;
mod redact;
mod window;

mod source;

mod graph;

mod spec;

mod needs;

mod fill;
mod parse;

mod run;

pub use condition::Condition;
pub(crate) use parse::parse;
pub(crate) use run::{BoxedRows, Run, row_of, run};
pub(crate) use source::{Reads, Sources, with_key};
pub(crate) use spec::Stages;
