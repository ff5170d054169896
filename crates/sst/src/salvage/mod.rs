//! Reads what is left of a damaged table, block by block. It skips damaged blocks and reports them.
//!
//! ```text
//! the tail is whole   read every block of the index, check its checksum and the order of its
//!                     entries: the block is good, or lost
//! otherwise           blocks are adjacent, and a checksum covers the offset of its block: find
//!                     them from the front
//! ```
//!
//! A module uses only modules that are listed above it.

mod walk;

mod survey;

mod cursor;

pub use cursor::SalvageCursor;
pub use survey::{LostPart, Salvage};
