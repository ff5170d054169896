//! Commands of MongoDB drivers. One table says which there are; dispatch, permissions and help come
//! from it.

mod args;
pub(crate) mod name;

pub(crate) mod id;

mod builds;
mod filter;
mod index;
mod latency;

mod service;

mod run;

mod catalog;
mod connection;
mod operation;
mod read;
pub(crate) mod stream;

mod aggregate;
mod target;
mod transaction;
mod users;
mod write;

mod update;

pub(crate) mod table;

pub(crate) use latency::Kind as OperationKind;
pub use service::{Client, Service, ServiceOptions};
pub(crate) use service::{Counters, Loads};
