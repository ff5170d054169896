//! JSONPath: the compliance suite, the examples of the RFC, errors, hostile queries and documents,
//! and comparisons with straightforward evaluations.

mod errors;
mod examples;
mod hostile;
mod limits;
mod model;
mod suite;
mod types;

use flagstone_doc::{Document, Encoder, JsonPath, Names, Node, Value, json};
use std::sync::Arc;

/// Returns the value as a document in each mode of keys: names inside, ids of one byte, ids of two.
fn documents(value: &Value) -> [Document; 3] {
    let by_id = |names: Names| {
        let mut bytes = Vec::new();
        Encoder::new().encode(value, Some(&names), &mut bytes).unwrap();
        Document::from_bytes(bytes, Some(Arc::new(names))).unwrap()
    };
    let many = Names::new();
    for id in 0..300 {
        many.intern(&format!("another name {id}")).unwrap();
    }
    [Document::from_value(value).unwrap(), by_id(Names::new()), by_id(many)]
}

fn path(text: &str) -> JsonPath {
    JsonPath::parse(text).map_err(|error| format!("{text}: {error}")).unwrap()
}

/// Returns the values that `query` selects, one JSON text after the other. Checks that all modes of
/// keys agree.
fn selected(query: &str, document: &str) -> String {
    let path = path(query);
    let shown = |node: Node<'_>| node.view().to_string();
    let [first, second, third] = documents(&json::parse(document).unwrap())
        .map(|document| document.query(&path).map(shown).collect::<Vec<_>>().join(" "));
    assert!(first == second && first == third, "{query}: {first}, {second}, {third}");
    first
}

/// Returns the normalized paths of what `query` selects.
fn places(query: &str, document: &str) -> String {
    let path = path(query);
    let shown = |node: Node<'_>| node.location().unwrap().to_string();
    let [first, second, third] = documents(&json::parse(document).unwrap())
        .map(|document| document.query(&path).map(shown).collect::<Vec<_>>().join(" "));
    assert!(first == second && first == third, "{query}: {first}, {second}, {third}");
    first
}

#[test]
fn the_documents_of_these_tests_have_all_modes_of_keys() {
    let value = json::parse(r#"{"a":1}"#).unwrap();
    let forms = documents(&value).map(|document| document.as_bytes()[0] & 7);
    assert_eq!(forms, [2, 3, 4], "names inside, ids of one byte, ids of two");
}
