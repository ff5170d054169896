//! Collections: keyspaces whose values are documents.
//!
//! The modules are listed from the ground up. The methods of [`Collection`], and those of
//! [`Batch`](crate::Batch) and [`Snapshot`](crate::Snapshot) for documents, encode keys and call
//! the modules above `handle`, which do the work.

mod core;
mod rewrite;

mod stored;

pub(crate) mod decode;
pub(crate) mod encode;

pub(crate) mod index;

pub(crate) mod write;

pub(crate) mod update;

pub(crate) mod patch_if;

mod conditional;

pub(crate) mod query;

mod handle;

mod arguments;
mod indexes;
mod old;
mod patches;
mod queries;
mod space;

pub(crate) use core::Documents;
pub use handle::Collection;
pub use index::{BuildProgress, IndexInfo, IndexStatistics, IndexVerifyReport};
pub use patch_if::{AnyPatch, Patched};
pub use stored::DocumentCheck;
pub(crate) use stored::Stored;
