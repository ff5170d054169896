//! Bulk load: a stream or a huge file of JSON cut into chunks of whole documents.
//!
//! ```text
//!   bytes --> Lines | Elements --> Chunk --> DocumentParser --> Batch --> Database::commit
//! ```
//! These types only cut text. The caller decides who reads, on how many threads, and where the
//! documents go. Every byte belongs to exactly one chunk, wherever a file is split.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = flagstone::Database::open(dir.path())?;
//! use flagstone::Space;
//! use flagstone::doc::JsonOptions;
//! use flagstone::load::{DocumentParser, Lines};
//!
//! let comments = db.collection("comments")?;
//! let mut parser = DocumentParser::new(&comments, JsonOptions::new());
//! let text = b"{\"id\":\"a\",\"score\":1}\n{\"id\":\"b\",\"score\":2}\n";
//! let mut lines = Lines::of_stream(&text[..], 16 << 20);
//! while let Some(chunk) = lines.next_chunk().expect("memory can be read") {
//!     let mut batch = db.batch();
//!     for (_offset, document) in chunk.documents() {
//!         parser.put(&mut batch, document, "id")?;
//!     }
//!     db.commit(batch)?;
//! }
//! assert_eq!(comments.count()?, 2);
//! # Ok::<(), flagstone::Error>(())
//! ```

mod chunk;

mod lines;

mod elements;

pub use chunk::{CHUNK_BYTES, Chunk, Place};
pub use elements::{Elements, ElementsError};
pub use lines::{Lines, ranges};
