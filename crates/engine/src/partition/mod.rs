//! Routes keys to the partitions of a keyspace.

mod route;

mod layout;

pub(crate) use layout::{Layout, Layouts};
pub(crate) use route::{Route, hash_start};
