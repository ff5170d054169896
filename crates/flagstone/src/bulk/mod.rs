//! Bulk load: a stream or a huge file of JSON cut into chunks of whole documents.
//!
//! ```text
//!   bytes --> Lines | Elements --> Chunk --> Collection::parser --> Batch --> Database::commit
//! ```
//! Everything here is pure: who reads, on how many threads, and where the documents go is decided
//! above. A byte belongs to exactly one chunk, wherever a file is split and whoever reads it.

mod chunk;

mod lines;

mod elements;

pub use chunk::{Chunk, Place};
pub use elements::{Elements, ElementsError};
pub use lines::{CHUNK_BYTES, Lines, ranges};
