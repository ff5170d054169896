//! What is measured: cells, each a workload with its number of threads, over one engine at a time.

mod list;
mod run;

pub(crate) use list::{Cell, Scale, Work, all, select};
pub(crate) use run::{Setup, Trial, run};
