//! The database from outside: is it a map, does a crash or an error lose what was promised, do the
//! invariants hold, can bad input hurt, is it right under many threads, on real documents.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod backup;
mod ballast;
mod callbacks;
mod changes;
mod checkpoint;
#[cfg(debug_assertions)]
mod checks;
mod clear;
mod closing;
mod collections;
mod compaction;
mod crashes;
mod damage;
mod deletes;
#[cfg(unix)]
mod directory;
mod documents;
mod elsewhere;
mod events;
mod expiry;
mod faults;
#[cfg(feature = "serde")]
mod fixtures;
mod folds;
#[cfg(unix)]
mod forks;
mod guide;
mod indexes;
mod ingest;
mod ingest_failures;
mod input;
mod interrupts;
mod invariants;
mod keyspaces;
mod kill;
mod large;
mod linear;
mod map;
mod matrix;
mod origin;
mod patches;
mod queries;
mod queues;
mod repair;
mod repair_divided;
mod scrub;
mod space;
#[cfg(feature = "serde")]
mod splits;
mod structs;
mod support;
mod threads;
mod transactions;
mod try_commit;
mod try_get;
#[cfg(feature = "serde")]
mod typed;
mod verify;
