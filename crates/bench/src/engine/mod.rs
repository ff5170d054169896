//! The engines that workloads measure: one trait, two implementations here, and one for each peer
//! in `peers/`.

mod api;
mod flagstone;
mod noop;

pub use api::{
    Body, Engine, EngineError, EngineEvent, Gauges, OpenEngine, Outcome, Sorted, Stillness,
    Transaction,
};
pub use flagstone::{EventLog, gauges_of, open_database, open_flagstone};
pub use noop::NoopEngine;
