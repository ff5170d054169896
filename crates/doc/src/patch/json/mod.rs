//! JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396).
//!
//! ```text
//! text --parse--> JsonPatch, MergePatch --Patcher--> the document's bytes, spliced, or decoded
//!                                |
//!                                \--apply_to--> a value in memory: what the bytes must equal
//! ```

mod merge;
mod patch;
mod places;

mod apply;

pub use merge::MergePatch;
pub use patch::JsonPatch;
