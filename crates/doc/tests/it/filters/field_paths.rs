//! Field paths: their text, what they reach, and the keys of an index.

use super::both;
use crate::random::wide;
use flagstone_doc::{
    DEPTH_MAX, Direction, Document, FieldPath, IndexKeys, Names, Reached, Value, doc, sort_key,
};
use std::ops::ControlFlow;
use std::sync::Arc;

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).unwrap()
}

/// Returns what a path reaches, with `-` for what is missing.
fn reached(text: &str, json: &str) -> String {
    let path = path(text);
    let [inline, ids] = both(json).map(|document| {
        let mut out = Vec::new();
        let trace = path.reach(&document.root(), |reached| {
            out.push(match reached {
                Reached::Value(view) => view.to_string(),
                Reached::Missing => "-".to_owned(),
            });
            Ok(ControlFlow::Continue(()))
        });
        let trace = trace.unwrap();
        assert_eq!(trace.missing, out.iter().any(|one| one == "-"), "{text} of {json}");
        assert_eq!(trace.values, out.iter().filter(|one| *one != "-").count());
        (out.join(" "), trace.arrays)
    });
    assert_eq!(inline, ids, "{text} of {json}");
    inline.0
}

#[test]
fn an_array_that_steps_of_digits_reach_in_many_ways_is_crossed_once() {
    // Each `[{"0":..}]` is passed by one step or by two.
    assert_eq!(reached("a.0.0", r#"{"a":[{"0":[5]}]}"#), "[5] 5");
    let twice = r#"{"a":[{"0":[{"0":[5]}]}]}"#;
    assert_eq!(reached("a.0.0.0", twice), r#"{"0":[5]} [5] [5] 5"#);
    // So 50 in one another have 2^50 ways through them, and few ends.
    let nested = format!(r#"{{"a":{}7{}}}"#, r#"[{"0":"#.repeat(50), "}]".repeat(50));
    for (steps, sevens) in [(49, 0), (100, 1), (101, 0)] {
        let found = reached(&format!("a{}", ".0".repeat(steps)), &nested);
        let found: Vec<&str> = found.split(' ').collect();
        assert!(found.len() < 1000, "{steps}: {}", found.len());
        assert_eq!(found.iter().filter(|end| **end == "7").count(), sevens, "{steps}");
    }
}

#[test]
fn a_path_passes_through_arrays_one_level_at_a_time() {
    for (text, json, expected) in [
        ("a", r#"{"a":5}"#, "5"),
        ("a.b", r#"{"a":{"b":5}}"#, "5"),
        ("a", "{}", "-"),
        ("a.b", r#"{"a":{}}"#, "-"),
        ("a.b", r#"{"a":5}"#, "-"),
        ("a.b", r#"{"a":null}"#, "-"),
        ("a", r#"{"a":[1,2]}"#, "[1,2]"),
        ("a", r#"{"a":[]}"#, "[]"),
        ("a.b", r#"{"a":[{"b":1},{"b":[2,3]},{"c":4},5,[{"b":6}],{}]}"#, "1 [2,3] - -"),
        ("a.b", r#"{"a":[]}"#, ""),
        ("a.b", r#"{"a":[1,null,[{"b":1}]]}"#, ""),
        ("a.b.c", r#"{"a":[{"b":[{"c":1},{"c":2}]},{"b":{"c":3}},{"b":4}]}"#, "1 2 3 -"),
        ("a", "[]", ""),
        ("a", r#"[{"a":1},2]"#, "1"),
        ("a", "7", "-"),
        ("$", "7", "7"),
        ("$", "[7]", "[7]"),
    ] {
        assert_eq!(reached(text, json), expected, "{text} of {json}");
    }
}

#[test]
fn digits_are_a_position_or_the_name_of_a_field() {
    for (text, json, expected) in [
        ("a.1", r#"{"a":[5,6]}"#, "6"),
        ("a.2", r#"{"a":[5,6]}"#, ""),
        ("a.0", r#"{"a":{"0":7}}"#, "7"),
        ("a.0", r#"{"a":{}}"#, "-"),
        ("a.0", r#"{"a":[{"0":7},{"0":8},{"x":9}]}"#, r#"{"0":7} 7 8"#),
        ("a.0.b", r#"{"a":[{"b":1},{"b":2}]}"#, "1"),
        ("a.0.b", r#"{"a":[[{"b":1}],{"b":2}]}"#, "1"),
        ("a.01", r#"{"a":[5,6]}"#, ""),
        ("a.01", r#"{"a":{"01":6}}"#, "6"),
        ("$.a[1]", r#"{"a":[5,6]}"#, "6"),
        ("$.a[0]", r#"{"a":{"0":7}}"#, "-"),
        ("$.a[0]", r#"{"a":[{"0":7}]}"#, r#"{"0":7}"#),
        ("$.a['0']", r#"{"a":[5]}"#, ""),
        ("$.a['0']", r#"{"a":{"0":7}}"#, "7"),
        ("a.99999999999999999999999", r#"{"a":[5]}"#, ""),
    ] {
        assert_eq!(reached(text, json), expected, "{text} of {json}");
    }
}

#[test]
fn maps_with_keys_that_are_not_text_are_passed_like_others() {
    let pairs = [(Value::from(1), Value::from("one")), (Value::from("b"), Value::from(2))];
    let document = Document::from_value(&doc!({ "a": (Value::Map(pairs.into_iter().collect())) }));
    let document = document.unwrap();
    let mut found = 0;
    let trace = path("a.b").reach(&document.root(), |reached| {
        found += i64::from(matches!(reached, Reached::Value(view) if view.as_i64() == Some(2)));
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!((found, trace.unwrap().values), (1, 1));
}

#[test]
fn the_text_of_a_path_is_parsed_back() {
    for (text, shown) in [
        ("a.b", "a.b"),
        ("tags.0", "tags.0"),
        ("$.a.b", "a.b"),
        ("$['a']['b']", "a.b"),
        ("$.a[0].b", "$['a'][0]['b']"),
        ("$['a.b']", "$['a.b']"),
        ("$['0']", "$['0']"),
        ("$['$x'].a", "$['$x']['a']"),
        ("a.$x", "a.$x"),
        ("", ""),
        ("a..b", "a..b"),
        ("$", "$"),
        (r#"$["it's\n."]"#, r"$['it\'s\n.']"),
    ] {
        assert_eq!(path(text).to_string(), shown, "{text}");
        assert_eq!(path(shown), path(text), "{text}");
    }
    assert_ne!(path("a.0"), path("$.a[0]"));
    assert_ne!(path("a.0"), path("$.a['0']"));
    assert_eq!(FieldPath::of_names(["a", "b.c"]), path("$.a['b.c']"));
    assert_eq!(path("a").join(&path("b.0")), path("a.b.0"));
    assert_eq!(path("a").join(&FieldPath::root()), path("a"));
}

#[test]
fn a_path_of_many_values_is_refused_where_it_begins_to_be_one() {
    const ALONE: &str = "names and indexes from 0 on alone; a path passes through arrays by itself";
    for (text, position, expected) in [
        ("$.a[*]", 5, ALONE),
        ("$.a['*:?'].*", 12, ALONE),
        ("$..a", 3, ALONE),
        ("$.a[-1]", 5, ALONE),
        ("$.a[0,1]", 6, ALONE),
        ("$[?@.a]", 3, ALONE),
        ("$a", 2, "'.', '[' or the end of the query"),
        ("$.a[", 5, "a name in quotes, an index, a slice, '*' or a filter"),
    ] {
        let error = FieldPath::parse(text).unwrap_err();
        assert_eq!((error.position, error.expected), (position, expected), "{text}");
    }
    let deep = "a.".repeat(DEPTH_MAX);
    assert!(FieldPath::parse(&deep).is_err());
    assert!(FieldPath::parse(&deep[..deep.len() - 1]).is_ok());
    assert!(FieldPath::parse(&"a".repeat(65_537)).is_err());
}

#[test]
fn a_visit_that_breaks_ends_the_walk() {
    let [document, _] = both(r#"{"a":[{"b":1},{"b":2},{"b":3}]}"#);
    let mut seen = 0;
    let trace = path("a.b").reach(&document.root(), |_| {
        seen += 1;
        Ok(if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    assert_eq!((seen, trace.unwrap().values), (2, 2));
}

#[test]
fn a_path_finds_its_names_in_every_table() {
    let path = path("b.a");
    for first in ["a", "b", "x"] {
        let names = Arc::new(Names::new());
        names.intern(first);
        let mut bytes = Vec::new();
        let value = doc!({ "a": 1, "b": { "a": 2 } });
        flagstone_doc::Encoder::new().encode(&value, Some(&names), &mut bytes).unwrap();
        let document = Document::from_bytes(bytes, Some(names)).unwrap();
        let trace = path.reach(&document.root(), |reached| {
            assert!(matches!(reached, Reached::Value(view) if view.as_i64() == Some(2)));
            Ok(ControlFlow::Continue(()))
        });
        assert_eq!(trace.unwrap().values, 1, "{first}");
    }
}

#[test]
fn changes_above_and_below_a_path_overlap_it_whatever_the_positions() {
    for (a, b, expected) in [
        ("a.b", "a", true),
        ("a.b", "a.b.c", true),
        ("a.b", "a.0.b", true),
        ("$.a[3].b.c", "a.b", true),
        ("a.b", "a.c", false),
        ("a.b", "b", false),
        ("a", "$", true),
        ("$.a['0']", "a.0", true),
        ("ab", "a", false),
    ] {
        assert_eq!(path(a).overlaps(&path(b)), expected, "{a} and {b}");
        assert_eq!(path(b).overlaps(&path(a)), expected, "{b} and {a}");
    }
    assert!(path("a.b").starts_with(&path("a")) && !path("a").starts_with(&path("a.b")));
    assert!(path("$.a[0].b").starts_with(&path("a.0")) && !path("ab").starts_with(&path("a")));
}

/// Returns the keys of a path as values, with `-` for what is missing.
fn keys(text: &str, json: &str) -> (String, IndexKeys) {
    let shown = both(json).map(|document| {
        let mut keys = IndexKeys::new();
        keys.collect(&path("other"), &document.root()).unwrap();
        keys.collect(&path(text), &document.root()).unwrap();
        let all = keys.iter().map(|key| match key {
            [sort_key::MISSING] => "-".to_owned(),
            key => sort_key::decode(key, Direction::Ascending).unwrap().to_string(),
        });
        (all.collect::<Vec<_>>().join(" "), keys)
    });
    let [inline, ids] = shown;
    assert_eq!(inline.0, ids.0, "{text} of {json}");
    ids
}

#[test]
fn an_index_has_the_distinct_keys_of_a_path_and_one_at_least() {
    for (text, json, expected, is_multi) in [
        ("a", r#"{"a":5}"#, "5", false),
        ("a", r#"{"a":null}"#, "null", false),
        ("a", "{}", "-", false),
        ("a", r#"{"a":[3,1,3,1.0]}"#, "1 3", true),
        ("a", r#"{"a":[7]}"#, "7", true),
        ("a", r#"{"a":[]}"#, "[]", true),
        ("a", r#"{"a":[[2,1],[],"x"]}"#, r#""x" [] [2,1]"#, true),
        ("a", r#"{"a":{"y":1,"x":2}}"#, r#"{"x":2,"y":1}"#, false),
        ("a.b", r#"{"a":[]}"#, "-", true),
        ("a.b", r#"{"a":[1]}"#, "-", true),
        ("a.b", r#"{"a":[{"b":null},{"b":[1,2]},{"c":1}]}"#, "- null 1 2", true),
        ("a.0", r#"{"a":[1,2]}"#, "1", true),
    ] {
        let (shown, keys) = keys(text, json);
        assert_eq!(shown, expected, "{text} of {json}");
        assert_eq!(keys.is_multi(), is_multi, "{text} of {json}");
        assert_eq!(keys.has_missing(), expected.contains('-'), "{text} of {json}");
        assert_eq!(keys.has_value(), expected != "-", "{text} of {json}");
        assert_eq!(keys.len(), keys.iter().len());
    }
}

#[test]
fn keys_are_collected_up_to_a_limit() {
    let of = |items: &mut dyn Iterator<Item = i64>| {
        Document::from_value(&doc!({ "a": (items.collect::<Value>()) })).unwrap()
    };
    let (same, many) = (of(&mut (0..50_000).map(|n| n % 7)), of(&mut (0..50_000)));
    let (path, mut keys) = (path("a"), IndexKeys::new());
    assert_eq!(keys.collect_at_most(7, &path, &same.root()), Ok(true));
    assert_eq!((keys.len(), keys.is_multi()), (7, true));
    assert_eq!(keys.collect_at_most(6, &path, &same.root()), Ok(false));
    assert_eq!(keys.collect_at_most(10_000, &path, &many.root()), Ok(false));
    assert!(keys.len() < 20_002, "{} keys of 50,000", keys.len());
    assert_eq!(keys.collect_at_most(50_000, &path, &many.root()), Ok(true));
    assert_eq!(keys.len(), 50_000);
    let numbers = keys
        .iter()
        .map(|key| sort_key::decode(key, Direction::Ascending).unwrap().as_i64().unwrap());
    assert!(numbers.eq(0..50_000));
    keys.collect(&path, &of(&mut [3, 1].into_iter()).root()).unwrap();
    assert_eq!(keys.len(), 2);
}

#[test]
fn the_places_of_arrays_are_counted_in_steps() {
    for (text, json, bits) in [
        ("a.b", r#"{"a":{"b":1}}"#, 0),
        ("a.b", r#"{"a":[{"b":1}]}"#, 0b10),
        ("a.b", r#"{"a":[]}"#, 0b10),
        ("a.b", r#"{"a":{"b":[]}}"#, 0b100),
        ("a.b", r#"[{"a":[{"b":[1]}]}]"#, 0b111),
        ("a.0", r#"{"a":[7]}"#, 0b10),
        ("$", "[1]", 1),
    ] {
        assert_eq!(keys(text, json).1.arrays().bits(), bits, "{text} of {json}");
    }
    let deep = format!("{}1{}", r#"{"a":"#.repeat(80), "}".repeat(80)).replace('1', "[1]");
    assert_eq!(keys(&["a"; 80].join("."), &deep).1.arrays().bits(), 1 << 63);
}

/// A covered query gave an integer of 64 bits back as one of 32.
#[test]
fn the_key_of_a_wide_integer_is_not_faithful() {
    let long = wide(|to| to.long(1));
    let document = Document::from_value(&doc!({ "a": 1, "b": (long.clone()), "c": [1, (long)] }));
    let (document, mut keys) = (document.unwrap(), IndexKeys::new());
    for (path, expected) in [("a", true), ("b", false), ("c", false)] {
        keys.collect(&self::path(path), &document.root()).unwrap();
        assert_eq!((keys.len(), keys.is_faithful(0)), (1, expected), "{path}");
    }
}

#[test]
fn a_key_is_faithful_if_its_value_has_the_text_of_the_document() {
    for (json, expected) in [
        ("[1,\"x\",null,true,18446744073709551615,-7.25]", true),
        ("[1.10]", false),
        ("[1.0]", false),
        ("[1e3]", false),
        ("[0.00]", false),
        ("[-0]", false),
        ("[0.00000000000000001]", true),
        ("[0.000000000000000001]", false),
        ("[[1]]", false),
        ("[1.1,1.10]", false),
    ] {
        let (shown, keys) = keys("a", &format!("{{\"a\":{json}}}"));
        let are_faithful = (0..keys.len()).all(|index| keys.is_faithful(index));
        assert_eq!(are_faithful, expected, "{json}");
        if expected {
            let mut values = Document::from_json(json).unwrap().to_value();
            if let Value::Array(items) = &mut values {
                items.sort();
            }
            assert_eq!(format!("[{}]", shown.replace(' ', ",")), values.to_string());
        }
    }
}

#[test]
fn a_directed_key_is_that_of_its_value() {
    for value in [doc!(7), doc!("a\0b"), doc!([1, "x"])] {
        for direction in [Direction::Ascending, Direction::Descending] {
            let (mut ascending, mut turned, mut expected) = (vec![], vec![], vec![]);
            sort_key::encode(&value, Direction::Ascending, &mut ascending);
            sort_key::directed(&ascending, direction, &mut turned);
            sort_key::encode(&value, direction, &mut expected);
            assert_eq!(turned, expected);
        }
    }
}

#[test]
fn malformed_bytes_are_an_error_wherever_a_path_meets_them() {
    let json = r#"{"a":[{"b":[1,"text",null]},{"b":{"c":1.5}}],"x":[[],{}]}"#;
    let mut keys = IndexKeys::new();
    for document in both(json) {
        for at in 0..document.as_bytes().len() {
            for flip in [1, 0x80, 0xFF] {
                let mut bytes = document.as_bytes().to_vec();
                bytes[at] ^= flip;
                let names = document.names().map(|names| &**names);
                let Ok(root) = flagstone_doc::View::of(&bytes, names) else { continue };
                for text in ["a.b", "a.b.c", "a.1.b", "x", "x.0", "$"] {
                    let result = keys.collect(&path(text), &root);
                    if flagstone_doc::validate(&bytes, names).is_ok() {
                        assert!(result.is_ok(), "{text} with byte {at} flipped");
                    }
                }
            }
        }
    }
}
