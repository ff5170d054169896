//! Bulk load of documents: readers, parsers and writers on threads of their own, with bounded
//! queues between them.
//!
//! ```text
//!   task --> readers --> Parcel (a chunk) --> parsers --> Work (a batch) --> writers --> totals
//!              ^                                                               |
//!              +---------------- gate: bytes under way are bounded <-----------+
//! ```
//! Only acknowledged documents are counted. Memory does not depend on the size of the input.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let file = dir.path().join("users.json");
//! # std::fs::write(&file, "{\"id\":1}\n{\"id\":2}\n")?;
//! use flagstone_load::{Input, Plan, Unwatched};
//!
//! let database = flagstone::Database::open(dir.path().join("db"))?;
//! let collection = database.collection("users")?;
//! let plan = Plan::new(&database, &collection, vec![Input::open(&file)?]);
//! let loaded = plan.run(&mut Unwatched)?.whole()?;
//! assert_eq!(loaded.documents, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! Modules are listed from the ground up.

mod error;

mod gate;
mod totals;

mod lines;

mod input;

mod bad_documents;
mod control;

mod read;

mod parse;
mod write;

mod pipeline;

pub use bad_documents::BadDocuments;
pub use error::LoadError;
pub use input::{Input, MakeLines};
pub use pipeline::{Outcome, Plan, Unwatched, Watcher};
pub use totals::{Count, OnCommit};
