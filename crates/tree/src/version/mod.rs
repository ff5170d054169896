//! The shape of a tree: which tables stand in which level, and how that changes.

mod edit;
mod handle;
mod sampled;
mod span;

mod apply;
mod levels;

pub use edit::TreeEdit;
pub use handle::TableHandle;
pub(crate) use levels::Run;
pub use levels::{LEVELS, Version};
pub(crate) use span::{Span, ends_before};
