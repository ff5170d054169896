//! Patches: lists of changes to paths of one document, and their application to its bytes.
//!
//! ```text
//! Patch --encode--> bytes (a merge operand) --Patcher--> the document's bytes, spliced
//!   |                                            \------> or decoded, changed and encoded again
//!   \--apply_to--> a value in memory: what both must equal
//! ```
//!
//! `docs/format/patch.md` draws the bytes.

mod kind;

mod condition;
mod list;

mod model;

mod form;

mod touch;

mod build;

mod follow;

mod edits;

mod chain;

mod plan;

mod apply;

mod json;

mod targets;

pub use apply::{NotApplied, Patcher};
pub use build::Patch;
pub use json::{JsonPatch, MergePatch};
pub use touch::EncodedPatch;
