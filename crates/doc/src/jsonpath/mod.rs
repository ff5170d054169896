//! JSONPath (RFC 9535): queries of documents, compiled once, evaluated on the binary form.
//!
//! ```text
//! text --scan, parse--> Query (model) --walk--> nodes, in order, one at a time
//!                         |               |
//!                         \--> filter <---/     tests candidates; walks the queries inside
//! ```
//!
//! An evaluation decodes nothing but what a filter compares. It ends after a time proportional to
//! the length of the query, the size and depth of the document, and the number of nodes returned:
//! what a value has been asked once is remembered where it could be asked again (see `walk` and
//! `filter`). The modules are listed from the ground up.

mod regexp;

mod model;

mod scan;

mod parse;

mod children;
mod compare;

mod walk;

mod filter;

mod node;

mod nodes;

mod compiled;

pub use compiled::{JSONPATH_BYTES_MAX, JSONPATH_NESTING_MAX, JsonPath};
pub(crate) use node::put_name;
pub use node::{Location, Node, PathStep};
pub use nodes::Nodes;
