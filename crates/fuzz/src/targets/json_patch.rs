//! JSON Patch and JSON Merge Patch: on the bytes of a document they do what they do in memory.

use super::document::{names, shape, value};
use super::{bounded, join, note, split};
use flagstone_base::Result;
use flagstone_doc::{Encoder, JsonPatch, MergePatch, Patcher, Value, doc, validate};

/// Reads a document and the text of a patch.
pub(super) fn body(bytes: &[u8]) {
    let Some((document, text)) = split(bytes) else { return };
    let names = names();
    let mut patcher = Patcher::defining();
    let value = validate(document, Some(&names)).ok().and_then(|view| view.to_value().ok());
    let compare = |kind: &str, done: Result<Vec<u8>>, expected: Option<Result<Value>>| {
        let found = done.map(|bytes| {
            let view = validate(&bytes, Some(&names));
            view.ok().and_then(|view| view.to_value().ok())
        });
        note(format_args!("{kind} {}", found.is_ok()));
        let Some(expected) = expected else { return };
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let found = found.expect("the result of a valid document is valid");
                assert_eq!(found, expected);
                note(shape(&found, 3));
            }
            (Err(found), Err(expected)) => assert_eq!(found.kind(), expected.kind()),
            // Only the bytes have limits of depth and, where parts are copied, of length.
            (Err(_too_deep), Ok(_)) => {}
            (Ok(_), Err(expected)) => panic!("refused in memory alone: {expected}"),
        }
    };
    match bounded(text.len(), 400, "a JSON Patch", || JsonPatch::parse(text)) {
        Ok(patch) => {
            let done = patcher.apply_json_patch(&patch, document, Some(&names), 1 << 20);
            let expected =
                value.clone().map(|mut value| patch.apply_to(&mut value).map(|()| value));
            compare("patch", done, expected);
        }
        Err(error) => note(error),
    }
    if let Ok(patch) = bounded(text.len(), 400, "a Merge Patch", || MergePatch::parse(text)) {
        let done = patcher.apply_merge_patch(&patch, Some(document), Some(&names));
        let expected = value.map(|mut value| {
            patch.apply_to(&mut value);
            Ok(value)
        });
        compare("merge", done, expected);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let names = names();
    let mut encoder = Encoder::new();
    let texts = [
        r#"[{"op":"add","path":"/a/b/0","value":[1]},{"op":"remove","path":"/score"}]"#,
        r#"[{"op":"move","from":"/a/b","path":"/x"},{"op":"copy","from":"/x/0","path":"/x/-"}]"#,
        r#"[{"op":"test","path":"/score","value":1},{"op":"replace","path":"","value":{"a":"b"}}]"#,
        r#"{"a":{"b":null,"c":{"d":1}},"score":null,"new":"text"}"#,
    ];
    let mut seeds = Vec::new();
    for value in [value(), doc!({"a": {"b": [1, 2]}, "score": 1})] {
        let mut bytes = Vec::new();
        encoder.encode(&value, Some(&names), &mut bytes).unwrap();
        seeds.extend(texts.iter().map(|text| join(&bytes, text.as_bytes())));
    }
    seeds
}
