//! The shape of a tree: the tables of each level, and how they change.

mod edit;
mod handle;
mod sampled;
mod span;

mod apply;
mod levels;
mod run;

pub use apply::OpenTables;
pub(crate) use apply::missing;
pub use edit::TreeEdit;
pub use handle::TableHandle;
pub use levels::{LEVELS, Version};
pub(crate) use run::Run;
pub(crate) use span::{Span, ends_before};
