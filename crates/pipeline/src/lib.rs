//! What MongoDB's drivers ask for beyond filters: updates by operators, computed projections of
//! `find`, and aggregation pipelines.
//!
//! [`Aggregated`] adds `aggregate` to collections. A pipeline is an array of stages; the stages run
//! as they are written, and each pulls rows from the one before it. Only matches, a sort, a skip
//! and a limit at the beginning go to the planner of the library. [`Expression`] and [`Condition`]
//! are for those who need expressions elsewhere: in filters, updates and projections.
//!
//! Embedders who need none of it do not build this crate. Modules are listed from the ground up.

mod error;

mod memory;

mod same;

mod number;

mod date;

mod expression;

mod stage;

mod aggregate;

mod row_stages;

mod projection;

pub mod update;

pub use aggregate::{Aggregate, Aggregated, Aggregation, IntoPipeline};
pub use error::{PipelineError, Result};
pub use expression::Expression;
pub use projection::FindProjection;
pub use row_stages::RowStages;
pub use same::is_same;
pub use stage::Condition;

/// The example of the guide runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/pipelines.md")]
struct Guide;
