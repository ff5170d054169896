//! Reading a tree: one key, or keys in order.

mod get;
mod scan;

pub use get::Found;
pub use scan::{ScanOptions, TreeScan};
