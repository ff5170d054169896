//! JSONPath: a place that a query returns is a path to the same value.

use super::document::names;
use super::filter::documents;
use super::{bounded, join, note, split};
use flagstone_doc::{FieldPath, JsonPath, View, validate};

/// The most nodes of a query that are looked at: there may be exponentially many.
const NODES_MAX: usize = 300;

/// Reads a document and the text of a path.
pub(super) fn body(bytes: &[u8]) {
    let Some((document, text)) = split(bytes) else { return };
    let text = String::from_utf8_lossy(text);
    if let Ok(path) = FieldPath::parse(&text) {
        assert_eq!(FieldPath::parse(&path.to_string()).as_ref(), Ok(&path), "{text:?}");
    }
    let path = match JsonPath::parse(&text) {
        Ok(path) => path,
        Err(error) => {
            assert!(error.position <= text.chars().count() + 1, "{error}");
            return note(error.expected);
        }
    };
    let names = names();
    let Ok(root) = View::of(document, Some(&names)) else { return note("no document") };
    let is_valid = validate(document, Some(&names)).is_ok();
    let nodes: Vec<_> = path.nodes(&root).take(NODES_MAX).collect();
    note(format_args!("{} {}", nodes.len().min(9), path.is_single()));
    let first = path.first(&root);
    for (i, node) in nodes.into_iter().enumerate() {
        let Ok(node) = node else {
            assert!(!is_valid, "{path} cannot read a valid document");
            break;
        };
        assert!(i > 0 || first.is_ok(), "{path} has a first node");
        if !is_valid || i > 20 {
            continue;
        }
        let place = node.location().expect("the place of a node").to_string();
        let single = JsonPath::parse(&place).expect("a normalized path is a path");
        let found = single.first(&root).expect("a valid document is read");
        let value = bounded(document.len(), 600, "a value", || node.view().to_value());
        assert_eq!(found.map(|view| view.to_value()), Some(value), "{path} at {place}");
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let documents = documents(&names());
    let paths = [
        "$.tags[2].c",
        "$['a'][0]['b'][-1]",
        "$..b[0,1:5:2]",
        "$.a[?@.b > 1 && !(@.c == 'x')].b",
        "$[?count(@.*) > 2 || length(@) == 3]",
        "$.*[?search(@, 'a|b') || match(@.x, '[a-c]{1,3}')]",
        "$..[?@.b == $.a[0].b]..*",
        "$[?value(@..b) >= 1.5e0, 'id', ::-1]",
    ];
    let pairs = paths
        .iter()
        .flat_map(|path| documents.iter().map(|document| join(document, path.as_bytes())));
    pairs.collect()
}
