//! Routes keys to the partitions of a keyspace.

mod route;

mod layout;

pub(crate) use layout::{Layout, Layouts};
pub(crate) use route::{PARTITIONS_MAX, Route, hash_start};
