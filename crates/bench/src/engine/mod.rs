//! The engines that workloads measure: one trait, two implementations here, and one for each peer
//! in `peers/`.

mod outcome;

mod comments;

mod api;

mod collection;

mod flagstone;
mod noop;

pub use api::{Body, Engine, EngineEvent, Gauges, OpenEngine, Sorted, Stillness, Transaction};
pub use comments::{Comment, CommentIndex, CommentStore, EachRow, Question};
pub use flagstone::{EventLog, gauges_of, open_database, open_flagstone};
pub use noop::NoopEngine;
pub use outcome::{EngineError, Outcome};
