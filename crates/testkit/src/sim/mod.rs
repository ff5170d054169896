//! The simulator. A history of everything that can happen to a database is drawn from a seed, run
//! step by step in one thread, and compared with the guarantees after each crash.
//!
//! ```text
//! seed --> plan: steps --> run: lives of one database on a disk in memory --> Outcome or Failure
//!                           |  executor: background work in any interleaving
//!                           |  place: the disk, its faults, its power; the wall clock
//!                           |  oracle: the history, and what each Durability promised of it
//!                           |  indexes, resolve: what indexes refuse, and what becomes of a write
//!                           |  ask, summary: what queries mean, and groups of what they find
//!                           |  contest: transactions, and commits that come between
//!                           |  moved: the directory is moved, replaced, or loses its lock
//!                           |  replica, old_documents: a reader of changes, commit by commit
//!                           +-----------> shrink: fewer steps that still fail
//! ```
//! The same seed gives the same history, operation for operation.

mod ask;
mod changes;
mod clock;
mod conditions;
mod contest;
mod disk;
mod document;
mod document_writes;
mod events;
mod executor;
mod find;
mod follow;
mod index_steps;
mod indexes;
mod ingest;
mod life;
mod model;
mod moved;
mod old_documents;
mod oracle;
mod place;
mod plan;
mod plan_documents;
mod read;
mod recover;
mod replica;
mod resolve;
mod run;
mod search;
mod setting;
mod shrink;
mod step;
mod summary;
mod times;
mod write;

pub use plan::plan;
pub use run::{Failure, Outcome, Totals, run, trace};
pub use shrink::shrink;
pub use step::Planned;
