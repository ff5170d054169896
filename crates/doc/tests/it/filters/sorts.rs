//! Sorts: their text, and the order that they give.

use super::both;
use crate::random::check;
use flagstone_doc::{Direction, Document, FieldPath, IndexKeys, SortSpec, Value, doc};

fn key(sort: &SortSpec, document: &Document) -> Vec<u8> {
    let (mut keys, mut out) = (IndexKeys::new(), Vec::new());
    sort.key(&document.root(), &mut keys, &mut out).unwrap();
    out
}

#[test]
fn documents_come_in_the_order_of_their_keys() {
    for (text, line) in [
        (
            "a",
            vec![
                "{}",
                r#"{"a":null}"#,
                r#"{"a":-1}"#,
                r#"{"a":[9,0.5]}"#,
                r#"{"a":1}"#,
                r#"{"a":"x"}"#,
                r#"{"a":[]}"#,
            ],
        ),
        (
            "-a",
            vec![
                r#"{"a":"x"}"#,
                r#"{"a":[0,9]}"#,
                r#"{"a":7.5}"#,
                r#"{"a":7}"#,
                r#"{"a":null}"#,
                "{}",
            ],
        ),
        (
            "a,-b",
            vec![r#"{"a":1,"b":"y"}"#, r#"{"a":1,"b":"x"}"#, r#"{"a":1}"#, r#"{"a":2,"b":"z"}"#],
        ),
        ("-a.b", vec![r#"{"a":[{"b":1},{"b":5}]}"#, r#"{"a":{"b":4}}"#, r#"{"a":[]}"#]),
        (r#"{"b":-1,"a":1}"#, vec![r#"{"b":2,"a":1}"#, r#"{"b":2,"a":2}"#, r#"{"b":1,"a":0}"#]),
    ] {
        let sort = SortSpec::parse(text).unwrap();
        let keys: Vec<_> = line
            .iter()
            .map(|json| {
                let [inline, ids] = both(json).map(|document| key(&sort, &document));
                assert_eq!(inline, ids);
                ids
            })
            .collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{text}");
    }
    let equal = SortSpec::parse("a").unwrap();
    assert_eq!(key(&equal, &both(r#"{"a":1}"#)[0]), key(&equal, &both(r#"{"a":[5,1.0]}"#)[0]));
}

#[test]
fn a_sort_has_a_short_text_and_one_of_json() {
    for (text, written) in [
        ("a", r#"{"a":1}"#),
        ("-score, +created", r#"{"score":-1,"created":1}"#),
        (r#" {"a.b":-1.0} "#, r#"{"a.b":-1}"#),
        (r#"{"-a,b":1}"#, r#"{"-a,b":1}"#),
        ("$['x.y']", r#"{"$['x.y']":1}"#),
        ("-$['a,b'].c,$[\",'\"]", r#"{"a,b.c":-1,",'":1}"#),
        ("-$key", r#"{"$key":-1}"#),
        ("a, $key", r#"{"a":1,"$key":1}"#),
        (r#"{"a":-1,"$key":-1}"#, r#"{"a":-1,"$key":-1}"#),
        ("$['$key'],key", r#"{"$['$key']":1,"key":1}"#),
        ("size (cm,-year", r#"{"size (cm":1,"year":-1}"#),
        ("size [cm, year)", r#"{"size [cm":1,"year)":1}"#),
    ] {
        let sort = SortSpec::parse(text).unwrap();
        assert_eq!(sort.to_string(), written);
        assert_eq!(written.parse(), Ok(sort), "{text}");
    }
    for (text, offset, expected) in [
        ("", 0, "a path"),
        ("a,", 2, "a path"),
        ("a,-a", 2, "each path once"),
        ("$['a,b'], $['a,b']", 9, "each path once"),
        ("{}", 0, "at least one path"),
        (r#"{"a":2}"#, 5, "1 or -1"),
        (r#"{"a":1,"$x":1}"#, 7, "a path or $key (JSONPath"),
        ("$kye", 0, "a path or $key (JSONPath"),
        ("$key,a,-$key", 7, "each path once"),
        ("$key,a,a", 7, "each path once"),
        (r#"{"$key":2}"#, 8, "1 or -1"),
        (r#"{"a":1,"$.a":1}"#, 7, "each path once"),
        ("{\"a\":\"asc\"}", 5, "1 or -1"),
    ] {
        let error = SortSpec::parse(text).unwrap_err();
        assert_eq!(error.offset, Some(offset), "{text}: {error}");
        assert!(error.expected.starts_with(expected), "{text}: {error}");
    }
    let many: Vec<_> = (0..33).map(|i| format!("p{i}")).collect();
    assert!(SortSpec::parse(&many.join(",")).is_err());
    assert!(SortSpec::parse(&many[1..].join(",")).is_ok());
    assert!(SortSpec::new([]).is_err());
    let path = FieldPath::parse("a").unwrap();
    let sort = SortSpec::new([(path, Direction::Descending)]).unwrap();
    assert_eq!(sort, SortSpec::parse("-a").unwrap());
}

/// The primary key is unique, so what follows it decides nothing.
#[test]
fn the_primary_key_ends_a_sort_and_is_no_part_of_the_key() {
    let path = |text| (FieldPath::parse(text).unwrap(), Direction::Ascending);
    let primary = (FieldPath::primary_key(), Direction::Descending);
    for (text, parts) in [
        ("-$key,a,b", vec![primary.clone()]),
        (r#"{"a":1,"$key":-1,"b":1}"#, vec![path("a"), primary.clone()]),
        ("a,-$key", vec![path("a"), primary.clone()]),
    ] {
        let sort = SortSpec::parse(text).unwrap();
        assert_eq!(sort.parts(), parts, "{text}");
        let with_more = parts.iter().cloned().chain([path("c")]);
        assert_eq!(SortSpec::new(with_more).unwrap(), sort, "{text}");
        let [inline, ids] = both(r#"{"a":1,"b":2,"$key":3,"key":4}"#).map(|it| key(&sort, &it));
        let fields = parts.len() - 1;
        let expected = if fields == 0 {
            vec![]
        } else {
            key(&SortSpec::parse("a").unwrap(), &both(r#"{"a":1}"#)[0])
        };
        assert_eq!((&inline, &ids), (&expected, &expected), "{text}");
    }
}

/// Returns the value by which a document is sorted; `None` for a missing one.
fn sorted_by(document: &Value, direction: Direction) -> Option<Value> {
    let value = document.get("a");
    let items = value.and_then(Value::as_array).filter(|items| !items.is_empty());
    match (items, direction) {
        (None, _) => value.cloned(),
        (Some(items), Direction::Ascending) => items.iter().min().cloned(),
        (Some(items), Direction::Descending) => items.iter().max().cloned(),
    }
}

#[test]
fn keys_compare_as_values_do() {
    let documents = (super::random::document(), super::random::document());
    check("sorts", &documents, 2000, |(a, b)| {
        for direction in [Direction::Ascending, Direction::Descending] {
            let path = FieldPath::parse("a").unwrap();
            let sort = SortSpec::new([(path, direction)]).unwrap();
            let of = |value: &Value| key(&sort, &Document::from_value(value).unwrap());
            let expected = sorted_by(&a, direction).cmp(&sorted_by(&b, direction));
            let expected =
                if direction == Direction::Descending { expected.reverse() } else { expected };
            assert_eq!(of(&a).cmp(&of(&b)), expected, "{a} and {b}");
        }
    });
    let null = SortSpec::parse("a").unwrap();
    let of = |value: Value| key(&null, &Document::from_value(&value).unwrap());
    assert!(of(doc!({})) < of(doc!({ "a": null })));
}
