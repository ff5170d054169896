//! Bulk load of documents: readers, parsers and writers on threads of their own, with bounded
//! queues between them.
//!
//! ```text
//!   task --> readers --> Parcel (a chunk) --> parsers --> lanes (batches) --> writers --> totals
//!              ^                                                                 |
//!              +---- gate: in the order of the input, bytes are bounded <--------+
//! ```
//! **The result does not depend on the threads.** Readers work side by side, but the gate admits
//! their chunks in the order of the input, and gives them numbers. Each key belongs to one writer,
//! which commits its batches in the order of these numbers. A load that stops has loaded
//! everything before a place in the input, and nothing after it, unless the database fails.
//!
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

mod files;
mod gate;
mod ids;
mod lane;
mod sum;
mod totals;

mod lines;

mod table;

mod records;

mod packed;

mod input;

mod control;
mod marks;

mod bad_documents;
mod key;

mod job;
mod read;

mod parse;
mod reading;
mod write;

mod pipeline;

mod send;

mod copy;

mod compare;

#[cfg(test)]
mod stories;

#[cfg(test)]
mod copies;

#[cfg(test)]
mod inserts;
#[cfg(test)]
mod shards;

#[cfg(test)]
mod grown;
#[cfg(test)]
mod resumes;

#[cfg(test)]
mod bad_files;

pub use bad_documents::BadDocuments;
pub use compare::{Comparison, Difference, Side, What, compare};
pub use copy::{Copied, Copy, bytes_about};
pub use error::LoadError;
pub use files::{check_outside, descriptor_of, sync_folder, target_of};
pub use ids::new_key;
pub use input::{Format, Input, MakeLines};
pub use job::Mode;
pub use key::Key;
pub use marks::{Continued, Marks, Position, identity_of, remove as remove_marks};
pub use pipeline::{Outcome, Plan, Unwatched, Watcher};
pub use send::{Destination, MarksAsked, Problem, Sending, Sent};
pub use table::{FieldType, TableFormat};
pub use totals::{Count, OnCommit};
