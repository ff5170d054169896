//! The keyspaces of a database, and what each was created with. Numbers are never assigned twice.
//!
//! ```text
//! record      one keyspace: ids, route, content, options
//! choices     does a later choice agree with the record?
//! keyspaces   all of them, by name, id and tree; the next ids; the epoch
//! ```

mod name;
mod routed;

mod record;

mod choices;
mod keyspaces;

pub(crate) use choices::{altered, content_mismatch, mismatch};
pub(crate) use keyspaces::{Catalog, CatalogChange, Changed, Counters, Wanted};
pub(crate) use name::check_name;
pub use record::KeyspaceContent;
pub(crate) use record::KeyspaceRecord;
