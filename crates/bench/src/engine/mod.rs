//! The seam between workloads and what they measure: one trait, two implementations here and one a
//! peer in `peers/`.

mod api;
mod flagstone;
mod noop;
mod settle;

pub use api::{
    Engine, EngineError, EngineEvent, EngineOptions, Gauges, OpenEngine, Outcome, durability_name,
};
pub use flagstone::{EventLog, FlagstoneEngine, gauges_of, open_flagstone};
pub use noop::{Burner, NoopEngine};
pub use settle::Stillness;
