//! Each operator, by examples: the document, the update, the result.

use super::{applied, check, parse, update};
use flagstone::doc::DateTime;
use flagstone::internal::document::{NumberType, decimal, long};
use flagstone::{Value, doc};
use flagstone_pipeline::update::{Context, Update};

#[test]
fn set_creates_the_maps_on_its_path() {
    check(&[
        ("{}", r#"{"$set":{"a":1}}"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, r#"{"$set":{"a":2}}"#, r#"{"a":2}"#),
        (r#"{"a":1}"#, r#"{"$set":{"a":1}}"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, r#"{"$set":{"a":1.0}}"#, r#"{"a":1.0}"#),
        (r#"{"a":{"b":1}}"#, r#"{"$set":{"a.c":2}}"#, r#"{"a":{"b":1,"c":2}}"#),
        ("{}", r#"{"$set":{"a.b.c":2}}"#, r#"{"a":{"b":{"c":2}}}"#),
        ("{}", r#"{"$set":{"a.0":2}}"#, r#"{"a":{"0":2}}"#),
        ("{}", r#"{"$set":{"a":{"$x":2}}}"#, r#"{"a":{"$x":2}}"#),
        ("{}", r#"{"$set":{"ref.$id":2}}"#, r#"{"ref":{"$id":2}}"#),
        ("{}", r#"{"$set":{"a.$x":2}}"#, r#"{"a":{"$x":2}}"#),
        ("{}", r#"{"$set":{}}"#, "{}"),
    ]);
}

#[test]
fn new_fields_have_the_order_of_their_names() {
    check(&[
        (
            "{}",
            r#"{"$set":{"z":1,"b":2,"10":3,"9":4,"a":5}}"#,
            r#"{"9":4,"10":3,"a":5,"b":2,"z":1}"#,
        ),
        (r#"{"y":0}"#, r#"{"$set":{"z":1},"$inc":{"x":2}}"#, r#"{"y":0,"x":2,"z":1}"#),
        ("{}", r#"{"$set":{"b.y":1,"a":2,"b.x":3}}"#, r#"{"a":2,"b":{"x":3,"y":1}}"#),
    ]);
    // So many that their places are looked up by a hash.
    let set: Vec<String> = (0..100).rev().map(|n| format!(r#""f{n:02}":{n}"#)).collect();
    let change = update(&format!(r#"{{"$set":{{{}}}}}"#, set.join(",")), "[]").unwrap();
    let found = applied(r#"{"f50":0,"x":1}"#, &change, &Context::default()).unwrap();
    let fields: Vec<String> =
        (0..100).filter(|n| *n != 50).map(|n| format!(r#""f{n:02}":{n}"#)).collect();
    assert_eq!(found, format!(r#"{{"f50":50,"x":1,{}}}"#, fields.join(",")));
    let unset: Vec<String> = (0..99).map(|n| format!(r#""f{n:02}":"""#)).collect();
    let change = update(&format!(r#"{{"$unset":{{{}}}}}"#, unset.join(",")), "[]").unwrap();
    assert_eq!(applied(&found, &change, &Context::default()).unwrap(), r#"{"x":1,"f99":99}"#);
}

#[test]
fn paths_lead_into_arrays_by_positions() {
    check(&[
        (r#"{"a":[1,2,3]}"#, r#"{"$set":{"a.1":9}}"#, r#"{"a":[1,9,3]}"#),
        (r#"{"a":[1]}"#, r#"{"$set":{"a.1":9}}"#, r#"{"a":[1,9]}"#),
        (r#"{"a":[1]}"#, r#"{"$set":{"a.4":9}}"#, r#"{"a":[1,null,null,null,9]}"#),
        (r#"{"a":[]}"#, r#"{"$set":{"a.1.b":9}}"#, r#"{"a":[null,{"b":9}]}"#),
        (r#"{"a":[{"b":1}]}"#, r#"{"$inc":{"a.0.b":1,"a.0.c":5}}"#, r#"{"a":[{"b":2,"c":5}]}"#),
        (r#"{"a":[[1,2]]}"#, r#"{"$set":{"a.0.1":9}}"#, r#"{"a":[[1,9]]}"#),
        (r#"{"a":[1,2]}"#, r#"{"$unset":{"a.0":""}}"#, r#"{"a":[null,2]}"#),
        (r#"{"a":[1,2]}"#, r#"{"$unset":{"a.7":"","a.x":"","a.0.b":""}}"#, r#"{"a":[1,2]}"#),
    ]);
}

#[test]
fn unset_removes_fields() {
    check(&[
        (r#"{"a":1,"b":2}"#, r#"{"$unset":{"a":""}}"#, r#"{"b":2}"#),
        (r#"{"a":1}"#, r#"{"$unset":{"b":"","c.d":1}}"#, r#"{"a":1}"#),
        (r#"{"a":{"b":1}}"#, r#"{"$unset":{"a.b":true}}"#, r#"{"a":{}}"#),
        (r#"{"a":1}"#, r#"{"$unset":{"a.b":1}}"#, r#"{"a":1}"#),
        (r#"{"a":null}"#, r#"{"$unset":{"a.b.c":1}}"#, r#"{"a":null}"#),
    ]);
}

#[test]
fn inc_and_mul_compute() {
    check(&[
        (r#"{"a":1}"#, r#"{"$inc":{"a":2}}"#, r#"{"a":3}"#),
        ("{}", r#"{"$inc":{"a":2,"b.c":-1}}"#, r#"{"a":2,"b":{"c":-1}}"#),
        (r#"{"a":1}"#, r#"{"$inc":{"a":0}}"#, r#"{"a":1}"#),
        (r#"{"a":0.1}"#, r#"{"$inc":{"a":0.2}}"#, r#"{"a":0.3}"#),
        (r#"{"a":1.10}"#, r#"{"$inc":{"a":1}}"#, r#"{"a":2.10}"#),
        (r#"{"a":3}"#, r#"{"$mul":{"a":4}}"#, r#"{"a":12}"#),
        ("{}", r#"{"$mul":{"a":4}}"#, r#"{"a":0}"#),
        (r#"{"a":3}"#, r#"{"$mul":{"a":0.5}}"#, r#"{"a":1.5}"#),
    ]);
}

#[test]
fn numbers_keep_their_types_and_widen() {
    use NumberType::{Decimal, Double, Int, Long};
    let decimal = |literal| decimal(literal).unwrap();
    let max = i64::from(i32::MAX);
    let table = [
        ("$inc", Some(max.into()), 1.into(), Long, (max + 1).into()),
        ("$inc", Some(long(5)), 1.into(), Long, 6.into()),
        ("$inc", Some(5.into()), long(1), Long, 6.into()),
        ("$inc", Some(5.into()), 1.0.into(), Double, 6.into()),
        ("$inc", Some(5.5.into()), decimal("1.5"), Decimal, 7.into()),
        ("$inc", None, long(1), Long, 1.into()),
        ("$mul", Some(max.into()), max.into(), Long, (max * max).into()),
        ("$mul", Some(decimal("2")), 3.into(), Decimal, 6.into()),
        ("$mul", None, 3.into(), Int, 0.into()),
        ("$mul", None, long(3), Long, 0.into()),
        ("$mul", None, 3.5.into(), Double, 0.into()),
        ("$mul", None, decimal("3"), Decimal, 0.into()),
    ];
    for (operator, old, by, kind, expected) in table {
        let case = format!("{operator} {old:?} {by:?}");
        let change = Value::Map([(operator, doc!({"a": by}))].into_iter().collect());
        let change = Update::parse(&change, &[]).unwrap();
        let mut document = old.map_or(doc!({}), |old| doc!({"a": old}));
        assert!(change.apply(&mut document, &Context::default()).unwrap(), "{case}");
        let new = document.get("a").unwrap();
        assert_eq!((NumberType::of(new), new), (Some(kind), &expected), "{case}");
    }
    // An equal number of another type is a change.
    let set = Update::parse(&doc!({"$set": {"a": (long(1))}}), &[]).unwrap();
    let mut document = doc!({"a": 1});
    assert!(set.apply(&mut document, &Context::default()).unwrap());
    assert!(!set.apply(&mut document, &Context::default()).unwrap());
}

#[test]
fn min_and_max_compare_in_the_order_of_values() {
    check(&[
        (r#"{"a":5}"#, r#"{"$min":{"a":3}}"#, r#"{"a":3}"#),
        (r#"{"a":5}"#, r#"{"$min":{"a":7}}"#, r#"{"a":5}"#),
        (r#"{"a":5}"#, r#"{"$max":{"a":7}}"#, r#"{"a":7}"#),
        (r#"{"a":5}"#, r#"{"$max":{"a":5.0}}"#, r#"{"a":5}"#),
        ("{}", r#"{"$min":{"a":7},"$max":{"b":1}}"#, r#"{"a":7,"b":1}"#),
        (r#"{"a":5}"#, r#"{"$max":{"a":"x"}}"#, r#"{"a":"x"}"#),
        (r#"{"a":5}"#, r#"{"$min":{"a":null}}"#, r#"{"a":null}"#),
    ]);
}

#[test]
fn rename_moves_a_field() {
    check(&[
        (r#"{"a":1,"b":2}"#, r#"{"$rename":{"a":"c"}}"#, r#"{"b":2,"c":1}"#),
        (r#"{"a":1,"b":2}"#, r#"{"$rename":{"a":"b"}}"#, r#"{"b":1}"#),
        (r#"{"a":{"b":1}}"#, r#"{"$rename":{"a.b":"c.d"}}"#, r#"{"a":{},"c":{"d":1}}"#),
        (r#"{"a":{"b":1}}"#, r#"{"$rename":{"a.b":"a.c"}}"#, r#"{"a":{"c":1}}"#),
        (r#"{"a":1}"#, r#"{"$rename":{"x":"a","y.z":"b"}}"#, r#"{"a":1}"#),
        (
            r#"{"a":1,"b":2}"#,
            r#"{"$rename":{"a":"x","b":"y"},"$set":{"z":3}}"#,
            r#"{"x":1,"y":2,"z":3}"#,
        ),
    ]);
}

#[test]
fn many_fields_are_renamed_at_once_and_an_update_can_be_interrupted() {
    let renames: Vec<String> = (0..100).map(|n| format!(r#""f{n:02}":"g{n:02}""#)).collect();
    let renames = format!(r#"{{"$rename":{{{},"a.b":"c","none":"d"}}}}"#, renames.join(","));
    let change = update(&renames, "[]").unwrap();
    let fields = |name: &str| -> String {
        (0..100).map(|n| format!(r#","{name}{n:02}":{n}"#)).collect::<Vec<_>>().concat()
    };
    let document = format!(r#"{{"x":1,"a":{{"b":2}}{},"y":3}}"#, fields("f"));
    let found = applied(&document, &change, &Context::default()).unwrap();
    assert_eq!(found, format!(r#"{{"x":1,"a":{{}},"y":3,"c":2{}}}"#, fields("g")));
    for text in [&renames, r#"{"$inc":{"l.$[]":1}}"#] {
        let change = update(text, "[]").unwrap();
        let mut document = parse(r#"{"f01":1,"l":[1,2]}"#);
        let before = document.clone();
        let apply = || change.apply(&mut document, &Context::default());
        let interrupted = flagstone::internal::interruptible(|| true, apply).unwrap_err();
        assert_eq!(interrupted.code(), 11601, "{interrupted}");
        assert_eq!(document, before);
    }
}

#[test]
fn push_adds_elements_sorts_and_cuts() {
    check(&[
        (r#"{"a":[1]}"#, r#"{"$push":{"a":2}}"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1]}"#, r#"{"$push":{"a":[2,3]}}"#, r#"{"a":[1,[2,3]]}"#),
        ("{}", r#"{"$push":{"a":1}}"#, r#"{"a":[1]}"#),
        ("{}", r#"{"$push":{"a":{"$each":[]}}}"#, r#"{"a":[]}"#),
        ("{}", r#"{"$push":{"a":{"$slice":2}}}"#, r#"{"a":[{"$slice":2}]}"#),
        (r#"{"a":[1]}"#, r#"{"$push":{"a":{"$each":[2,3]}}}"#, r#"{"a":[1,2,3]}"#),
        (r#"{"a":[1]}"#, r#"{"$push":{"a":{"$each":[]}}}"#, r#"{"a":[1]}"#),
        (
            r#"{"a":[1,2]}"#,
            r#"{"$push":{"a":{"$each":[8,9],"$position":0}}}"#,
            r#"{"a":[8,9,1,2]}"#,
        ),
        (r#"{"a":[1,2]}"#, r#"{"$push":{"a":{"$each":[9],"$position":-1}}}"#, r#"{"a":[1,9,2]}"#),
        (r#"{"a":[1,2]}"#, r#"{"$push":{"a":{"$each":[9],"$position":-5}}}"#, r#"{"a":[9,1,2]}"#),
        (r#"{"a":[1,2]}"#, r#"{"$push":{"a":{"$each":[9],"$position":5}}}"#, r#"{"a":[1,2,9]}"#),
        (r#"{"a":[1,2]}"#, r#"{"$push":{"a":{"$each":[3],"$slice":2}}}"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1,2]}"#, r#"{"$push":{"a":{"$each":[3],"$slice":-2}}}"#, r#"{"a":[2,3]}"#),
        (r#"{"a":[1,2]}"#, r#"{"$push":{"a":{"$each":[3],"$slice":0}}}"#, r#"{"a":[]}"#),
        (r#"{"a":[3,1]}"#, r#"{"$push":{"a":{"$each":[2],"$sort":1}}}"#, r#"{"a":[1,2,3]}"#),
        (
            r#"{"a":[3,"x"]}"#,
            r#"{"$push":{"a":{"$each":[4],"$sort":-1,"$slice":2}}}"#,
            r#"{"a":["x",4]}"#,
        ),
        (
            r#"{"a":[{"n":2,"k":1},{"n":1,"k":2},5]}"#,
            r#"{"$push":{"a":{"$each":[{"n":2,"k":3}],"$sort":{"n":-1,"k":-1}}}}"#,
            r#"{"a":[{"n":2,"k":3},{"n":2,"k":1},{"n":1,"k":2},5]}"#,
        ),
        (
            r#"{"a":[{"b":{"c":2}},{"b":{"c":1}}]}"#,
            r#"{"$push":{"a":{"$each":[],"$sort":{"b.c":1}}}}"#,
            r#"{"a":[{"b":{"c":1}},{"b":{"c":2}}]}"#,
        ),
    ]);
}

#[test]
fn add_to_set_adds_what_is_not_there() {
    check(&[
        (r#"{"a":[1]}"#, r#"{"$addToSet":{"a":2}}"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1]}"#, r#"{"$addToSet":{"a":1.0}}"#, r#"{"a":[1]}"#),
        ("{}", r#"{"$addToSet":{"a":2}}"#, r#"{"a":[2]}"#),
        (r#"{"a":[1]}"#, r#"{"$addToSet":{"a":[1]}}"#, r#"{"a":[1,[1]]}"#),
        (r#"{"a":[1]}"#, r#"{"$addToSet":{"a":{"$each":[2,1,2,3]}}}"#, r#"{"a":[1,2,3]}"#),
        ("{}", r#"{"$addToSet":{"a":{"$each":[]}}}"#, r#"{"a":[]}"#),
        (r#"{"a":[{"x":1}]}"#, r#"{"$addToSet":{"a":{"x":1}}}"#, r#"{"a":[{"x":1}]}"#),
    ]);
}

#[test]
fn pop_pull_and_pull_all_remove_elements() {
    check(&[
        (r#"{"a":[1,2,3]}"#, r#"{"$pop":{"a":1}}"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1,2,3]}"#, r#"{"$pop":{"a":-1}}"#, r#"{"a":[2,3]}"#),
        (r#"{"a":[]}"#, r#"{"$pop":{"a":1}}"#, r#"{"a":[]}"#),
        ("{}", r#"{"$pop":{"a":1}}"#, "{}"),
        (r#"{"a":[1,2,1]}"#, r#"{"$pull":{"a":1}}"#, r#"{"a":[2]}"#),
        (r#"{"a":[1,[1],2]}"#, r#"{"$pull":{"a":[1]}}"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1,5,9]}"#, r#"{"$pull":{"a":{"$gte":5}}}"#, r#"{"a":[1]}"#),
        (r#"{"a":[1,5,9]}"#, r#"{"$pull":{"a":{"$in":[1,9]}}}"#, r#"{"a":[5]}"#),
        (r#"{"a":[null,1]}"#, r#"{"$pull":{"a":null}}"#, r#"{"a":[1]}"#),
        (
            r#"{"a":[{"x":1,"y":2},{"x":2},3]}"#,
            r#"{"$pull":{"a":{"x":1}}}"#,
            r#"{"a":[{"x":2},3]}"#,
        ),
        (
            r#"{"a":[{"x":[1,8]},{"x":[2]}]}"#,
            r#"{"$pull":{"a":{"$or":[{"x":8},{"y":1}]}}}"#,
            r#"{"a":[{"x":[2]}]}"#,
        ),
        (r#"{"a":[{"x":1},{"x":5}]}"#, r#"{"$pull":{"a":{"x":{"$gt":3}}}}"#, r#"{"a":[{"x":1}]}"#),
        ("{}", r#"{"$pull":{"a":1}}"#, "{}"),
        (r#"{"a":[1,2,1.0,"x"]}"#, r#"{"$pullAll":{"a":[1,"x"]}}"#, r#"{"a":[2]}"#),
        (r#"{"a":[1]}"#, r#"{"$pullAll":{"a":[]}}"#, r#"{"a":[1]}"#),
        (r#"{"a":5}"#, r#"{"$pull":{"a.b":1},"$pullAll":{"a.c":[1]}}"#, r#"{"a":5}"#),
    ]);
}

/// A condition on a field of a reference removed a whole array that had one in it.
#[test]
fn a_pull_by_fields_of_a_reference_removes_maps_only() {
    let list = r#"{"a":[[{"$id":2},{"k":1}],{"$id":3},{"$id":2,"n":1},{"$id":2,"n":2},5]}"#;
    check(&[
        (list, r#"{"$pull":{"a":{"$id":2}}}"#, r#"{"a":[[{"$id":2},{"k":1}],{"$id":3},5]}"#),
        (
            list,
            r#"{"$pull":{"a":{"$id":2,"n":1}}}"#,
            r#"{"a":[[{"$id":2},{"k":1}],{"$id":3},{"$id":2,"n":2},5]}"#,
        ),
        (
            list,
            r#"{"$pull":{"a":{"n":2,"$id":{"$gt":1}}}}"#,
            r#"{"a":[[{"$id":2},{"k":1}],{"$id":3},{"$id":2,"n":1},5]}"#,
        ),
    ]);
}

#[test]
fn bit_changes_integers() {
    check(&[
        (r#"{"a":13}"#, r#"{"$bit":{"a":{"and":10}}}"#, r#"{"a":8}"#),
        (r#"{"a":3}"#, r#"{"$bit":{"a":{"or":5}}}"#, r#"{"a":7}"#),
        (r#"{"a":1}"#, r#"{"$bit":{"a":{"xor":5}}}"#, r#"{"a":4}"#),
        (r#"{"a":1}"#, r#"{"$bit":{"a":{"or":6,"and":4}}}"#, r#"{"a":4}"#),
        ("{}", r#"{"$bit":{"a":{"or":5}}}"#, r#"{"a":5}"#),
    ]);
    let change = Update::parse(&doc!({"$bit": {"a": {"or": (long(2))}}}), &[]).unwrap();
    let mut document = doc!({"a": 1});
    change.apply(&mut document, &Context::default()).unwrap();
    assert_eq!(NumberType::of(document.get("a").unwrap()), Some(NumberType::Long));
}

#[test]
fn set_on_insert_is_for_inserts_alone() {
    let change = update(r#"{"$setOnInsert":{"a":1},"$set":{"b":2}}"#, "[]").unwrap();
    let on = |is_insert| Context { is_insert, ..Context::default() };
    assert_eq!(applied("{}", &change, &on(true)).unwrap(), r#"{"a":1,"b":2}"#);
    assert_eq!(applied("{}", &change, &on(false)).unwrap(), r#"{"b":2}"#);
    let change = update(r#"{"$setOnInsert":{"a.b":1}}"#, "[]").unwrap();
    assert_eq!(applied(r#"{"a":5}"#, &change, &on(false)).unwrap(), r#"{"a":5}"#);
}

#[test]
fn current_date_is_the_time_of_the_update() {
    let now = DateTime::parse_rfc3339("2019-08-01T10:20:30.123456Z").unwrap();
    let context = Context { now, ..Context::default() };
    let text = r#"{"$currentDate":{"a":true,"b":{"$type":"date"},"c":{"$type":"timestamp"}}}"#;
    let mut document = doc!({"c": 1});
    update(text, "[]").unwrap().apply(&mut document, &context).unwrap();
    let cut = DateTime::parse_rfc3339("2019-08-01T10:20:30.123Z").unwrap();
    assert_eq!(document.get("a"), Some(&cut.into()));
    assert_eq!(document.get("b"), Some(&cut.into()));
    let stamp = parse(r#"{"$timestamp":{"t":1564654830,"i":123457}}"#);
    assert_eq!(document.get("c"), Some(&stamp));
}

#[test]
fn the_positional_operator_is_the_matched_element() {
    let at = |position| Context { position, ..Context::default() };
    for (document, text, position, expected) in [
        (r#"{"a":[1,2,3]}"#, r#"{"$set":{"a.$":9}}"#, Some(1), Ok(r#"{"a":[1,9,3]}"#)),
        (
            r#"{"a":[{"b":1},{"b":2}]}"#,
            r#"{"$inc":{"a.$.b":5}}"#,
            Some(1),
            Ok(r#"{"a":[{"b":1},{"b":7}]}"#),
        ),
        (r#"{"a":[1,2]}"#, r#"{"$unset":{"a.$":""}}"#, Some(0), Ok(r#"{"a":[null,2]}"#)),
        (r#"{"a":[1,2]}"#, r#"{"$set":{"a.$":9}}"#, None, Err(2)),
        (r#"{"a":[1,2]}"#, r#"{"$set":{"a.$":9,"a.0":8}}"#, Some(1), Ok(r#"{"a":[8,9]}"#)),
        (r#"{"a":[1,2]}"#, r#"{"$set":{"a.$":9,"a.1":8}}"#, Some(1), Err(40)),
        (
            r#"{"a":[{}]}"#,
            r#"{"$set":{"a.$.x":9,"a.0.y":8}}"#,
            Some(0),
            Ok(r#"{"a":[{"y":8,"x":9}]}"#),
        ),
        (r#"{"a":[{}]}"#, r#"{"$set":{"a.$.x":9,"a.0.x.y":8}}"#, Some(0), Err(40)),
    ] {
        let change = update(text, "[]").unwrap();
        assert_eq!(change.matched_array(), Some("a"));
        let found = applied(document, &change, &at(position)).map_err(|error| error.code());
        assert_eq!(found, expected.map(str::to_owned), "{text} of {document}");
    }
    let deep = update(r#"{"$set":{"b":1,"a.0.c.$.d":1}}"#, "[]").unwrap();
    assert_eq!(deep.matched_array(), Some("a.0.c"));
    assert_eq!(update(r#"{"$set":{"a.$[]":1}}"#, "[]").unwrap().matched_array(), None);
}

#[test]
fn all_and_filtered_elements_are_changed() {
    for (document, text, filters, expected) in [
        (r#"{"a":[1,2]}"#, r#"{"$inc":{"a.$[]":10}}"#, "[]", Ok(r#"{"a":[11,12]}"#)),
        (r#"{"a":[]}"#, r#"{"$inc":{"a.$[]":10}}"#, "[]", Ok(r#"{"a":[]}"#)),
        (
            r#"{"a":[{},{"b":1}]}"#,
            r#"{"$set":{"a.$[].b":0}}"#,
            "[]",
            Ok(r#"{"a":[{"b":0},{"b":0}]}"#),
        ),
        (r#"{"a":[[1],[2,3]]}"#, r#"{"$mul":{"a.$[].$[]":2}}"#, "[]", Ok(r#"{"a":[[2],[4,6]]}"#)),
        (
            r#"{"a":[1,7,9]}"#,
            r#"{"$set":{"a.$[x]":5}}"#,
            r#"[{"x":{"$gt":5}}]"#,
            Ok(r#"{"a":[1,5,5]}"#),
        ),
        (
            r#"{"a":[{"k":1,"v":[1,2]},{"k":2,"v":[1]}]}"#,
            r#"{"$inc":{"a.$[x].v.$[y]":10}}"#,
            r#"[{"x.k":1},{"y":{"$gte":2}}]"#,
            Ok(r#"{"a":[{"k":1,"v":[1,12]},{"k":2,"v":[1]}]}"#),
        ),
        (
            r#"{"a":[{"k":1},{"k":2},{"k":3}]}"#,
            r#"{"$set":{"a.$[x].s":true}}"#,
            r#"[{"$or":[{"x.k":1},{"x.k":3}]}]"#,
            Ok(r#"{"a":[{"k":1,"s":true},{"k":2},{"k":3,"s":true}]}"#),
        ),
        (
            r#"{"a":[1,2,3]}"#,
            r#"{"$inc":{"a.$[x]":10,"a.$[y]":100}}"#,
            r#"[{"x":{"$lt":2}},{"y":{"$gt":2}}]"#,
            Ok(r#"{"a":[11,2,103]}"#),
        ),
        (
            r#"{"a":[1,2,3]}"#,
            r#"{"$inc":{"a.$[x]":10,"a.$[]":100}}"#,
            r#"[{"x":{"$lt":2}}]"#,
            Err(40),
        ),
        (r#"{"a":[1,2]}"#, r#"{"$unset":{"a.$[x]":""}}"#, r#"[{"x":1}]"#, Ok(r#"{"a":[null,2]}"#)),
        (r#"{"a":5}"#, r#"{"$set":{"a.$[]":1}}"#, "[]", Err(2)),
        ("{}", r#"{"$unset":{"a.$[]":1}}"#, "[]", Err(2)),
        (r#"{"a":[1]}"#, r#"{"$set":{"a.$[].b":1}}"#, "[]", Err(28)),
    ] {
        let change = update(text, filters).unwrap();
        let found = applied(document, &change, &Context::default()).map_err(|error| error.code());
        assert_eq!(found, expected.map(str::to_owned), "{text} of {document}");
    }
}

#[test]
fn a_replacement_keeps_the_id() {
    check(&[
        (r#"{"_id":1,"a":2}"#, r#"{"b":3}"#, r#"{"_id":1,"b":3}"#),
        (r#"{"_id":1,"a":2}"#, r#"{"b":3,"_id":1}"#, r#"{"_id":1,"b":3}"#),
        (r#"{"_id":1,"a":2}"#, "{}", r#"{"_id":1}"#),
        (r#"{"_id":1,"a":2}"#, r#"{"a":2}"#, r#"{"_id":1,"a":2}"#),
        (r#"{"a":2}"#, r#"{"b":{"$c":3}}"#, r#"{"b":{"$c":3}}"#),
    ]);
    assert!(update("{}", "[]").unwrap().is_replacement());
    assert!(!update(r#"{"$set":{}}"#, "[]").unwrap().is_replacement());
}

#[test]
fn a_pipeline_computes_the_new_document() {
    check(&[
        (
            r#"{"_id":1,"a":2,"b":3}"#,
            r#"[{"$set":{"c":{"$add":["$a","$b"]}}},{"$unset":"a"}]"#,
            r#"{"_id":1,"b":3,"c":5}"#,
        ),
        (r#"{"_id":1,"a":2}"#, r#"[{"$addFields":{"a":2}}]"#, r#"{"_id":1,"a":2}"#),
        (r#"{"_id":1,"a":{"x":2}}"#, r#"[{"$replaceWith":"$a"}]"#, r#"{"_id":1,"x":2}"#),
        (r#"{"_id":1,"a":2,"b":3}"#, r#"[{"$project":{"b":1}}]"#, r#"{"_id":1,"b":3}"#),
        (r#"{"_id":1}"#, "[]", r#"{"_id":1}"#),
    ]);
}
