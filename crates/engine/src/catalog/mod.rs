//! The keyspaces of a database, and what each was created with. Numbers are never assigned twice.
//!
//! ```text
//! record           one keyspace: ids, route, content, options
//! record_options   the options a caller asks for, compared with the record
//! keyspaces        all of them, by name, id and tree; the next ids; the epoch
//! ```

mod name;
mod routing_text;

mod record;

mod keyspaces;
mod record_options;

pub(crate) use keyspaces::{Catalog, CatalogChange, Changed, Counters, Wanted};
pub(crate) use name::check_name;
pub use record::KeyspaceContent;
pub(crate) use record::KeyspaceRecord;
pub(crate) use record_options::{altered, content_mismatch, mismatch};
