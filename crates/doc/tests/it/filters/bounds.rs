//! The bounds of a filter on the keys of an index.

use flagstone_doc::{Arrays, Bounds, Direction, FieldPath, Filter, sort_key};

fn bounds(filter: &str, path: &str, arrays: Arrays) -> Bounds {
    Filter::parse(filter).unwrap().bounds(&FieldPath::parse(path).unwrap(), arrays)
}

fn key(text: &[u8]) -> String {
    match sort_key::decode(text, Direction::Ascending) {
        Ok(value) => value.to_string(),
        Err(_) if text == [sort_key::MISSING] => "missing".to_owned(),
        Err(_) => text.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Returns intervals as text: a point as its value, an end that excludes a value with `after`.
fn shown(bounds: &Bounds) -> String {
    let end = |bytes: &[u8]| match bytes.split_last() {
        Some((0xFF, key_bytes)) => format!("after {}", key(key_bytes)),
        _ => key(bytes),
    };
    let each = bounds.intervals().iter().map(|interval| match interval.as_point() {
        Some(point) => key(point),
        None => {
            let (from, to) = interval.bytes(Direction::Ascending);
            format!("{}..{}", end(&from), to.map_or(String::new(), |to| end(&to)))
        }
    });
    each.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_test_of_a_path_bounds_its_keys() {
    // Numbers begin with 21 (after NaN) to 4c, text with 60, arrays with 70.
    for (filter, expected, is_exact) in [
        (r#"{"a":7}"#, "7", true),
        (r#"{"a":{"$in":[3,"x",1]}}"#, r#"1, 3, "x""#, true),
        (r#"{"a":{"$gt":7}}"#, "after 7..4d", true),
        (r#"{"a":{"$gte":7}}"#, "7..4d", true),
        (r#"{"a":{"$lt":7}}"#, "-inf..7", true),
        (r#"{"a":{"$lte":7}}"#, "-inf..after 7", true),
        (r#"{"a":{"$lt":"x"}}"#, r#"60.."x""#, true),
        (r#"{"a":{"$prefix":"ab"}}"#, "606162..606163", true),
        (r#"{"a":{"$prefix":""}}"#, "60..61", true),
        (r#"{"a":{"$contains":"ab"}}"#, "60..61", false),
        (r#"{"a":{"$regex":"ab"}}"#, "60..61", false),
        (r#"{"a":{"$mod":[2,0]}}"#, "NaN..4d", false),
        (r#"{"a":{"$type":"text"}}"#, "60..61", true),
        (r#"{"a":{"$type":"array"}}"#, "05..", false),
        (r#"{"a":{"$exists":true}}"#, "05..", true),
        (r#"{"a":{"$exists":false}}"#, "..05", false),
        (r#"{"a":null}"#, "missing, null", false),
        (r#"{"a":{"$gt":null}}"#, "", true),
        (r#"{"a":{"$in":[]}}"#, "", true),
        (r#"{"a":{"$ne":7}}"#, "..7, after 7..", false),
        (r#"{"a":[1,2]}"#, "1, [1,2]", false),
        (r#"{"a":[]}"#, "[]", true),
        (r#"{"a":{"$gt":[1]}}"#, "05..", false),
        (r#"{"a":{"$size":2}}"#, "05..", false),
        (r#"{"a":{"$size":0}}"#, "[]", false),
        (r#"{"a":{"$elemMatch":{"$gte":1,"$lte":5}}}"#, "1..after 5", false),
        (r#"{"a":{"$elemMatch":{"$ne":5}}}"#, "..5, after 5..", false),
        (r#"{"a":{"$elemMatch":{"x":1}}}"#, "74..75", false),
        (r#"{"b":1}"#, "..", true),
        ("{}", "..", true),
    ] {
        let bounds = bounds(filter, "a", Arrays::ANY);
        assert_eq!((shown(&bounds).as_str(), bounds.is_exact()), (expected, is_exact), "{filter}");
    }
}

#[test]
fn bounds_intersect_only_without_arrays() {
    let range = r#"{"a":{"$gte":1,"$lte":5}}"#;
    let scalar = bounds(range, "a", Arrays::NONE);
    assert_eq!((shown(&scalar).as_str(), scalar.is_whole()), ("1..after 5", true));
    let multi = bounds(range, "a", Arrays::ANY);
    assert_eq!((shown(&multi).as_str(), multi.is_exact()), ("1..4d", false));
    let point = bounds(r#"{"a":{"$gte":1,"$eq":5,"$exists":true}}"#, "a", Arrays::ANY);
    assert_eq!(shown(&point), "5");
    let none = bounds(r#"{"a":{"$gt":5,"$lt":1}}"#, "a", Arrays::NONE);
    assert!(none.is_nothing() && none.is_exact());
    let not = bounds(r#"{"a":{"$ne":7}}"#, "a", Arrays::NONE);
    assert!(not.is_whole());
    let null = bounds(r#"{"a":null}"#, "a", Arrays::NONE);
    assert!(null.is_whole() && null.are_points());
}

#[test]
fn conditions_within_an_element_intersect_if_there_are_no_arrays_in_it() {
    let votes = r#"{"votes":{"$elemMatch":{"n":{"$gte":1,"$lte":5}}}}"#;
    // The array at `votes`, and one more at `votes.n`.
    for (bits, expected) in [(0b10, "1..after 5"), (0b110, "1..4d")] {
        let bounds = bounds(votes, "votes.n", Arrays::from_bits(bits));
        assert_eq!((shown(&bounds).as_str(), bounds.is_exact()), (expected, false));
    }
    let not = r#"{"votes":{"$elemMatch":{"n":{"$ne":5}}}}"#;
    assert_eq!(shown(&bounds(not, "votes.n", Arrays::from_bits(0b10))), "..5, after 5..");
    assert!(bounds(not, "votes.n", Arrays::ANY).is_everything());
    assert!(bounds(votes, "votes.0.n", Arrays::ANY).is_everything());
}

#[test]
fn arrays_beyond_63_steps_are_not_forgotten_in_elements_of_elements() {
    let [outer, inner] = [40, 39].map(|steps| vec!["a"; steps].join("."));
    let range = r#"{"z":{"$gte":1,"$lte":5}}"#;
    let filter =
        format!(r#"{{"{outer}":{{"$elemMatch":{{"{inner}":{{"$elemMatch":{range}}}}}}}}}"#);
    let path = format!("{outer}.{inner}.z");
    let bounds = |bits| shown(&bounds(&filter, &path, Arrays::from_bits(bits)));
    // The last bit is for the arrays after 79 and 80 steps.
    assert_eq!(bounds(1 << 40 | 1 << 63), "1..4d");
    assert_eq!(bounds(1 << 40), "1..after 5");
}

#[test]
fn alternatives_unite_and_other_paths_do_not_count() {
    let filter = r#"{"$or":[{"a":1},{"a":{"$gt":5}},{"a":{"$gt":9}}],"b":2}"#;
    let bounds = |path| bounds(filter, path, Arrays::ANY);
    assert_eq!(shown(&bounds("a")), "1, after 5..4d");
    assert!(bounds("a").is_exact() && !bounds("a").is_whole());
    assert_eq!((shown(&bounds("b")).as_str(), bounds("b").are_points()), ("2", true));
    let mixed = Filter::parse(r#"{"$or":[{"a":1},{"b":1}]}"#).unwrap();
    let bounds = mixed.bounds(&FieldPath::parse("a").unwrap(), Arrays::NONE);
    assert!(bounds.is_everything() && !bounds.is_exact());
}

#[test]
fn a_condition_that_never_holds_allows_no_keys_of_any_path() {
    for never in [
        r#"{"b":{"$all":[]}}"#,
        r#"{"b":{"$in":[]}}"#,
        r#"{"$nor":[{}]}"#,
        r#"{"$nor":[{"$or":[{},{"a":1}]}]}"#,
    ] {
        let filter = format!(r#"{{"$and":[{{"a":1}},{never}]}}"#);
        for arrays in [Arrays::NONE, Arrays::ANY] {
            let bounds = bounds(&filter, "a", arrays);
            assert!(bounds.is_nothing() && bounds.is_exact(), "{filter}: {}", shown(&bounds));
        }
    }
    assert_eq!(shown(&bounds(r#"{"a":1,"$nor":[{"$nor":[{}]}]}"#, "a", Arrays::ANY)), "1");
}

#[test]
fn all_paths_are_known() {
    let filter = r#"{"a.b":1,"$or":[{"c":{"$ne":1}},{"a.b":2}],"d":{"$elemMatch":{"x":1,"$":2}}}"#;
    let paths = Filter::parse(filter).unwrap().paths();
    let paths: Vec<_> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["a.b", "c", "d"]);
    assert!(Filter::everything().paths().is_empty());
}

#[test]
fn conditions_in_many_arrays_take_memory_in_proportion_to_their_text() {
    // If each condition got its whole path, these would be 10 GB of names.
    let steps = vec!["a"; 500].join(".");
    let leaves: Vec<String> = (0..4_000).map(|n| format!(r#""b{n}":1"#)).collect();
    let (open, close) = (format!(r#"{{"{steps}":{{"$elemMatch":"#).repeat(60), "}}".repeat(60));
    let filter = Filter::parse(&format!("{open}{{{}}}{close}", leaves.join(","))).unwrap();
    assert_eq!(filter.paths().len(), 1);
    let bounds = filter.bounds(&FieldPath::parse(&steps).unwrap(), Arrays::ANY);
    assert!(!bounds.is_everything() && !bounds.is_exact());
}

#[test]
fn long_lists_take_time_in_proportion_to_their_length() {
    let many = Filter::field("a").one_of(0..50_000).and(Filter::field("a").none_of(0..50_000));
    for arrays in [Arrays::NONE, Arrays::ANY] {
        let bounds = many.bounds(&FieldPath::parse("a").unwrap(), arrays);
        assert_eq!(bounds.is_nothing(), arrays.is_none());
    }
    assert!(many.implies(&Filter::field("a").one_of(0..60_000)));
    let others: Vec<String> = (0..3_000).map(|n| format!(r#"{{"a":{{"$ne":{n}}}}}"#)).collect();
    for text in [
        format!(r#"{{"$and":[{}]}}"#, others.join(",")),
        format!(
            r#"{{"a":{{"$elemMatch":{{"$and":[{}]}}}}}}"#,
            others.join(",").replace("\"a\"", "\"$\"")
        ),
    ] {
        let bounds = bounds(&text, "a", Arrays::NONE);
        assert!(bounds.intervals().len() > 3_000);
    }
    assert_eq!(Filter::parse(&many.to_string()).unwrap(), many);
    // The narrowest of many conditions is looked for, which may be a long list.
    let ranges = (0..9_000).map(|n| Filter::field("a").gt(n));
    let beside = Filter::all(std::iter::once(many).chain(ranges));
    assert!(beside.bounds(&FieldPath::parse("a").unwrap(), Arrays::ANY).are_points());
}
