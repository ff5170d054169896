//! Filters, and the paths, keys, sorts and projections that they share.

mod bounds;
mod errors;
mod field_paths;
mod forms;
mod implied;
mod large;
mod operators;
mod projections;
mod random;
mod reference;
mod sorts;
mod text;

use flagstone_doc::{Document, JsonParser, Names};
use std::sync::Arc;

/// Returns a document that stores its names inside, and one with ids of a table.
fn both(json: &str) -> [Document; 2] {
    let names = Arc::new(Names::new());
    let mut bytes = Vec::new();
    JsonParser::default().parse(json.as_bytes(), Some(&names), &mut bytes).unwrap();
    [Document::from_json(json).unwrap(), Document::from_bytes(bytes, Some(names)).unwrap()]
}
