//! The cells: workloads with their numbers of threads, each run over one engine at a time.

mod list;
mod run;

pub(crate) use list::{Cell, Scale, Work, all, select};
pub(crate) use run::{Setup, Trial, run};
