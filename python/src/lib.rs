//! The Python module `flagstone._flagstone`: handles of databases, keyspaces and what belongs to
//! them. The package `flagstone` (folder `package/`) re-exports them and adds what is easier in
//! Python.
//!
//! ```text
//!   Python call --> handle (one file each) --> Opened::run --> flagstone
//!                                               checks the process and earlier panics, releases
//!                                               the GIL, catches panics, maps errors
//! ```
//! **Every call of the engine passes [`opened::Opened::run`].** Modules are listed from the ground
//! up.

mod error;
mod fork;
mod panics;
mod signals;

mod clusters;

mod opened;

mod ahead;
mod arg;
mod bytes;
mod models;
mod options;
mod stats;
mod time;
mod views;

mod decode;
mod document;
mod keys;
mod selection;
mod update;
mod value;

mod access;
mod chunks;
mod edits;
mod through;

mod rows;
mod scan;

mod handle;

mod changes;
mod incoming;
mod json_text;
mod load;
mod load_arrow;
mod outgoing;

mod aggregate;
mod arrow;
mod collection;
mod find;
mod indexes;
mod keyspace;

mod groups;

mod database;

use pyo3::prelude::*;

/// Handles of flagstone databases; the package `flagstone` re-exports them.
#[pymodule(gil_used = false)]
mod _flagstone {
    #[pymodule_export]
    use super::arrow::{ArrowBatch, ArrowBatches, ArrowSource};
    #[pymodule_export]
    use super::changes::{Change, Changes};
    #[pymodule_export]
    use super::collection::Collection;
    #[pymodule_export]
    use super::database::{Database, open};
    #[pymodule_export]
    use super::document::Document;
    #[pymodule_export]
    use super::edits::Part;
    #[pymodule_export]
    use super::find::Find;
    #[pymodule_export]
    use super::fork::_after_fork;
    #[pymodule_export]
    use super::groups::{Batch, Snapshot, Transaction};
    #[pymodule_export]
    use super::keyspace::Keyspace;
    #[pymodule_export]
    use super::opened::{_close_all, _panic};
    #[pymodule_export]
    use super::panics::_panic_at;
    #[pymodule_export]
    use super::rows::Rows;
    #[pymodule_export]
    use super::scan::Scan;
    #[pymodule_export]
    use super::signals::_interrupt_at;
    #[pymodule_export]
    use super::value::_new_object_id;
}
