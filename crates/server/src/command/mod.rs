//! Commands of MongoDB drivers. One table says which there are; dispatch, permissions and help come
//! from it.

mod args;
mod concern;
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

mod target;
mod transaction;
mod users;
mod write;

mod output;

mod aggregate;

mod update;

pub(crate) mod table;

pub(crate) use latency::Kind as OperationKind;
pub(crate) use service::Counters;
pub use service::{Client, Service, ServiceOptions};
