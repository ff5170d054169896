//! Each operator, by examples.

use super::{both, reference};
use flagstone_doc::{Document, Filter, doc, json};

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
