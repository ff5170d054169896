//! Projections: their text, and what they keep.

use super::both;
use crate::random::check;
use flagstone_doc::{
    Document, FieldPath, JsonMode, Names, Projection, Projector, SortSpec, Value, View, doc,
    validate,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// Returns the projected document as JSON, from all ways to project it.
fn projected(text: &str, json: &str) -> String {
    let projection = Projection::parse(text).unwrap();
    let [inline, ids] = both(json).map(|document| {
        let (mut out, mut projector) = (Vec::new(), Projector::new());
        projector.json(&projection, &document.root(), JsonMode::Plain, &mut out).unwrap();
        let names = document.names().map(|names| &**names);
        for target in [names, None, Some(&Names::new())] {
            let mut bytes = Vec::new();
            projector.apply(&projection, &document.root(), target, &mut bytes).unwrap();
            let value = validate(&bytes, target).unwrap().to_value().unwrap();
            assert_eq!(value.to_string().as_bytes(), &*out, "{text} of {json}");
        }
        String::from_utf8(out).unwrap()
    });
    assert_eq!(inline, ids, "{text} of {json}");
    ids
}

#[test]
fn fields_are_kept_or_removed_in_their_order() {
    let json = r#"{"b":1,"a":{"x":1.10,"y":[2]},"c":[{"x":1,"y":2},5,[{"x":3}],{}],"d":null}"#;
    for (text, expected) in [
        ("a,b", r#"{"b":1,"a":{"x":1.10,"y":[2]}}"#),
        (r#"{"d":true}"#, r#"{"d":null}"#),
        ("a.x", r#"{"a":{"x":1.10}}"#),
        ("a.z,b.z,d.z,zz", r#"{"a":{}}"#),
        ("c.x", r#"{"c":[{"x":1},[{"x":3}],{}]}"#),
        (r#"{"c.x":1,"b":1}"#, r#"{"b":1,"c":[{"x":1},[{"x":3}],{}]}"#),
        (r#"{"a":{"y":1,"x":1}}"#, r#"{"a":{"x":1.10,"y":[2]}}"#),
        ("-a,-c", r#"{"b":1,"d":null}"#),
        (
            r#"{"a.x":0,"c":{"y":false},"d":0}"#,
            r#"{"b":1,"a":{"y":[2]},"c":[{"x":1},5,[{"x":3}],{}]}"#,
        ),
        ("-b.z,-a.x.z", json),
        ("{}", json),
        (r#"{"zz":1}"#, "{}"),
    ] {
        assert_eq!(projected(text, json), expected, "{text}");
    }
    assert_eq!(projected("x", r#"[{"x":1,"y":2},3]"#), r#"[{"x":1}]"#);
    assert_eq!(projected("-x", r#"[{"x":1,"y":2},3]"#), r#"[{"y":2},3]"#);
    assert_eq!(projected("x", "7"), "7");
    assert_eq!(projected("a.0", r#"{"a":{"0":1,"1":2}}"#), r#"{"a":{"0":1}}"#);
    assert_eq!(projected("a.0", r#"{"a":[1,2]}"#), r#"{"a":[]}"#);
    assert_eq!(
        projected("$['a,b'].c, d", r#"{"a,b":{"c":1,"x":2},"a":3,"d":4}"#),
        r#"{"a,b":{"c":1},"d":4}"#
    );
    assert_eq!(projected("-$['a,b']", r#"{"a,b":1,"a":2}"#), r#"{"a":2}"#);
    assert_eq!(projected(r#"{"$['a.b']":1}"#, r#"{"a.b":1,"a":{"b":2}}"#), r#"{"a.b":1}"#);
}

#[test]
fn keys_that_are_not_text_are_kept_unless_others_are_named() {
    let pairs = [(Value::from(1), doc!({ "x": 1 })), (Value::from("a"), doc!({ "x": 2, "y": 3 }))];
    let value = doc!({ "m": (Value::Map(pairs.into_iter().collect())) });
    let document = Document::from_value(&value).unwrap();
    let project = |text: &str| {
        let mut bytes = Vec::new();
        let projection = Projection::parse(text).unwrap();
        Projector::new().apply(&projection, &document.root(), None, &mut bytes).unwrap();
        validate(&bytes, None).unwrap().to_value().unwrap().to_string()
    };
    assert_eq!(project("m.a.x"), r#"{"m":{"a":{"x":2}}}"#);
    assert_eq!(project("-m.a.x"), r#"{"m":{1:{"x":1},"a":{"y":3}}}"#);
    assert_eq!(project("m"), value.to_string());
    let mut out = Vec::new();
    let all = Projection::everything();
    Projector::new().json(&all, &document.root(), JsonMode::Plain, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"m":{"$pairs":[[1,{"x":1}],["a",{"x":2,"y":3}]]}}"#
    );
}

#[test]
fn a_projection_defines_no_names() {
    let document = Document::from_json(r#"{"a":{"b":1},"c":2}"#).unwrap();
    let names = Arc::new(Names::new());
    let view = View::of(document.as_bytes(), Some(&names)).unwrap();
    let (mut out, mut projector) = (Vec::new(), Projector::new());
    projector.json(&Projection::parse("a.b").unwrap(), &view, JsonMode::Plain, &mut out).unwrap();
    assert_eq!((&*out, names.len()), (&br#"{"a":{"b":1}}"#[..], 0));
    names.intern("a");
    let mut bytes = Vec::new();
    let used = projector.apply(&Projection::everything(), &view, Some(&names), &mut bytes);
    assert_eq!((used.unwrap(), names.len()), (1, 1), "a name defined since is used");
}

#[test]
fn a_projection_that_is_not_well_formed_is_refused() {
    const ONCE: &str = "each path once, and no path together with a part of it";
    for (text, offset, expected) in [
        ("a,a", 2, ONCE),
        ("a, b.c, b", 7, ONCE),
        ("a.b,a.b.c", 4, ONCE),
        ("a,-b", 2, "fields to keep or fields to remove, not both"),
        ("", 0, "a path"),
        ("a,,b", 2, "a path"),
        ("$['a,b'],", 9, "a path"),
        ("$", 0, "a path of names, which passes through arrays by itself"),
        ("a,$.b[0]", 2, "a path of names, which passes through arrays by itself"),
        ("$x", 0, "a path (JSONPath"),
        (r#"{"a":1,"b":0}"#, 7, "fields to keep or fields to remove, not both"),
        (r#"{"a":{"b":1,"c":2}}"#, 16, "0, 1, false, true, or a map of these"),
        (r#"{"a":{}}"#, 5, "0, 1, false, true, or a map of these"),
        (r#"{"a":{"b":1},"a.b":1}"#, 13, ONCE),
        (r#"{"a":1"#, 6, "',' or '}'"),
    ] {
        let error = Projection::parse(text).unwrap_err();
        assert_eq!(error.offset, Some(offset), "{text}: {error}");
        assert!(error.expected.starts_with(expected), "{text}: {error}");
    }
    let path = |text: &str| FieldPath::parse(text).unwrap();
    assert!(Projection::include([path("a"), path("a.b")]).is_err());
    let removed = Projection::exclude([path("b"), path("a.c")]).unwrap();
    assert_eq!(removed.to_string(), r#"{"b":0,"a.c":0}"#);
    assert_eq!(removed.to_string().parse(), Ok(removed.clone()));
    assert!(!removed.is_inclusion() && removed.paths() == [path("b"), path("a.c")]);
    assert!(Projection::everything().is_everything() && !removed.is_everything());
    let many = (0..10_001).map(|i| path(&format!("p{i}")));
    assert!(Projection::include(many).is_err());
}

#[test]
fn a_path_of_nested_maps_has_at_most_512_steps() {
    let steps = vec!["a"; 300].join(".");
    let expected = "expected a path of at most 512 steps";
    let refused = Projection::parse(&format!(r#"{{"{steps}":{{"{steps}":1}}}}"#)).unwrap_err();
    assert!(refused.to_string().contains(expected), "{refused}");
    // Deep enough to overflow the stack where the tree of paths is walked.
    let deep = format!("{}1{}", format!(r#"{{"{steps}":"#).repeat(250), "}".repeat(250));
    assert!(Projection::parse(&deep).unwrap_err().to_string().contains(expected));
}

/// A second projection, path by path, of values in memory.
fn reference(value: &Value, paths: &[Vec<&str>], keeps: bool) -> Option<Value> {
    match value {
        Value::Map(map) => {
            let pairs = map.iter().filter_map(|(key, value)| {
                let name = key.as_str().unwrap();
                let below: Vec<_> = paths.iter().filter(|path| path[0] == name).collect();
                if below.iter().any(|path| path.len() == 1) || below.is_empty() {
                    return (below.is_empty() != keeps).then(|| (key.clone(), value.clone()));
                }
                let below: Vec<_> = below.iter().map(|path| path[1..].to_vec()).collect();
                Some((key.clone(), reference(value, &below, keeps)?))
            });
            Some(Value::Map(pairs.collect()))
        }
        Value::Array(items) => {
            let kept = items.iter().filter_map(|item| reference(item, paths, keeps));
            Some(kept.collect())
        }
        scalar => (!keeps).then(|| scalar.clone()),
    }
}

#[test]
fn a_projection_agrees_with_one_in_memory() {
    let paths = vec(prop::sample::select(vec!["a", "b", "a.b", "b.a", "a.a.b", "b.b", "c"]), 1..4);
    let input = (super::random::document(), paths, any::<bool>());
    check("projections", &input, 1500, |(document, paths, keeps)| {
        let sign = if keeps { "" } else { "-" };
        let text = paths.iter().map(|path| format!("{sign}{path}")).collect::<Vec<_>>().join(",");
        if Projection::parse(&text).is_err() {
            return;
        }
        let steps: Vec<Vec<_>> = paths.iter().map(|path| path.split('.').collect()).collect();
        let expected = reference(&document, &steps, keeps).unwrap();
        assert_eq!(projected(&text, &document.to_string()), expected.to_string());
    });
}

/// The name without a character was printed as no path.
#[test]
fn projections_and_sorts_by_the_empty_name_come_back_from_their_text() {
    for text in ["$['']", "a,$['']", "$[''].b"] {
        let projection = Projection::parse(text).unwrap().to_string();
        assert_eq!(Projection::parse(&projection).unwrap().to_string(), projection);
        let sort = SortSpec::parse(text).unwrap();
        assert_eq!(SortSpec::parse(&sort.to_string()), Ok(sort));
    }
}
