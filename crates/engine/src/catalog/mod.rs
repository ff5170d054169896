//! Which keyspaces there are, and what each was created with. Numbers are never given twice.
//!
//! ```text
//! record      one keyspace: ids, route, content, options
//! choices     options to record and back; do they agree?
//! keyspaces   all of them, by name, id and tree; the next ids; the epoch
//! ```

mod choices;
mod keyspaces;
mod record;

pub(crate) use keyspaces::{Catalog, CatalogChange, Changed, Counters, Wanted, check_name};
pub use record::KeyspaceContent;
pub(crate) use record::KeyspaceRecord;
