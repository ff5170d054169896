//! What the threads do: mixes of puts, gets and deletes, YCSB, durabilities, and matrices of them.
//!
//! A workload takes plain options and a [`Stage`]: which engine, where, and where the result goes. So
//! `flagstone bench` and the adapters of other engines run the same code over the same keys and
//! values.

mod durability;
mod keys;
mod matrix;
mod mix;
mod noop;
mod options;
mod random;
mod stage;
mod values;
mod ycsb;
mod zipf;

pub use durability::{
    Durabilities, DurabilityCell, DurableWriters, run_durabilities, run_durable_writers,
};
pub use keys::Keys;
pub use matrix::{Cell, CellState, MatrixPlan, MatrixReport, mix_cells, run_matrix};
pub use mix::{Mix, MixOptions, run_mix};
pub use noop::burn_like;
pub use options::{DataOptions, StoreOptions};
pub use random::{Random, mix64};
pub use stage::{Opened, Stage};
pub use values::{ValueKind, Values, WrongValue};
pub use ycsb::{Ycsb, YcsbOptions, run_ycsb};
pub use zipf::Zipf;
