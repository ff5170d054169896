//! Queries of values that JSON does not have, and of numbers in all their forms.

use super::{documents, path, selected};
use flagstone_doc::{DateTime, Document, JsonPath, Map, Names, ObjectId, Value, View, doc};

/// Returns how many elements of the array `items` the filter selects.
fn count(items: Value, filter: &str) -> usize {
    let path = path(&format!("$[?{filter}]"));
    let [first, second, third] = documents(&items).map(|document| document.query(&path).count());
    assert!(first == second && first == third, "{filter}");
    first
}

#[test]
fn numbers_are_compared_exactly_whatever_their_form() {
    let document = r#"[1,1.0,1.00,1e0,10e-1,0.99999999999999999999,1.00000000000000000001,
                      9007199254740993,9007199254740992,18446744073709551615,
                      18446744073709551616,-0,0.0,1e400,1e401]"#;
    for (filter, expected) in [
        ("@ == 1", "1 1.0 1.00 1e0 10e-1"),
        ("@ == 1.000", "1 1.0 1.00 1e0 10e-1"),
        ("@ > 0.5 && @ < 1", "0.99999999999999999999"),
        ("@ > 1 && @ < 2", "1.00000000000000000001"),
        ("@ == 9007199254740993", "9007199254740993"),
        ("@ == 9007199254740992.0", "9007199254740992"),
        ("@ == 18446744073709551615", "18446744073709551615"),
        ("@ > 18446744073709551615", "18446744073709551616 1e400 1e401"),
        ("@ == 0", "-0 0.0"),
        ("@ == -0.00", "-0 0.0"),
        ("@ >= 1e400", "1e400 1e401"),
        ("@ == 10e400", "1e401"),
    ] {
        assert_eq!(selected(&format!("$[?{filter}]"), document), expected, "{filter}");
    }
    let floats = || doc!([0.1, 1.0, 2.5, (f64::NAN), (f64::INFINITY), (f64::NEG_INFINITY)]);
    for (filter, expected) in [
        ("@ == 0.1", 1),
        ("@ == 1", 1),
        ("@ == 2.50", 1),
        // NaN equals itself and is less than all other numbers, as in the order of values.
        ("@ == $[3]", 1),
        ("@ < -1e400", 2),
        ("@ > 1e400", 1),
        ("length($) == 6 && @ <= 2.5", 5),
    ] {
        assert_eq!(count(floats(), filter), expected, "{filter}");
    }
}

#[test]
fn types_that_json_lacks_are_equal_to_themselves_and_datetimes_have_an_order() {
    let time = |micros| DateTime::from_micros(micros);
    let items = || {
        doc!([
            (time(5)),
            (time(7)),
            (vec![1_u8]),
            (vec![2_u8; 300]),
            (Value::Uuid([7; 16])),
            "x",
            5,
            (ObjectId::from_bytes([7; 12])),
        ])
    };
    for (filter, expected) in [
        ("@ == $[0]", 1),
        ("@ < $[1]", 1),
        ("@ <= $[1]", 2),
        ("@ > $[0]", 1),
        ("@ == $[2]", 1),
        ("@ <= $[2]", 1),
        ("@ < $[3]", 0),
        ("@ == $[3]", 1),
        ("@ == $[4]", 1),
        ("@ != $[4]", 7),
        ("@ == $[7]", 1),
        ("@ >= $[7]", 1),
        ("length(@) == 1", 1),
        ("search(@, '.')", 1),
        ("@ == 5", 1),
    ] {
        assert_eq!(count(items(), filter), expected, "{filter}");
    }
}

#[test]
fn arrays_and_maps_are_equal_by_content_whatever_the_order_of_fields() {
    let a = r#"{"a":1,"b":{"x":[1,2.0],"y":"t"},"c":[],"d":{}}"#;
    for (b, expected) in [
        (r#"{"d":{},"c":[],"b":{"y":"t","x":[1.0,2]},"a":1.0}"#, true),
        (r#"{"d":{},"c":[],"b":{"y":"t","x":[1.0,3]},"a":1.0}"#, false),
        (r#"{"d":{},"c":[],"b":{"y":"t","z":[1.0,2]},"a":1.0}"#, false),
        (r#"{"d":{},"c":{},"b":{"y":"t","x":[1.0,2]},"a":1.0}"#, false),
        (r#"{"d":{},"c":[0],"b":{"y":"t","x":[1.0,2]},"a":1.0}"#, false),
        (r#"{"c":[],"b":{"y":"t","x":[1.0,2]},"a":1.0}"#, false),
    ] {
        let found = selected("$[?$[0] == $[1]]", &format!("[{a},{b}]"));
        assert_eq!(!found.is_empty(), expected, "{b}");
    }
}

#[test]
fn a_pair_whose_key_is_not_text_is_passed_over() {
    let pairs =
        [(Value::from(1), doc!({ "x": 1 })), ("a".into(), 2.into()), ("b".into(), 3.into())];
    let document = doc!({ "m": (Value::Map(pairs.into_iter().collect())), "n": { "a": 2 } });
    for document in documents(&document) {
        let places = |query: &str| {
            let path = path(query);
            let nodes = document.query(&path);
            nodes.map(|node| node.location().unwrap().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(places("$.m.a"), "$['m']['a']");
        assert_eq!(places("$.m['1']"), "");
        assert_eq!(places("$.m[0]"), "");
        assert_eq!(places("$.m.*"), "$['m']['a'] $['m']['b']");
        assert_eq!(places("$..x"), "");
        assert_eq!(places("$[?length(@) == 2]"), "$['m']");
        assert_eq!(places("$[?@ == $.m]"), "$['m']");
        assert_eq!(places("$[?@ == $.n]"), "$['n']");
    }
    let mut other = Map::new();
    other.insert(1, "one");
    other.insert("a", 2);
    let mut same = Map::new();
    same.insert("a", 2.0);
    same.insert(1.0, "one");
    let equal = doc!([(Value::Map(other)), (Value::Map(same)), { "a": 2, "1": "one" }]);
    assert_eq!(count(equal, "@ == $[0]"), 2);
}

#[test]
fn a_first_value_and_the_nodes_of_a_view_agree() {
    let document = Document::from_json(r#"{"a":{"b":[1,2,3]}}"#).unwrap();
    let root = document.root();
    for (query, expected, is_single) in [
        ("$.a.b[1]", Some(2), true),
        ("$['a'][ 'b' ][-1]", Some(3), true),
        ("$.a.b[3]", None, true),
        ("$.a.b[0].c", None, true),
        ("$.a.b[*]", Some(1), false),
        ("$..[2]", Some(3), false),
        ("$.a.b[?@ > 3]", None, false),
    ] {
        let path = path(query);
        let first = path.first(&root).unwrap().and_then(|view| view.as_i64());
        assert_eq!((first, path.is_single()), (expected, is_single), "{query}");
        let node = path.nodes(&root).next().map(|node| node.unwrap().view());
        assert_eq!(node.and_then(|view| view.as_i64()), expected, "{query}");
    }
    // A part of a document is a root, too.
    let part = root.get("a").unwrap().unwrap();
    let second = path("$.b[1]").nodes(&part).next().unwrap().unwrap();
    assert_eq!(second.view().as_i64(), Some(2));
    assert_eq!(second.location().unwrap().to_string(), "$['b'][1]");
}

#[test]
fn a_path_is_shown_as_it_was_written() {
    let text = "$ ['a'] [0] .b";
    let path = JsonPath::parse(text).unwrap();
    assert_eq!((path.as_str(), path.to_string().as_str()), (text, text));
    assert_eq!(format!("{path:?}"), format!("JsonPath({text:?})"));
    assert_eq!(path, path.clone());
}

#[test]
fn names_that_the_table_does_not_know_select_nothing() {
    let names = Names::new();
    let mut bytes = Vec::new();
    flagstone_doc::Encoder::new().encode(&doc!({ "a": 1 }), Some(&names), &mut bytes).unwrap();
    let view = View::of(&bytes, Some(&names)).unwrap();
    assert_eq!(path("$.unknown").nodes(&view).count(), 0);
    assert_eq!(path("$..unknown").nodes(&view).count(), 0);
}
