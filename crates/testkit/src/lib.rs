//! The parts that flagstone's tests share: oracle, generators, crash and fault loops.
//!
//! ```text
//! Rng --> Workload --> Step, Change --+--> Driver: the database and the Model side by side
//!         random_options              +--> History: what was acknowledged, what was promised
//! builds: a model of unique builds beside writers, in every interleaving
//! World: a disk in memory that crashes and fails, a clock that does not move, steps one by one
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it runs only in tests, which fail by a panic"
)]

pub mod seed;

pub mod cassandra;
mod elsewhere;
pub mod memory;
pub mod program;
pub mod rng;
pub mod short_reads;

pub mod model;
pub mod options;

pub mod workload;

pub mod world;

pub mod copy;

pub mod driver;
pub mod history;

pub mod anomalies;
pub mod budget;
pub mod builds;
pub mod fixtures;
pub mod linear;
pub mod sim;
pub mod soak;
pub mod stress;

/// The checksum of headers, for tests that forge a header.
pub use flagstone_base::checksum::crc32c;

pub use copy::Copy;
pub use driver::Driver;
pub use elsewhere::{STORE, is_elsewhere};
pub use history::{History, Promise};
pub use model::{Change, Model, Table};
pub use options::{random_keyspace, random_options};
pub use rng::Rng;
pub use seed::{is_long, rounds, seed};
pub use short_reads::ShortReads;
pub use workload::{Step, Workload};
pub use world::{Session, World, dump};
