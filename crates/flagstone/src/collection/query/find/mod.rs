//! Queries, as users ask them.

mod builder;

mod run;

mod explain;
mod values;

pub use builder::Find;
pub use values::ValuePart;
