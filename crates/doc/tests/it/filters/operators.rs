//! Each operator, by examples.

use super::{both, reference};
use flagstone_doc::{Document, FieldPath, Filter, JsonMode, JsonOptions, doc, json};

/// Asserts which of the documents match, for names inside and ids, and that the reference agrees.
#[track_caller]
fn check(filter: &str, matching: &[&str], others: &[&str]) {
    let parsed = Filter::parse(filter).unwrap();
    let matcher = parsed.compile().unwrap();
    let again = Filter::parse(&parsed.to_string()).unwrap().compile().unwrap();
    let all =
        matching.iter().map(|json| (json, true)).chain(others.iter().map(|json| (json, false)));
    for (json, expected) in all {
        for document in both(json) {
            let found = matcher.matches(&document.root()).unwrap();
            assert_eq!(found, expected, "{filter} of {json}");
            assert_eq!(again.matches(&document.root()).unwrap(), expected, "printed: {parsed}");
        }
        if !filter.contains("{\"$date") && !filter.contains("[0]") {
            let (filter, document) = (json::parse(filter).unwrap(), json::parse(json).unwrap());
            assert_eq!(reference::matches(&filter, &document), expected, "{filter} of {json}");
        }
    }
}

#[test]
fn equality_is_by_value_and_type() {
    check(
        r#"{"a":1}"#,
        &[r#"{"a":1}"#, r#"{"a":1.0}"#, r#"{"a":10e-1}"#, r#"{"a":[5,1]}"#, r#"{"a":[1.00]}"#],
        &[
            r#"{"a":"1"}"#,
            r#"{"a":[[1]]}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":true}"#,
            "{}",
            r#"{"b":1}"#,
        ],
    );
    check(
        r#"{"a":"x"}"#,
        &[r#"{"a":"x"}"#, r#"{"a":["y","x"]}"#],
        &[r#"{"a":"X"}"#, r#"{"a":"xx"}"#],
    );
    check(r#"{"a":{"$eq":true}}"#, &[r#"{"a":true}"#], &[r#"{"a":1}"#, r#"{"a":"true"}"#]);
    check(
        r#"{"a":[1,2]}"#,
        &[r#"{"a":[1,2]}"#, r#"{"a":[[1,2],3]}"#, r#"{"a":[1.0,2]}"#],
        &[r#"{"a":[2,1]}"#, r#"{"a":[1,2,3]}"#, r#"{"a":1}"#],
    );
    check(
        r#"{"a":{"x":1,"y":2}}"#,
        &[r#"{"a":{"x":1,"y":2}}"#, r#"{"a":{"y":2.0,"x":1}}"#, r#"{"a":[0,{"x":1,"y":2}]}"#],
        &[r#"{"a":{"x":1}}"#, r#"{"a":{"x":1,"y":2,"z":3}}"#],
    );
    check(r#"{"a":[]}"#, &[r#"{"a":[]}"#, r#"{"a":[[]]}"#], &["{}", r#"{"a":[1]}"#, r#"{"a":{}}"#]);
    check(r#"{"a":{}}"#, &[r#"{"a":{}}"#], &["{}", r#"{"a":[]}"#, r#"{"a":{"b":1}}"#]);
}

#[test]
fn null_equals_what_is_missing() {
    let null = [r#"{"a":{"b":null}}"#, r#"{"a":{}}"#, "{}", r#"{"a":7}"#, r#"{"a":[{"b":1},{}]}"#];
    let not_null = [r#"{"a":{"b":1}}"#, r#"{"a":[]}"#, r#"{"a":[7]}"#, r#"{"a":[{"b":0}]}"#];
    for filter in [
        r#"{"a.b":null}"#,
        r#"{"a.b":{"$lte":null}}"#,
        r#"{"a.b":{"$gte":null}}"#,
        r#"{"a.b":{"$in":[2,null]}}"#,
    ] {
        check(filter, &null, &not_null);
    }
    check(r#"{"a.b":{"$ne":null}}"#, &not_null, &null);
    check(r#"{"a.b":{"$nin":[null]}}"#, &not_null, &null);
    check(r#"{"a.b":{"$gt":null}}"#, &[], &null);
    check(r#"{"a":null}"#, &[r#"{"a":[null]}"#], &[r#"{"a":[]}"#]);
}

#[test]
fn comparisons_stay_within_a_type() {
    check(
        r#"{"a":{"$gt":5}}"#,
        &[r#"{"a":6}"#, r#"{"a":5.000001}"#, r#"{"a":[1,9]}"#, r#"{"a":1e400}"#],
        &[r#"{"a":5}"#, r#"{"a":"6"}"#, r#"{"a":[5]}"#, r#"{"a":{}}"#, r#"{"a":true}"#, "{}"],
    );
    check(
        r#"{"a":{"$lt":5}}"#,
        &[r#"{"a":-1e400}"#, r#"{"a":4}"#],
        &[r#"{"a":null}"#, r#"{"a":5}"#],
    );
    check(
        r#"{"a":{"$gte":"b"}}"#,
        &[r#"{"a":"b"}"#, r#"{"a":"ba"}"#],
        &[r#"{"a":"a"}"#, r#"{"a":9}"#],
    );
    check(r#"{"a":{"$lte":false}}"#, &[r#"{"a":false}"#], &[r#"{"a":true}"#, r#"{"a":null}"#]);
    check(
        r#"{"a":{"$gt":[1,2]}}"#,
        &[r#"{"a":[1,3]}"#, r#"{"a":[1,2,0]}"#, r#"{"a":[0,[2]]}"#],
        &[r#"{"a":[1,2]}"#, r#"{"a":[0,9]}"#, r#"{"a":3}"#],
    );
    check(
        r#"{"a":{"$lt":{"x":2}}}"#,
        &[r#"{"a":{"x":1}}"#, r#"{"a":{}}"#, r#"{"a":{"w":9}}"#],
        &[r#"{"a":{"x":2}}"#, r#"{"a":1}"#],
    );
}

#[test]
fn numbers_compare_exactly_whatever_their_form() {
    check(r#"{"a":1.1}"#, &[r#"{"a":1.10}"#, r#"{"a":11e-1}"#], &[r#"{"a":1.1000000000000001}"#]);
    check(r#"{"a":0}"#, &[r#"{"a":-0}"#, r#"{"a":0.000}"#, r#"{"a":0e999}"#], &[r#"{"a":1e-400}"#]);
    check(
        r#"{"a":{"$gt":18446744073709551615}}"#,
        &[r#"{"a":18446744073709551616}"#, r#"{"a":18446744073709551615.5}"#, r#"{"a":1e20}"#],
        &[r#"{"a":18446744073709551615}"#, r#"{"a":18446744073709551614}"#, r#"{"a":-1e20}"#],
    );
    check(
        r#"{"a":{"$gte":9007199254740993}}"#,
        &[r#"{"a":9007199254740993}"#, r#"{"a":9007199254740993.0}"#],
        &[r#"{"a":9007199254740992}"#, r#"{"a":9007199254740992.9}"#],
    );
    check(r#"{"a":1e400}"#, &[r#"{"a":10e399}"#], &[r#"{"a":1e401}"#, r#"{"a":1e308}"#]);
    check(
        r#"{"a":{"$lt":1e400,"$gt":-1e-400}}"#,
        &[r#"{"a":0}"#, r#"{"a":9e399}"#],
        &[r#"{"a":1e400}"#, r#"{"a":-1e-399}"#],
    );
    check(r#"{"a":{"$in":[1.0,2]}}"#, &[r#"{"a":1}"#, r#"{"a":2.00}"#], &[r#"{"a":1.5}"#]);
}

#[test]
fn sets_of_values_are_equalities() {
    check(
        r#"{"a":{"$in":["x",3,[1],null]}}"#,
        &[r#"{"a":3}"#, r#"{"a":["y","x"]}"#, r#"{"a":[1]}"#, r#"{"a":[[1]]}"#, "{}"],
        &[r#"{"a":1}"#, r#"{"a":"y"}"#, r#"{"a":[]}"#],
    );
    check(r#"{"a":{"$in":[]}}"#, &[], &["{}", r#"{"a":1}"#]);
    check(r#"{"a":{"$nin":["x",3]}}"#, &[r#"{"a":1}"#, "{}"], &[r#"{"a":3}"#, r#"{"a":[1,"x"]}"#]);
    check(
        r#"{"a":{"$all":[1,"x"]}}"#,
        &[r#"{"a":["x",2,1]}"#],
        &[r#"{"a":[1]}"#, r#"{"a":1}"#, r#"{"a":[[1,"x"]]}"#],
    );
    check(r#"{"a":{"$all":[1]}}"#, &[r#"{"a":1}"#, r#"{"a":[1,2]}"#], &[r#"{"a":2}"#]);
    check(r#"{"a":{"$all":[[1,2]]}}"#, &[r#"{"a":[1,2]}"#, r#"{"a":[[1,2]]}"#], &[r#"{"a":[2]}"#]);
    check(r#"{"a":{"$all":[]}}"#, &[], &[r#"{"a":[]}"#, "{}"]);
}

#[test]
fn a_field_exists_if_it_has_a_value_even_null() {
    let there = [r#"{"a":{"b":null}}"#, r#"{"a":{"b":[]}}"#, r#"{"a":[{},{"b":1}]}"#];
    let missing = ["{}", r#"{"a":1}"#, r#"{"a":[]}"#, r#"{"a":[{}]}"#, r#"{"a":[1]}"#];
    check(r#"{"a.b":{"$exists":true}}"#, &there, &missing);
    check(r#"{"a.b":{"$exists":false}}"#, &missing, &there);
}

#[test]
fn types_have_our_names_and_those_of_mongodb() {
    for (names, json) in [
        (["null", "null"], "null"),
        (["bool", "bool"], "true"),
        (["number", "number"], "1e400"),
        (["text", "string"], "\"\""),
        (["array", "array"], "[]"),
        (["map", "object"], "{}"),
    ] {
        let document = format!("{{\"a\":{json}}}");
        for name in names {
            check(&format!(r#"{{"a":{{"$type":"{name}"}}}}"#), &[&document], &["{}"]);
        }
    }
    check(
        r#"{"a":{"$type":["number","array"]}}"#,
        &[r#"{"a":1}"#, r#"{"a":["x"]}"#],
        &[r#"{"a":"x"}"#, r#"{"a":null}"#],
    );
    check(r#"{"a":{"$type":"text"}}"#, &[r#"{"a":[1,"x"]}"#], &[r#"{"a":[1]}"#]);
}

#[test]
fn text_is_searched_by_prefix_part_and_pattern() {
    check(
        r#"{"a":{"$prefix":"ab"}}"#,
        &[r#"{"a":"ab"}"#, r#"{"a":"abc"}"#, r#"{"a":["x","abc"]}"#],
        &[r#"{"a":"a"}"#, r#"{"a":"Ab"}"#, r#"{"a":"xab"}"#, r#"{"a":1}"#],
    );
    check(
        r#"{"a":{"$contains":"bc"}}"#,
        &[r#"{"a":"abcd"}"#],
        &[r#"{"a":"b"}"#, r#"{"a":["b","c"]}"#],
    );
    check(r#"{"a":{"$contains":""}}"#, &[r#"{"a":""}"#], &[r#"{"a":1}"#, "{}"]);
    let long = format!(r#"{{"a":"{}needle{}"}}"#, "x".repeat(70_000), "y".repeat(300));
    check(r#"{"a":{"$contains":"needle"}}"#, &[&long], &[]);
    let matches = |filter: &str, text: &str| {
        let matcher = Filter::parse(filter).unwrap().compile().unwrap();
        let document = Document::from_value(&doc!({ "a": text })).unwrap();
        matcher.matches(&document.root()).unwrap()
    };
    assert!(matches(r#"{"a":{"$regex":"^\\d+[äö]$"}}"#, "12ä"));
    assert!(!matches(r#"{"a":{"$regex":"^\\d+[äö]$"}}"#, "12Ä"));
    assert!(matches(r#"{"a":{"$regex":"^\\d+[äö]$","$options":"i"}}"#, "12Ä"));
    assert!(matches(r#"{"a":{"$options":"ms","$regex":"^b.c$"}}"#, "a\nb\nc"));
    assert!(matches(r#"{"a":{"$regex":"a b # x","$options":"x"}}"#, "ab"));
}

#[test]
fn remainders_are_those_of_the_integer_part() {
    check(
        r#"{"a":{"$mod":[4,1]}}"#,
        &[r#"{"a":5}"#, r#"{"a":1.9}"#, r#"{"a":5.75}"#, r#"{"a":36893488147419103233}"#],
        &[r#"{"a":4}"#, r#"{"a":-3}"#, r#"{"a":"5"}"#, r#"{"a":36893488147419103232}"#],
    );
    check(r#"{"a":{"$mod":[4,-3]}}"#, &[r#"{"a":-7}"#, r#"{"a":-3.5}"#], &[r#"{"a":1}"#]);
    check(r#"{"a":{"$mod":[-1,0]}}"#, &[r#"{"a":-9223372036854775808}"#, r#"{"a":0.5}"#], &[]);
    let matcher = Filter::field("a").modulo(7, 4).compile().unwrap();
    // 10^n leaves 1, 3, 2, 6, 4, 5, 1 ..
    for (json, expected) in [("1e400", true), ("1e401", false), ("1e999999999999999994", true)] {
        let number = format!("{{\"a\":{json}}}");
        let document = Document::from_json(number).unwrap();
        assert_eq!(matcher.matches(&document.root()), Ok(expected), "{json}");
    }
    let least = Filter::field("a").modulo(i64::MIN, i64::MIN + 1).compile().unwrap();
    let document = Document::from_json(r#"{"a":-9223372036854775807.5}"#).unwrap();
    assert_eq!(least.matches(&document.root()), Ok(true));
}

#[test]
fn the_size_of_an_array_is_that_of_all_of_it() {
    check(
        r#"{"a":{"$size":2}}"#,
        &[r#"{"a":[1,2]}"#, r#"{"a":[[],{}]}"#],
        &[r#"{"a":[1]}"#, r#"{"a":[[1,2]]}"#, r#"{"a":{"x":1,"y":2}}"#, r#"{"a":2}"#, "{}"],
    );
    check(r#"{"a":{"$size":0}}"#, &[r#"{"a":[]}"#], &["{}", r#"{"a":[[]]}"#]);
    check(r#"{"a.b":{"$size":1}}"#, &[r#"{"a":[{"b":[7]},{}]}"#], &[r#"{"a":{"b":7}}"#]);
}

#[test]
fn one_element_must_meet_all_conditions_of_an_elem_match() {
    check(
        r#"{"a":{"$elemMatch":{"$gte":2,"$lt":5}}}"#,
        &[r#"{"a":[1,3]}"#],
        &[r#"{"a":[1,6]}"#, r#"{"a":3}"#, r#"{"a":[[3]]}"#, r#"{"a":[]}"#, "{}"],
    );
    check(r#"{"a":{"$gte":2,"$lt":5}}"#, &[r#"{"a":[1,6]}"#, r#"{"a":3}"#], &[r#"{"a":[6]}"#]);
    check(
        r#"{"a":{"$elemMatch":{"x":1,"y":{"$ne":2}}}}"#,
        &[r#"{"a":[{"x":1,"y":3}]}"#, r#"{"a":[{"x":[1]}]}"#, r#"{"a":[0,{"x":1.0}]}"#],
        &[r#"{"a":[{"x":1,"y":2},{"y":3}]}"#, r#"{"a":{"x":1}}"#, r#"{"a":[[{"x":1}]]}"#],
    );
    check(
        r#"{"a":{"$elemMatch":{"x":null}}}"#,
        &[r#"{"a":[{}]}"#],
        &[r#"{"a":[1]}"#, r#"{"a":[]}"#],
    );
    check(
        r#"{"a":{"$elemMatch":{"$or":[{"$":{"$gt":5}},{"x":1}]}}}"#,
        &[r#"{"a":[{"x":1}]}"#],
        &[r#"{"a":[6]}"#],
    );
    check(
        r#"{"a":{"$elemMatch":{"$or":[{"$":{"$gt":5}},{"$":"x"}]}}}"#,
        &[r#"{"a":[6]}"#, r#"{"a":["y","x"]}"#],
        &[r#"{"a":[5]}"#],
    );
    check(
        r#"{"a":{"$elemMatch":{"$elemMatch":{"$gt":1,"$lt":3}}}}"#,
        &[r#"{"a":[[0,2]]}"#],
        &[r#"{"a":[2]}"#, r#"{"a":[[0,4]]}"#],
    );
    check(r#"{"a":{"$elemMatch":{"$size":1}}}"#, &[r#"{"a":[[7]]}"#], &[r#"{"a":[7]}"#]);
    check(r#"{"a":{"$elemMatch":{"$not":{"$gt":5}}}}"#, &[r#"{"a":[9,1]}"#], &[r#"{"a":[9]}"#]);
    // A field of a scalar is not missing: the element must be a map.
    check(
        r#"{"a":{"$elemMatch":{"x":{"$not":{"$all":[]}}}}}"#,
        &[r#"{"a":[{}]}"#],
        &[r#"{"a":[null]}"#],
    );
}

/// `{}` as the condition on an element held for scalars, too. In MongoDB it is a condition on a
/// document, and an array counts as one there.
#[test]
fn an_elem_match_without_conditions_is_for_maps_and_arrays() {
    let documents =
        [r#"{"a":[{}]}"#, r#"{"a":[1,{"x":1}]}"#, r#"{"a":[[]]}"#, r#"{"a":["x",[1]]}"#];
    let others = [r#"{"a":[1]}"#, r#"{"a":[null,"x"]}"#, r#"{"a":[]}"#, r#"{"a":{}}"#, "{}"];
    for filter in [
        r#"{"a":{"$elemMatch":{}}}"#,
        r#"{"a":{"$elemMatch":{"$or":[{}]}}}"#,
        r#"{"a":{"$elemMatch":{"$and":[{},{}]}}}"#,
        r#"{"a":{"$elemMatch":{"$nor":[{"$nor":[{}]}]}}}"#,
    ] {
        check(filter, &documents, &others);
        let built = Filter::field("a").elem_match(Filter::everything());
        assert_eq!(Filter::parse(filter).unwrap(), built, "{filter}");
    }
    check(r#"{"a":{"$elemMatch":{"$nor":[{}]}}}"#, &[], &documents);
    check(r#"{"a":{"$elemMatch":{"$exists":true}}}"#, &[r#"{"a":[1]}"#, r#"{"a":[null]}"#], &[]);
    check(
        r#"{"a":{"$elemMatch":{"$elemMatch":{}}}}"#,
        &[r#"{"a":[[{}]]}"#, r#"{"a":[[1,[]]]}"#],
        &[r#"{"a":[[1]]}"#, r#"{"a":[{}]}"#],
    );
    check(r#"{"a":{"$not":{"$elemMatch":{}}}}"#, &others, &documents);
}

#[test]
fn logic_joins_conditions() {
    check("{}", &["{}", "1", "[]", "null"], &[]);
    check(r#"{"a":1,"b":2}"#, &[r#"{"a":1,"b":2}"#], &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check(r#"{"$and":[{"a":1},{"a":2}]}"#, &[r#"{"a":[1,2]}"#], &[r#"{"a":1}"#]);
    check(r#"{"$or":[{"a":1},{"b":2}]}"#, &[r#"{"a":1}"#, r#"{"b":2}"#], &["{}"]);
    check(r#"{"$nor":[{"a":1},{"b":2}]}"#, &["{}", r#"{"a":2}"#], &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check(r#"{"$nor":[{}]}"#, &[], &["{}"]);
    check(
        r#"{"a":{"$not":{"$gt":5}}}"#,
        &["{}", r#"{"a":5}"#, r#"{"a":"x"}"#],
        &[r#"{"a":[1,6]}"#],
    );
    check(
        r#"{"a":{"$not":{"$gt":5,"$lt":9}}}"#,
        &[r#"{"a":9}"#],
        &[r#"{"a":7}"#, r#"{"a":[4,10]}"#],
    );
    check(r#"{"a":{"$not":{"$not":{"$gt":5}}}}"#, &[r#"{"a":6}"#], &["{}"]);
    check(r#"{"a.b":1,"a.c":2}"#, &[r#"{"a":[{"b":1},{"c":2}]}"#], &[r#"{"a":{"b":1}}"#]);
}

#[test]
fn paths_name_positions_and_any_name() {
    check(
        r#"{"a.0":1}"#,
        &[r#"{"a":[1,2]}"#, r#"{"a":{"0":1}}"#, r#"{"a":[{"0":1}]}"#],
        &[r#"{"a":[2,1]}"#],
    );
    check(r#"{"a.0":[1,2]}"#, &[r#"{"a":[[1,2]]}"#], &[r#"{"a":[1,2]}"#]);
    check(r#"{"$.a[0]":1}"#, &[r#"{"a":[1,2]}"#], &[r#"{"a":{"0":1}}"#, r#"{"a":[{"0":1}]}"#]);
    for (filter, document) in
        [(r#"{"$['a.b']":1}"#, r#"{"a.b":1}"#), (r#"{"$['$a']":1}"#, r#"{"$a":1}"#)]
    {
        let matcher = Filter::parse(filter).unwrap().compile().unwrap();
        for document in both(document) {
            assert_eq!(matcher.matches(&document.root()), Ok(true), "{filter}");
        }
    }
    check(r#"{"$":{"$type":"array"}}"#, &["[]", "[1]"], &["{}", "1"]);
    check(r#"{"$":7}"#, &["7", "[7]"], &["{}", "[[7]]"]);
    check(r#"{"":1}"#, &[r#"{"":1}"#], &["{}"]);
}

/// Asserts which documents of Extended JSON match: those that stand for types of MongoDB.
#[track_caller]
fn check_forms(filter: &str, matching: &[&str], others: &[&str]) {
    let parsed = Filter::parse(filter).unwrap();
    let again = Filter::parse(&parsed.to_string()).unwrap();
    assert_eq!(again, parsed);
    let options = JsonOptions::new().mode(JsonMode::Extended);
    let all = matching.iter().map(|one| (one, true)).chain(others.iter().map(|one| (one, false)));
    for (json, expected) in all {
        let document = Document::from_json_with(json, options).unwrap();
        for filter in [&parsed, &again] {
            let matcher = filter.compile().unwrap();
            assert_eq!(document.matches(&matcher), expected, "{filter} of {json}");
        }
    }
}

const STAMP: &str = r#"{"a":{"$timestamp":{"t":1,"i":2}}}"#;
const REGEX: &str = r#"{"a":{"$regularExpression":{"pattern":"x","options":"i"}}}"#;
const CODE: &str = r#"{"a":{"$code":"f()"}}"#;
const SCOPED: &str = r#"{"a":{"$code":"f()","$scope":{}}}"#;
const DATED: &str = r#"{"a":{"$code":"f()","$scope":{"d":{"$date":"2020-01-01T00:00:00Z"}}}}"#;
const POINTER: &str =
    r#"{"a":{"$dbPointer":{"$ref":"b","$id":{"$oid":"56e1fc72e0c917e9c4714161"}}}}"#;
const LEAST: &str = r#"{"a":{"$minKey":1}}"#;
const OTHER_BINARY: &str = r#"{"a":{"$binary":{"base64":"AQI=","subType":"05"}}}"#;
const BYTES: &str = r#"{"a":{"$binary":{"base64":"AQI=","subType":"00"}}}"#;
const UUID: &str = r#"{"a":{"$uuid":"07070707-0707-0707-0707-070707070707"}}"#;
const OBJECT: &str = r#"{"a":{"x":1}}"#;

#[test]
fn types_of_drivers_are_told_by_their_stored_forms() {
    let all = [STAMP, REGEX, CODE, SCOPED, LEAST, OTHER_BINARY, BYTES, UUID, OBJECT];
    let but =
        |out: &[&str]| -> Vec<&str> { all.into_iter().filter(|one| !out.contains(one)).collect() };
    for (types, matching) in [
        (r#""timestamp""#, vec![STAMP]),
        ("17", vec![STAMP]),
        (r#""regex""#, vec![REGEX]),
        (r#""javascript""#, vec![CODE]),
        ("15", vec![SCOPED]),
        (r#"["minKey",11]"#, vec![LEAST, REGEX]),
        ("-1", vec![LEAST]),
        (r#""binData""#, vec![OTHER_BINARY, BYTES, UUID]),
        (r#""bytes""#, vec![BYTES]),
        (r#""uuid""#, vec![UUID]),
        (r#""object""#, vec![OBJECT]),
        (r#""map""#, but(&[BYTES, UUID])),
    ] {
        check_forms(&format!(r#"{{"a":{{"$type":{types}}}}}"#), &matching, &but(&matching));
    }
    check(r#"{"a":{"$type":"int"}}"#, &[r#"{"a":1}"#, r#"{"a":[1.5,2]}"#], &[r#"{"a":1.5}"#]);
    check(r#"{"a":{"$type":"long"}}"#, &[r#"{"a":2147483648}"#], &[r#"{"a":2147483647}"#]);
    check(r#"{"a":{"$type":"double"}}"#, &[r#"{"a":1.5}"#, r#"{"a":1.0}"#], &[r#"{"a":1.10}"#]);
    check(r#"{"a":{"$type":["decimal","int"]}}"#, &[r#"{"a":1.10}"#], &[r#"{"a":1.5}"#]);
}

#[test]
fn values_that_documents_store_as_maps_are_found() {
    // The forms inside of them were compared as maps.
    let equals = |document: &str| {
        let value = document.strip_prefix("{\"a\":").unwrap().strip_suffix('}').unwrap();
        format!(r#"{{"a":{{"$eq":{value}}}}}"#)
    };
    let all =
        [STAMP, REGEX, CODE, SCOPED, DATED, POINTER, LEAST, OTHER_BINARY, BYTES, UUID, OBJECT];
    for one in all {
        let others: Vec<&str> = all.into_iter().filter(|other| *other != one).collect();
        check_forms(&equals(one), &[one], &others);
    }
    check_forms(STAMP, &[STAMP], &[LEAST]);
    // A regular expression without an operator is a pattern.
    check_forms(REGEX, &[r#"{"a":"aXb"}"#, r#"{"a":["y","x"]}"#], &[r#"{"a":"y"}"#, REGEX]);
    check_forms(r#"{"a":{"$gte":{"$minKey":1}}}"#, &all, &["{}"]);
    check_forms(r#"{"a":{"$lt":{"$maxKey":1}}}"#, &[OBJECT, r#"{"a":null}"#], &["{}"]);
    check_forms(r#"{"a":{"$lte":{"$minKey":1}}}"#, &[LEAST], &[OBJECT, "{}"]);
    check_forms(r#"{"a":{"$lt":{"$minKey":1}}}"#, &[], &all);
}

#[test]
fn lists_hold_patterns_and_conditions_on_elements() {
    let plain = r#"{"$regularExpression":{"pattern":"b","options":""}}"#;
    check(
        &format!(r#"{{"a":{{"$in":[1,{plain}]}}}}"#),
        &[r#"{"a":1}"#, r#"{"a":"xb"}"#, r#"{"a":["x","b"]}"#],
        &[r#"{"a":"x"}"#, "{}"],
    );
    check(
        &format!(r#"{{"a":{{"$nin":[null,{plain}]}}}}"#),
        &[r#"{"a":"x"}"#, r#"{"a":[]}"#],
        &["{}", r#"{"a":["x","b"]}"#],
    );
    check(
        &format!(r#"{{"a":{{"$all":["x",{plain}]}}}}"#),
        &[r#"{"a":["x","ab"]}"#],
        &[r#"{"a":["x"]}"#, r#"{"a":"b"}"#],
    );
    check(
        r#"{"a":{"$all":[{"$elemMatch":{"x":1,"y":2}},{"$elemMatch":{"x":3}}]}}"#,
        &[r#"{"a":[{"x":3},{"x":1,"y":2}]}"#],
        &[r#"{"a":[{"x":1,"y":2}]}"#, r#"{"a":[{"x":1},{"y":2},{"x":3}]}"#],
    );
    check(&format!(r#"{{"a":{{"$not":{plain}}}}}"#), &[r#"{"a":1}"#, "{}"], &[r#"{"a":"abc"}"#]);
    check(&format!(r#"{{"a":{plain}}}"#), &[r#"{"a":"abc"}"#], &["{}"]);
    check_forms(&format!(r#"{{"a":{{"$regex":{plain}}}}}"#), &[r#"{"a":"abc"}"#], &["{}"]);
    let filter = Filter::parse(
        r#"{"a":{"$in":[2,{"$regularExpression":{"pattern":"b","options":"iu"}},1]}}"#,
    );
    for name in ["$ne", "$gt", "$lte"] {
        let error = Filter::parse(&format!(r#"{{"a":{{"{name}":{plain}}}}}"#)).unwrap_err();
        assert_eq!(error.expected, "a value; a regular expression stands alone, or in $not");
    }
    let written = r#"{"$or":[{"a":{"$in":[1,2]}},{"a":{"$regex":"b","$options":"i"}}]}"#;
    assert_eq!(filter.unwrap().to_string(), written);
}

#[test]
fn bits_are_those_of_integers_and_bytes() {
    let numbers = [r#"{"a":20}"#, r#"{"a":[1,20.0]}"#];
    check(r#"{"a":{"$bitsAllSet":20}}"#, &numbers, &[r#"{"a":16}"#, r#"{"a":"x"}"#, "{}"]);
    check(r#"{"a":{"$bitsAllSet":[2,4]}}"#, &numbers, &[r#"{"a":16}"#, r#"{"a":20.5}"#]);
    check(r#"{"a":{"$bitsAnySet":[2,4]}}"#, &[r#"{"a":16}"#, r#"{"a":-1}"#], &[r#"{"a":3}"#]);
    check(r#"{"a":{"$bitsAllClear":[2,4]}}"#, &[r#"{"a":3}"#], &[r#"{"a":16}"#, r#"{"a":-1}"#]);
    check(r#"{"a":{"$bitsAnyClear":[2,4]}}"#, &[r#"{"a":16}"#], &[r#"{"a":20}"#, r#"{"a":1e30}"#]);
    check(r#"{"a":{"$bitsAllSet":[200]}}"#, &[r#"{"a":-1}"#], &[r#"{"a":1}"#]);
    check(r#"{"a":{"$bitsAllSet":[]}}"#, &[r#"{"a":0}"#], &[r#"{"a":"x"}"#]);
    // 01 02: the bits 0 and 9.
    check_forms(r#"{"a":{"$bitsAllSet":[0,9]}}"#, &[BYTES, UUID], &[OBJECT, STAMP]);
    check_forms(
        r#"{"a":{"$bitsAllSet":{"$binary":{"base64":"AQI=","subType":"00"}}}}"#,
        &[BYTES],
        &[],
    );
    check_forms(r#"{"a":{"$bitsAllClear":[1,100]}}"#, &[BYTES], &[UUID]);
    check_forms(r#"{"a":{"$bitsAllSet":7}}"#, &[UUID], &[BYTES]);
    check_forms(r#"{"a":{"$bitsAllSet":[0,9]}}"#, &[OTHER_BINARY], &[STAMP]);
    let other = r#"{"$binary":{"base64":"AQI=","subType":"05"}}"#;
    check_forms(&format!(r#"{{"a":{{"$bitsAllSet":{other}}}}}"#), &[BYTES, OTHER_BINARY], &[]);
    for bad in ["-1", "1.5", r#""x""#, "[-1]", "[0.5]", "[2147483648]", "{}"] {
        let error = Filter::parse(&format!(r#"{{"a":{{"$bitsAnySet":{bad}}}}}"#)).unwrap_err();
        assert!(error.expected.starts_with("bits: an integer from 0 on"), "{error}");
    }
}

#[test]
fn comments_and_numbers_for_existence_are_taken() {
    check(r#"{"$comment":"why","a":1}"#, &[r#"{"a":1}"#], &["{}"]);
    check(r#"{"a":{"$exists":1}}"#, &[r#"{"a":null}"#], &["{}"]);
    check(r#"{"a":{"$exists":0}}"#, &["{}"], &[r#"{"a":null}"#]);
    check(r#"{"a":{"$exists":2.5}}"#, &[r#"{"a":1}"#], &["{}"]);
    assert!(Filter::parse(r#"{"a":{"$exists":"yes"}}"#).is_err());
    assert_eq!(Filter::parse(r#"{"$comment":{"any":["value"]}}"#).unwrap(), Filter::everything());
}

#[test]
fn a_match_tells_the_position_of_the_element() {
    for (filter, document, array, expected) in [
        (r#"{"a":5}"#, r#"{"a":[1,5,5]}"#, "a", Some(1)),
        (r#"{"a":5}"#, r#"{"a":5}"#, "a", None),
        (r#"{"a.b":2}"#, r#"{"a":[{"b":1},7,{"b":[0,2]}]}"#, "a", Some(2)),
        (r#"{"a.b":2}"#, r#"{"a":{"b":[1,2]}}"#, "a.b", Some(1)),
        // A condition on another array.
        (r#"{"a.b":2}"#, r#"{"a":{"b":[1,2]},"c":[5,6]}"#, "c", Some(1)),
        (r#"{"b":1,"n":1}"#, r#"{"a":[5,6],"b":[0,1],"n":1}"#, "a", Some(1)),
        (r#"{"a":{"$gte":1,"$lte":5}}"#, r#"{"a":[7,3,9]}"#, "a", Some(1)),
        (r#"{"b":1,"a":{"$gt":3}}"#, r#"{"a":[1,5],"b":[0,1]}"#, "a", Some(1)),
        (r#"{"b":1,"a":{"$gt":3}}"#, r#"{"a":[1,5],"b":[0,0,1]}"#, "b", Some(2)),
        (r#"{"a":{"$elemMatch":{"$gt":3,"$lt":9}}}"#, r#"{"a":[1,9,5]}"#, "a", Some(2)),
        (r#"{"a":{"$elemMatch":{"x":1,"y":2}}}"#, r#"{"a":[{"x":1},{"x":1,"y":2}]}"#, "a", Some(1)),
        (r#"{"a.b":{"$elemMatch":{"x":1}}}"#, r#"{"a":[{},{"b":[{"x":1}]}]}"#, "a", Some(1)),
        (r#"{"$or":[{"b":1},{"a":3}]}"#, r#"{"a":[2,3]}"#, "a", None),
        (
            r#"{"a":{"$in":[9,{"$regularExpression":{"pattern":"x","options":""}}]}}"#,
            r#"{"a":[2,"x"]}"#,
            "a",
            Some(1),
        ),
        (r#"{"$and":[{"b":null},{"a":3}]}"#, r#"{"a":[2,3]}"#, "a", Some(1)),
        (r#"{"a":{"$in":[3,7]}}"#, r#"{"a":[2,7,3]}"#, "a", Some(1)),
        (r#"{"a":{"$ne":3}}"#, r#"{"a":[2]}"#, "a", None),
        (r#"{"a":{"$size":1}}"#, r#"{"a":[2]}"#, "a", None),
        (r#"{"a":{"$all":[1,2,3,4,5,6,7,8,9]}}"#, r#"{"a":[0,9,1,2,3,4,5,6,7,8]}"#, "a", Some(1)),
        (r#"{"a.0.b":2}"#, r#"{"a":[{"b":[1,2]}]}"#, "a.0.b", Some(1)),
    ] {
        let matcher = Filter::parse(filter).unwrap().compile().unwrap();
        for document in both(document) {
            assert!(document.matches(&matcher), "{filter} of {document}");
            let array = FieldPath::parse(array).unwrap();
            let position = matcher.position(&document.root(), &array).unwrap();
            assert_eq!(position, expected, "{filter} of {document}, {array}");
        }
    }
}
