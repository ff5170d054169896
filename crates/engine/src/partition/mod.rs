//! Which partition of a keyspace holds a key.

mod route;

pub(crate) use route::{Route, hash_start};
