//! Queries: documents by filter, sorted, projected, counted, grouped, in pages; writes by filter.
//!
//! ```text
//! Find, WriteMany --Spec--> plan: how the documents are found
//!                             |
//!                             v
//!                           Rows: documents that match --> count
//!                             |                      \---> distinct, group: a sorter
//!                             v                       \--> write: each key under its lock
//!                           Ordered: a sorter, unless the plan has the order
//!                             |
//!                             v
//!                           Cursor, Page: skip, limit, projection
//! ```
//! A query reads one snapshot, or what a transaction sees. Its memory is bounded: what sorts and
//! groups hold beyond it goes to spill files.

mod input;
mod token;

mod ask;
mod spec;

mod source;

mod projector;

mod key_access;
mod key_list;
mod known;

mod cover;
mod index_order;
mod merge;

mod access;

mod entries;
mod keys;

mod covered;

mod rows;

mod explain;

mod plan;

mod ordered;

mod cursor;
#[cfg(feature = "serde")]
mod cursor_as;
mod distinct;
mod group;

mod page;

mod values;

mod find;
mod write;

pub use cursor::Cursor;
#[cfg(feature = "serde")]
pub use cursor_as::CursorAs;
pub use distinct::Distinct;
pub use explain::{Actual, Explain, PlanInfo};
pub use find::{Find, ValuePart};
pub use group::{Group, Groups};
pub(crate) use input::Action;
pub use input::{IntoChange, IntoFilter, IntoProjection, IntoSort};
pub use page::Page;
pub(crate) use source::Reads;
pub use spec::Hint;
pub(crate) use spec::usual_memory;
pub use token::PageToken;
pub use values::{EntryValues, IndexedValue, ValueRow, Values};
pub use write::{Changed, Interrupted, Returning, WriteIn, WriteMany};
