//! Routes keys to the partitions of a keyspace.

mod route;

pub(crate) use route::{Route, hash_start};
