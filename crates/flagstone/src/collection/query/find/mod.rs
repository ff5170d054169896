//! Queries, as users ask them.

mod builder;

mod run;

mod explain;

pub use builder::Find;
