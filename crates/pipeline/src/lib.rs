//! Aggregation pipelines over flagstone collections, in the language of MongoDB drivers.
//!
//! [`Aggregated`] adds `aggregate` to collections. A pipeline is an array of stages; the stages run
//! as they are written, and each pulls rows from the one before it. Only matches, a sort, a skip
//! and a limit at the beginning go to the planner of the library. [`Expression`] and [`Condition`]
//! are for those who need expressions elsewhere: in filters, updates and projections.
//!
//! Modules are listed from the ground up.

mod error;

mod memory;

mod number;

mod date;

mod expression;

mod stage;

mod aggregate;

pub use aggregate::{Aggregate, Aggregated, Aggregation, IntoPipeline};
pub use error::{PipelineError, Result};
pub use expression::Expression;
pub use stage::Condition;

/// The example of the guide runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/pipelines.md")]
struct Guide;
