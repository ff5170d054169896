//! An embedded, partitioned, log-structured storage engine for keys, values and documents.
#![allow(dead_code, unused_imports, reason = "the rooms that use these are being built")]

mod options;
mod partition;

mod catalog;
mod manifest;

pub use options::{Durability, KeyspaceOptions, Options, Routing};
