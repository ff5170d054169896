//! What the threads do: mixes of puts, gets and deletes, YCSB, durabilities, scans, documents.
//!
//! A workload is an entry of the [list](WORKLOADS): a name, the options that it takes, what it
//! runs. Its arguments and the options of its header follow from that. It runs on a [`Stage`],
//! which has the engine, the directory of the store and the result file. So `flagstone-bench` and
//! the adapters of other engines run the same code over the same keys and values.

mod keys;
mod page_cache;
mod values;
mod zipf;

mod options;

mod stage;

mod caller;
mod fill;

mod ingests;
mod transactions;

mod comments;
mod dequeue;
mod device;
mod documents;
mod larger;
mod mix;
mod overwrite;
mod reads;
mod scan;
mod sequential;
mod ycsb;

mod list;

pub use flagstone_comments::Random;

pub use device::{DeviceFile, DeviceOptions, measure_reads};
pub use keys::{KeyOrder, Keys, mix64, random};
pub use list::{Series, WORKLOADS, Workload};
pub use mix::{Mix, burn_like, run_mix, run_yardstick};
pub use options::{
    Asks, DataOptions, Distribution, DocumentOptions, Options, Pattern, PostedBy, Take, UpdateHow,
};
pub use sequential::SEQUENTIAL_PHASES;
pub use stage::{Case, Opened, Stage, StoreDir, Trials};
pub use values::{ValueKind, Values};
pub use zipf::Zipf;
