//! Reads a tree: one key, or keys in order.

mod get;
mod held;

mod dead_run;
mod walk;

mod written;

mod scan;

pub use get::{GetResult, Look, Now};
pub use scan::TreeScan;
pub use walk::ScanOptions;
pub use written::written_after;
