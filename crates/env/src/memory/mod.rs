//! Memory that comes directly from the system, in huge pages where it has them.

mod heap;
mod pages;
mod ranges;

pub use heap::{Heap, PIECE_BYTES_MAX, Piece};
pub use pages::{HUGE_PAGE_BYTES, Pages};
