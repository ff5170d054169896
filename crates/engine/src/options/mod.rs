//! The options that a user can set, and their bounds.

mod changes;
mod durability;
mod keyspace;
mod size;

mod database;

pub use changes::ChangeRetention;
pub use database::Options;
pub use durability::Durability;
pub(crate) use durability::check_interval;
pub(crate) use keyspace::partitions_by_cores;
pub use keyspace::{KeyspaceOptions, Routing};
pub use size::parse_bytes;
