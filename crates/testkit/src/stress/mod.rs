//! Stress on real directories. A child process works on a database with several threads, and is
//! killed or loses its file system. Then the database is compared with ledgers that are kept
//! elsewhere.
//!
//! ```text
//! parent: spawn child, wait a moment, kill it (or cut the power) --> open, compare --> again
//! child:  threads, each with keys of its own: batch n is drawn from (seed, thread, n)
//!         bank: transfers between accounts of all threads, the total never changes
//! ledger: one file a thread: "done n", "safe n n n .." as commits return
//! ```
//! A thread commits one batch after the other, so the database must have its first m batches. m is
//! at least the number that must survive, and at most one more than the number acknowledged.
//!
//! In every second database entries expire. The moments are parts of the batches, so the expected
//! state does not depend on when a batch was committed, only on when it is compared.

mod batch;
mod child;
mod compare;
mod ledger;
mod place;
mod power;

pub mod parent;

pub use child::{Seeds, work};
pub use power::powercut;
