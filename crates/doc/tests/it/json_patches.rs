//! JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396): the public suite and the examples of the
//! RFCs, on stored documents with names inside and with ids, and in memory.

use super::random::{check, value};
use flagstone_base::ErrorKind;
use flagstone_doc::{
    Document, Encoder, JsonPatch, MergePatch, Names, Patcher, Pointer, Value, doc, json, validate,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn encoded(value: &Value, names: Option<&Names>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new().encode(value, names, &mut bytes).unwrap();
    bytes
}

fn decoded(bytes: &[u8], names: Option<&Names>) -> Value {
    validate(bytes, names).unwrap().to_value().unwrap()
}

/// Returns a text that also shows what equality ignores: number literals and the order of fields.
fn shown(value: &Value) -> String {
    format!("{value:?}")
}

/// Applies a patch in memory and on the bytes, with names inside and with ids; the results must be
/// the same.
fn patched(document: &Value, patch: &JsonPatch) -> flagstone_base::Result<Value> {
    let mut expected = document.clone();
    let in_memory = patch.apply_to(&mut expected);
    for names in [None, Some(Names::new())] {
        let names = names.as_ref();
        let bytes = encoded(document, names);
        let done = Patcher::defining().apply_json_patch(patch, &bytes, names, 1 << 20);
        match (&in_memory, done) {
            (Ok(()), Ok(bytes)) => {
                assert_eq!(decoded(&bytes, names), expected, "{patch:?}");
                assert_eq!(bytes, encoded(&decoded(&bytes, names), names), "in normal form");
            }
            (Err(error), Err(other)) => {
                assert_eq!((error.kind(), error.to_string()), (other.kind(), other.to_string()));
                assert_eq!(expected, *document, "a patch that fails changes nothing");
            }
            (in_memory, done) => {
                assert_eq!(in_memory.is_ok(), done.is_ok(), "{patch:?} of {document}");
            }
        }
    }
    in_memory.map(|()| expected)
}

#[test]
fn the_json_patch_suite_passes() {
    let Some(dir) = super::shared("FLAGSTONE_SUITES", "suites") else {
        println!("skipped: no shared/suites above here, and FLAGSTONE_SUITES is not set");
        return;
    };
    let (mut applied, mut refused, mut disabled) = (0, 0, 0);
    for file in ["tests.json", "spec_tests.json"] {
        let suite = std::fs::read(dir.join("json-patch").join(file)).unwrap();
        for case in json::parse(suite).unwrap().as_array().unwrap() {
            // Two operations with a member twice, which a parser of JSON sees once.
            let error = case.get("error");
            if error.is_some() && case.get("disabled").is_some() {
                disabled += 1;
                continue;
            }
            let document = case.get("doc").unwrap();
            let result = JsonPatch::from_value(case.get("patch").unwrap())
                .and_then(|patch| patched(document, &patch));
            match (result, error) {
                (Ok(result), None) => {
                    let expected = case.get("expected").unwrap_or(&result);
                    assert_eq!(result, *expected, "{case}");
                    applied += 1;
                }
                (Err(_), Some(_)) => refused += 1,
                (result, _) => panic!("{case}: {result:?}"),
            }
        }
    }
    println!("{applied} patches applied, {refused} refused, {disabled} disabled");
    assert_eq!((applied, refused, disabled), (76, 34, 2), "the suite is there");
}

fn refused(document: &str, patch: &str, kind: ErrorKind, text: &str) {
    let document = json::parse(document).unwrap();
    let error = JsonPatch::parse(patch).and_then(|patch| patched(&document, &patch)).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
}

#[test]
fn an_error_names_the_place_in_the_patch() {
    let invalid = |patch: &str, text: &str| refused("{}", patch, ErrorKind::InvalidInput, text);
    invalid(
        "[{]",
        "JSON Patch: JSON, line 1, column 3 (byte 2): expected a name in quotes, found ']'",
    );
    invalid("{}", "JSON Patch, the whole text: expected an array of operations");
    invalid("[7]", "JSON Patch, /0: expected an object");
    invalid(
        r#"[{"op":"remove","path":"/a"},{"path":"/a"}]"#,
        "JSON Patch, /1/op: expected add, remove, replace, move, copy or test",
    );
    invalid(
        r#"[{"op":"insert","path":"/a"}]"#,
        "JSON Patch, /0/op: expected add, remove, replace, move, copy or test, found \"insert\"",
    );
    invalid(
        r#"[{"op":"add","path":"/a~2","value":1}]"#,
        "JSON Patch, /0/path: expected a JSON Pointer: JSON Pointer, character 4: expected 0 or 1 \
         after '~', found '2'",
    );
    invalid(r#"[{"op":"add","path":"/a"}]"#, "JSON Patch, /0/value: expected a value");
    invalid(
        r#"[{"op":"move","path":"/a/b","from":"/a"}]"#,
        "JSON Patch, /0/path: expected a place that is not inside of the one at \"from\"",
    );
    invalid(
        r#"[{"op":"remove","path":"/a","op":"add"}]"#,
        "JSON Patch: JSON, line 1, column 30 (byte 29): expected a name that is new in its map, \
         found 'o'",
    );
}

#[test]
fn an_error_names_the_operation_that_fails() {
    let failed = |kind, patch: &str, text: &str| {
        refused(r#"{"a":[1,{"b":2}],"n":5}"#, patch, kind, text);
    };
    failed(
        ErrorKind::ConditionFailed,
        r#"[{"op":"add","path":"/x","value":1},{"op":"test","path":"/n","value":"5"}]"#,
        "JSON Patch, /1: test \"/n\": the value differs",
    );
    failed(
        ErrorKind::InvalidInput,
        r#"[{"op":"remove","path":"/a/1/b"},{"op":"test","path":"/a/1/b","value":2}]"#,
        "JSON Patch, /1: test \"/a/1/b\": there is no value at this place",
    );
    for (patch, text) in [
        (
            r#"{"op":"remove","path":""}"#,
            "remove \"\": the whole document cannot be removed by a patch",
        ),
        (
            r#"{"op":"add","path":"/a/3","value":1}"#,
            "add \"/a/3\": expected an index up to the number of elements, or '-'",
        ),
        (
            r#"{"op":"add","path":"/a/1/x/y","value":1}"#,
            "add \"/a/1/x/y\": there is no array or map around the place",
        ),
        (
            r#"{"op":"replace","path":"/a/-","value":1}"#,
            "replace \"/a/-\": expected the index of an element",
        ),
        (r#"{"op":"remove","path":"/a/01"}"#, "remove \"/a/01\": expected the index of an element"),
        (
            r#"{"op":"move","from":"/z","path":"/a/0"}"#,
            "move \"/z\" to \"/a/0\": there is no value at this place",
        ),
    ] {
        failed(ErrorKind::InvalidInput, &format!("[{patch}]"), &format!("JSON Patch, /0: {text}"));
    }
}

/// Collects the places of a value, and some that have none.
fn places(value: &Value, prefix: &Pointer, out: &mut Vec<Pointer>) {
    let join = |token: &str| -> Pointer { prefix.tokens().chain([token]).collect() };
    out.push(prefix.clone());
    out.extend(["new", "0", "-", "a~/b"].map(join));
    match value {
        Value::Map(map) => {
            for (key, inner) in map {
                if let Some(name) = key.as_str() {
                    places(inner, &join(name), out);
                }
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                places(inner, &join(&at.to_string()), out);
            }
            out.push(join(&items.len().to_string()));
        }
        _ => {}
    }
}

fn operation(drawn: (u8, u32, u32, Value), document: &Value) -> Value {
    let (kind, path, from, value) = drawn;
    let mut all = Vec::new();
    places(document, &Pointer::default(), &mut all);
    let place = |at: u32| all[at as usize % all.len()].to_string();
    let (path, from) = (place(path), place(from));
    match kind {
        0..=2 => doc!({ "op": "add", "path": path, "value": value }),
        3 | 4 => doc!({ "op": "remove", "path": path }),
        5 => doc!({ "op": "replace", "path": path, "value": value }),
        6 => doc!({ "op": "move", "path": path, "from": from }),
        7 => doc!({ "op": "copy", "path": path, "from": from }),
        _ => doc!({ "op": "test", "path": path, "value": value }),
    }
}

#[test]
fn on_bytes_a_json_patch_does_what_it_does_in_memory() {
    let name = "on_bytes_a_json_patch_does_what_it_does_in_memory";
    let drawn = (value(), vec((0..9_u8, any::<u32>(), any::<u32>(), value()), 1..8), 0..300_u32);
    check(name, &drawn, 2000, |drawn| {
        let (mut document, operations, crowd) = drawn;
        let names = Names::new();
        for n in 0..crowd {
            names.intern(&format!("crowd {n}"));
        }
        // Maps with keys of any value are sorted when they are encoded.
        let mut bytes = encoded(&document, Some(&names));
        document = decoded(&bytes, Some(&names));
        let mut patcher = Patcher::defining();
        let mut done = Vec::new();
        for drawn in operations {
            let operation = Value::Array(vec![operation(drawn, &document)]);
            let Ok(patch) = JsonPatch::from_value(&operation) else { continue };
            let before = shown(&document);
            let in_memory = patch.apply_to(&mut document);
            let on_bytes = patcher.apply_json_patch(&patch, &bytes, Some(&names), 1 << 20);
            assert_eq!(on_bytes.is_ok(), in_memory.is_ok(), "{operation} of {before}");
            let Ok(next) = on_bytes else { continue };
            bytes = next;
            document = decoded(&encoded(&document, Some(&names)), Some(&names));
            assert_eq!(shown(&decoded(&bytes, Some(&names))), shown(&document), "{operation}");
            assert_eq!(bytes, encoded(&document, Some(&names)), "in normal form");
            done.extend(operation.as_array().unwrap().iter().cloned());
        }
    });
}

/// Beyond a limit of operations the document is decoded once.
#[test]
fn a_long_json_patch_gives_what_its_operations_give() {
    let document = doc!({ "n": 0, "list": [] });
    let operation = |n: i64| doc!({ "op": "add", "path": "/list/-", "value": n });
    let all: Value = (0..1000).map(operation).collect();
    let whole = patched(&document, &JsonPatch::from_value(&all).unwrap()).unwrap();
    let list: Value = (0..1000_i64).collect();
    assert_eq!(whole, doc!({ "n": 0, "list": (list) }));
    let mut failing = all.as_array().unwrap().to_vec();
    failing.push(doc!({ "op": "test", "path": "/n", "value": 1 }));
    let failing = JsonPatch::from_value(&Value::Array(failing)).unwrap();
    let error = patched(&document, &failing).unwrap_err();
    assert_eq!(error.to_string(), "JSON Patch, /1000: test \"/n\": the value differs");
}

/// Forty copies of a document into itself would take terabytes.
#[test]
fn copies_of_copies_are_refused_at_the_limit() {
    let document = doc!({ "text": "some text", "list": [1] });
    let copy = |n: usize| doc!({ "op": "copy", "from": "", "path": (format!("/n{n}")) });
    for count in [40, 400] {
        let patch = JsonPatch::from_value(&(0..count).map(copy).collect()).unwrap();
        let bytes = encoded(&document, None);
        let limited = Patcher::new().apply_json_patch(&patch, &bytes, None, 10_000);
        let in_memory = patch.apply_to(&mut document.clone());
        for error in [limited.unwrap_err(), in_memory.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().ends_with("larger than its limit"), "{error}");
        }
    }
}

/// On the bytes each copy would cost the whole document.
#[test]
fn many_copies_decode_the_document_once_and_are_bounded() {
    let copies = |from: &str, count: usize| {
        let copy = |_| doc!({ "op": "copy", "from": from, "path": "/to" });
        JsonPatch::from_value(&(0..count).map(copy).collect()).unwrap()
    };
    let document = doc!({ "large": "x", "small": [1, 2], "to": null });
    let result = patched(&document, &copies("/small", 1000)).unwrap();
    assert_eq!(result.get("to"), document.get("small"));
    let document = doc!({ "large": ("x".repeat(1 << 20)), "small": [1, 2], "to": null });
    let bytes = encoded(&document, None);
    let apply = |patch: &JsonPatch| Patcher::new().apply_json_patch(patch, &bytes, None, 4 << 20);
    assert!(apply(&copies("/large", 2)).is_ok());
    let error = apply(&copies("/large", 1000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().starts_with("JSON Patch, /6"), "{error}");
    // Moves copy nothing.
    let there_and_back = (0..500).flat_map(|_| {
        let to = |from: &str, path: &str| doc!({ "op": "move", "from": from, "path": path });
        [to("/large", "/moved"), to("/moved", "/large")]
    });
    let moves = JsonPatch::from_value(&there_and_back.collect()).unwrap();
    assert_eq!(decoded(&apply(&moves).unwrap(), None), document);
    // Together they are too long, though each is not.
    let each = |n: usize| doc!({ "op": "copy", "from": "/large", "path": (format!("/n{n}")) });
    let small = (0..600).map(|_| doc!({ "op": "test", "path": "/to", "value": null }));
    let patch = JsonPatch::from_value(&(0..4).map(each).chain(small).collect()).unwrap();
    assert!(apply(&patch).unwrap_err().to_string().ends_with("larger than its limit"));
}

#[test]
fn nesting_beyond_the_limit_is_refused() {
    let nested = (0..511).fold(Value::from(1), |inner, _| Value::Array(vec![inner]));
    let add = |path: &str| {
        let operation = doc!([{ "op": "add", "path": path, "value": (nested.clone()) }]);
        let patch = JsonPatch::from_value(&operation).unwrap();
        let bytes = encoded(&doc!({ "a": { "b": 1 } }), None);
        let patched = Patcher::new().apply_json_patch(&patch, &bytes, None, 1 << 20);
        patched.map(|bytes| decoded(&bytes, None))
    };
    assert!(add("/x").is_ok());
    assert_eq!(add("/a/x").unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// Every field would be compared with every other one: 10^10 times.
#[test]
fn merges_of_many_fields_take_time_in_proportion_to_their_number() {
    let map = |names: std::ops::Range<u32>, value: Value| -> Value {
        Value::Map(names.map(|n| (format!("n{n}"), value.clone())).collect())
    };
    let mut document = Value::object();
    MergePatch::from_value(map(0..150_000, 1.into())).unwrap().apply_to(&mut document);
    assert_eq!(document, map(0..150_000, 1.into()));
    MergePatch::from_value(map(50_000..200_000, doc!({ "x": null, "y": 2 })))
        .unwrap()
        .apply_to(&mut document);
    MergePatch::from_value(map(0..50_000, Value::Null)).unwrap().apply_to(&mut document);
    assert_eq!(document, map(50_000..200_000, doc!({ "y": 2 })));
}

/// Merges in memory and on the bytes, with names inside and with ids.
fn merged(document: &Value, patch: &Value) -> Value {
    let patch = MergePatch::from_value(patch.clone()).unwrap();
    let mut expected = document.clone();
    patch.apply_to(&mut expected);
    for names in [None, Some(Names::new())] {
        let names = names.as_ref();
        let bytes = encoded(document, names);
        let merged = Patcher::defining().apply_merge_patch(&patch, Some(&bytes), names).unwrap();
        assert_eq!(decoded(&merged, names), expected, "{document} and {patch:?}");
        assert_eq!(merged, encoded(&decoded(&merged, names), names), "in normal form");
    }
    expected
}

#[test]
fn the_examples_of_rfc_7396_hold() {
    let examples = [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        // Section 3.
        (
            r#"{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},
                "tags":["example","sample"],"content":"This will be unchanged"}"#,
            r#"{"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},
                "tags":["example"]}"#,
            r#"{"title":"Hello!","author":{"givenName":"John"},"tags":["example"],
                "content":"This will be unchanged","phoneNumber":"+01-123-456-7890"}"#,
        ),
    ];
    for (document, patch, expected) in examples {
        let [document, patch, expected] =
            [document, patch, expected].map(|t| json::parse(t).unwrap());
        assert_eq!(merged(&document, &patch), expected, "{document} and {patch}");
    }
}

#[test]
fn on_bytes_a_merge_patch_does_what_it_does_in_memory() {
    let field = || "[a-d]";
    let inner = prop_oneof![Just(Value::Null), value()];
    let map = |values: BoxedStrategy<Value>| {
        vec((field(), values), 0..4).prop_map(|pairs| Value::Map(pairs.into_iter().collect()))
    };
    let nested = map(prop_oneof![inner.clone(), map(inner.boxed()).boxed()].boxed());
    let name = "on_bytes_a_merge_patch_does_what_it_does_in_memory";
    check(name, &(nested.clone(), nested), 1500, |(document, patch)| {
        if MergePatch::from_value(patch.clone()).is_ok() {
            merged(&document, &patch);
        }
    });
}

#[test]
fn a_merge_patch_without_a_document_is_its_value_without_nulls() {
    let patch = MergePatch::parse(r#"{"a":1,"b":null,"c":{"d":null,"e":[null]}}"#).unwrap();
    assert!(!patch.is_upsert() && patch.clone().upsert().is_upsert());
    let bytes = Patcher::defining().apply_merge_patch(&patch, None, None).unwrap();
    let document = Document::from_bytes(bytes, None).unwrap();
    assert_eq!(document.to_json().unwrap(), r#"{"a":1,"c":{"e":[null]}}"#);
    let fields: Value = doc!({ "n": 1 });
    let many: Vec<(String, Value)> = (0..500).map(|n| (format!("f{n}"), n.into())).collect();
    let many = Value::Map(many.into_iter().collect());
    assert_eq!(merged(&fields, &many).as_map().unwrap().len(), 501);
    let error = MergePatch::parse("{\"a\":\n1,}").unwrap_err();
    assert!(error.to_string().starts_with("JSON Merge Patch: JSON, line 2, column 3"), "{error}");
    let odd = Value::Map([(Value::from(1), Value::from(2))].into_iter().collect());
    assert!(MergePatch::from_value(doc!({ "a": odd })).is_err());
}

#[test]
fn mutated_documents_do_no_harm() {
    let mut random = super::hostile::Random::new("mutated_documents_do_no_harm");
    let names = Names::new();
    let documents = super::hostile::samples(&names);
    let patch = JsonPatch::parse(
        r#"[{"op":"copy","from":"/ints","path":"/more"},
            {"op":"add","path":"/ints/1","value":{"a":[1]}},
            {"op":"remove","path":"/id"},{"op":"move","from":"/tags","path":"/moved"},
            {"op":"test","path":"/score","value":300}]"#,
    )
    .unwrap();
    let merge = MergePatch::parse(r#"{"ints":null,"tags":"x","price":{"a":null,"b":1}}"#).unwrap();
    let mut patcher = Patcher::defining();
    for round in 0..10_000 {
        let mut bytes = documents[round % 2].clone();
        random.mutate(&mut bytes);
        let is_valid = validate(&bytes, Some(&names)).is_ok();
        let patched = patcher.apply_json_patch(&patch, &bytes, Some(&names), 1 << 20);
        let merged = patcher.apply_merge_patch(&merge, Some(&bytes), Some(&names));
        for bytes in [patched, merged].into_iter().flatten().filter(|_| is_valid) {
            validate(&bytes, Some(&names)).unwrap();
        }
    }
}

#[test]
fn a_patch_has_a_bound_of_operations() {
    let patch = |n: usize| {
        let operations = vec![r#"{"op":"add","path":"/a/-","value":1}"#; n].join(",");
        JsonPatch::parse(format!("[{operations}]"))
    };
    let mut value = doc!({ "a": [] });
    patch(10_000).unwrap().apply_to(&mut value).unwrap();
    assert_eq!(value.get("a").and_then(Value::as_array).map(<[Value]>::len), Some(10_000));
    let error = patch(10_001).unwrap_err().to_string();
    assert!(error.contains("at most 10000 operations, found 10001"), "{error}");
}
