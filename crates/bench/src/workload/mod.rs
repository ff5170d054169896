//! What the threads do: mixes of puts, gets and deletes, YCSB, durabilities, and matrices of them.
//!
//! A workload takes plain options and a [`Stage`]: which engine, where, and where the result goes. So
//! `flagstone-bench` and the adapters of other engines run the same code over the same keys and
//! values.

mod caller;
mod device;
mod documents;
mod durability;
mod fill;
mod keys;
mod larger;
mod matrix;
mod mix;
mod noop;
mod options;
mod overwrite;
mod page_cache;
mod random;
mod reads;
mod scan;
mod sequential;
mod sizes;
mod stage;
mod values;
mod ycsb;
mod zipf;

pub use device::{DeviceFile, DeviceOptions, ReadRate, measure_reads, run_device};
pub use documents::{
    DocumentSource, DocumentStore, DocumentTrial, GetHow, LoadInput, LoadOptions, TrialOptions,
    UpdateHow, describe_comments, read_keys, run_document_get, run_document_update, run_load,
};
pub use durability::{
    Durabilities, DurabilityCell, DurableWriters, run_durabilities, run_durable_writers,
};
pub use keys::Keys;
pub use larger::{LargerCell, LargerOptions, run_larger};
pub use matrix::{Cell, CellState, MatrixPlan, MatrixReport, mix_cells, run_matrix};
pub use mix::{Mix, MixOptions, run_mix, run_mix_as};
pub use noop::{burn_like, run_yardstick};
pub use options::{DataOptions, StoreOptions};
pub use overwrite::{OverwriteOptions, Pattern, run_overwrite};
pub use random::{Random, mix64};
pub use reads::{Asked, GetsOptions, run_gets};
pub use scan::{FullScanOptions, ShortScanOptions, run_full_scan, run_short_scan};
pub use sequential::{Bytes, SEQUENTIAL_PHASES, SequentialOptions, run_sequential};
pub use sizes::{SizesOptions, run_sizes};
pub use stage::{Opened, Stage};
pub use values::{ValueKind, Values, WrongValue};
pub use ycsb::{Ycsb, YcsbOptions, run_ycsb};
pub use zipf::Zipf;
