//! What MongoDB's drivers ask for beyond filters: updates by operators, projections of `find` that
//! are computed, and aggregation pipelines.
//!
//! Embedders who need none of it do not build this crate. Modules are listed from the ground up.

#[allow(dead_code, reason = "the stages of pipelines use the rest")]
mod error;

#[allow(dead_code, unused_imports, reason = "the expressions of pipelines use the rest")]
mod number;

mod same;

mod computed;

mod projection;

pub mod update;

pub use error::{PipelineError, Result};
pub use projection::FindProjection;
