//! Commands about databases, collections and indexes.

mod counted;
mod listing;

mod stats;

mod collection;
mod database;
mod index;

pub(super) use collection::{compact, create, drop, list_collections, rename, validate};
pub(super) use database::{db_stats, drop_database, list_databases, may_see};
pub(super) use index::{coll_mod, create_indexes, drop_indexes, index_rows, list_indexes};
pub(super) use stats::{coll_stats, stats_row};
