//! Flagstone's collections on a cluster of machines.
//!
//! ```text
//! flagstone's handles --Remote--> RemoteCollection: catalog, commits, scans, builds of indexes
//!                                        |
//!                                        v
//!                                  trait Store: partitions of rows, batches with conditions
//!                                        |
//!                           Mem, with faults       Cql, by the feature cql: Cassandra
//! ```
//! Flagstone decides what is stored: documents in their self-contained form, entries of indexes,
//! plans of queries. This crate decides where, and keeps a document and its entries in agreement.
//! [`store`] says what it needs of a cluster.
//!
//! **Places.** The documents of a collection are divided into buckets by the hash of their keys, or
//! by ranges of keys. A bucket is a partition of the store. The entries of a document are in its
//! bucket, so one batch changes both, and they never differ.
//!
//! **Writes** are batches whose conditions are what was read before (module `commit`). One process
//! sends one batch of a bucket at a time, and combines what waits meanwhile. Each batch also
//! changes the row of its writer in the bucket, under the condition that the writer's batch before
//! it was the last: so a batch without an answer is looked up, and once the next one is applied, no
//! earlier one can come late.
//!
//! **Epochs.** Each bucket has an epoch, which every batch expects. When an index is created or
//! dropped, the epoch of the collection rises: a process that does not know the index is refused,
//! and reads the catalog again. A fence, an epoch below 0, ends a bucket for ever when its
//! collection is cleared or dropped (module `ground`).
//!
//! **Unique values** are claimed in partitions of their own before they are written (module
//! `commit::claims`).
//!
//! **Another layout** is another generation, into which rows are copied while others write them
//! (module `ground`).
//!
//! Modules are listed from the ground up.

mod backoff;
mod scratch;
mod side_by_side;

#[doc(hidden)]
pub mod store;

#[doc(hidden)]
pub mod mem;

#[cfg(feature = "cql")]
#[doc(hidden)]
pub mod cql;

mod form;

mod layout;

mod sizes;

mod catalog;

mod ground;

mod commit;

mod premise;

mod scan;

mod build;

mod remote;

mod cluster;

pub use cluster::Cluster;
pub use layout::Layout;
