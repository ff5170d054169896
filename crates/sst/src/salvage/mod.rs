//! What can still be read of a damaged table: block by block, what is bad passed over and told.
//!
//! ```text
//! the tail is whole:  index -> every block read, its checksum held, its entries in order -> good, or lost
//! else:               the blocks stand one behind the other, and a checksum covers the place: walk from the front
//! ```
//! Modules stand from the ground up.

mod walk;

mod survey;

mod cursor;

pub use cursor::SalvageCursor;
pub use survey::{LostPart, Salvage};
