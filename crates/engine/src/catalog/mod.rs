//! The keyspaces of a database, and what each was created with. Numbers are never assigned twice.
//!
//! ```text
//! record           one keyspace: ids, route, content, options
//! owned            the part of a record that says which keyspace owns this one
//! record_options   the options a caller asks for, compared with the record
//! keyspaces        all of them, by name, id and tree; the next ids; the epoch
//! change           does a change fit the catalog?
//! ```

mod name;
mod owned;
mod routing_text;

mod record;

mod keyspaces;
mod record_options;

mod change;

pub(crate) use change::ChangedCatalog;
pub(crate) use keyspaces::{Catalog, CatalogChange, CatalogCounters, NewKeyspace};
pub(crate) use name::check_name;
pub use owned::NOTE_BYTES_MAX;
pub(crate) use owned::OwnedRecord;
pub use record::KeyspaceContent;
pub(crate) use record::KeyspaceRecord;
pub(crate) use record_options::{altered, content_mismatch, mismatch};
