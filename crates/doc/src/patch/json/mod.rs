//! JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396).
//!
//! ```text
//! text --parse--> JsonPatch, MergePatch --Patcher--> the document's bytes, spliced, or decoded
//!                                |
//!                                \--apply_to--> a value in memory: what the bytes must equal
//! ```

pub(super) mod merge;
pub(super) mod patch;
pub(super) mod places;

pub(super) mod refusal;

mod memory;

pub use merge::MergePatch;
pub use patch::JsonPatch;
