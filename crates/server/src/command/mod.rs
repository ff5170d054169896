//! Commands of MongoDB drivers. One table says which there are; dispatch, permissions and help come
//! from it.

mod args;
mod concern;
pub(crate) mod name;

mod variables;

pub(crate) mod id;

mod builds;
mod filter;
mod index;
mod latency;

mod dropped;
mod measure;
mod notes;
mod service;

mod work;

mod run;

mod catalog;
mod connection;
mod current;
mod operation;
mod read;
pub(crate) mod stream;

mod target;

mod transaction;
mod users;
mod write;

mod output;

mod shape;

mod explain;

mod aggregate;

mod tool;
mod update;

mod bulk;

pub(crate) mod table;

#[cfg(test)]
mod differences;

pub(crate) use latency::OperationKind;
pub(crate) use measure::for_drivers;
pub(crate) use notes::Replacing;
pub(crate) use run::{About, room_for};
pub use service::{Client, Service, ServiceOptions};
pub(crate) use service::{Loads, LoadsOf, ServiceCounters};
