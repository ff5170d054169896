//! What the threads do: mixes of puts, gets and deletes, YCSB, durabilities, scans, documents, and
//! matrices of them.
//!
//! A workload is a struct of options, which are also its arguments and the options of its header,
//! and runs on a [`Stage`]: which engine, where, and where the result goes. So `flagstone-bench`
//! and the adapters of other engines run the same code over the same keys and values.

mod keys;
mod page_cache;
mod stage;
mod values;
mod zipf;

mod options;

mod caller;
mod fill;

mod device;
mod documents;
mod durability;
mod larger;
mod mix;
mod noop;
mod overwrite;
mod reads;
mod scan;
mod sequential;
mod sizes;
mod ycsb;

pub use device::{DeviceFile, DeviceOptions, measure_reads};
pub use documents::{
    DocumentStore, DocumentTrial, GetHow, LoadOptions, Source, TrialOptions, UpdateHow,
    run_document_get, run_document_update, run_load,
};
pub use durability::{Durabilities, DurableWriters};
pub use fill::Asked;
pub use keys::{Keys, Random, mix64};
pub use larger::{LargerCell, LargerOptions, larger_table};
pub use mix::{Mix, MixOptions};
pub use noop::{burn_like, run_yardstick};
pub(crate) use options::check_unending;
pub use options::{DataOptions, Setup, Workload};
pub use overwrite::{OverwriteOptions, Pattern};
pub use reads::GetsOptions;
pub use scan::{FullScanOptions, ShortScanOptions};
pub use sequential::{Bytes, SEQUENTIAL_PHASES, SequentialOptions};
pub use sizes::SizesOptions;
pub use stage::{NameFile, Opened, Stage, StoreDir};
pub use values::{ValueKind, Values, WrongValue};
pub use ycsb::{Ycsb, YcsbOptions};
pub use zipf::Zipf;
