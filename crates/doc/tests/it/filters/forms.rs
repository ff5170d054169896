//! Filters built in Rust, and values that JSON lacks.

use flagstone_doc::{DateTime, Document, Encoder, Filter, Names, ObjectId, Value, ValueType, doc};
use std::sync::Arc;

#[test]
fn values_that_json_lacks_have_forms_of_their_own() {
    let (uuid, time) = ([7; 16], DateTime::from_micros(1_564_617_600_000_000));
    let document = doc!({
        "t": time, "u": (Value::Uuid(uuid)), "b": (Value::Bytes(vec![0, 255])),
        "nan": (f64::NAN), "inf": (f64::INFINITY), "f": (0.5), "$a": 1, "m": { "$a": 1 },
        "old": (DateTime::from_micros(i64::MIN)), "o": (ObjectId::from_bytes([7; 12])),
    });
    let names = Arc::new(Names::new());
    let mut bytes = Vec::new();
    Encoder::new().encode(&document, Some(&names), &mut bytes).unwrap();
    let document = Document::from_bytes(bytes, Some(names)).unwrap();
    for (filter, expected) in [
        (r#"{"t":{"$date":"2019-08-01T00:00:00Z"}}"#, true),
        (r#"{"t":{"$gt":{"$date":"2019-08-01T00:00:00Z"}}}"#, false),
        (r#"{"t":{"$gte":{"$date":"2019-08-01T02:00:00+02:00"}}}"#, true),
        (r#"{"t":"2019-08-01T00:00:00Z"}"#, false),
        (r#"{"t":{"$type":"date"}}"#, true),
        (r#"{"old":{"$date":{"$micros":-9223372036854775808}}}"#, true),
        (r#"{"u":{"$uuid":"07070707-0707-0707-0707-070707070707"}}"#, true),
        (r#"{"u":{"$lt":{"$uuid":"07070707-0707-0707-0707-070707070708"}}}"#, true),
        (r#"{"o":{"$oid":"070707070707070707070707"}}"#, true),
        (r#"{"o":"070707070707070707070707"}"#, false),
        (r#"{"o":{"$gt":{"$oid":"070707070707070707070706"}}}"#, true),
        (r#"{"o":{"$in":[1,{"$oid":"070707070707070707070707"}]}}"#, true),
        (r#"{"o":{"$gt":{"$binary":""}}}"#, false),
        (r#"{"o":{"$type":"objectId"}}"#, true),
        (r#"{"o":{"$type":["objectid","text"]}}"#, true),
        (r#"{"u":{"$type":"objectid"}}"#, false),
        (r#"{"b":{"$binary":"AP8="}}"#, true),
        (r#"{"b":{"$gt":{"$binary":"AP8="}}}"#, false),
        (r#"{"nan":{"$numberDouble":"NaN"}}"#, true),
        (r#"{"nan":{"$gte":{"$numberDouble":"NaN"}}}"#, true),
        (r#"{"nan":{"$lt":5}}"#, false),
        (r#"{"nan":{"$gt":{"$numberDouble":"-Infinity"}}}"#, false),
        (r#"{"f":{"$gte":{"$numberDouble":"NaN"}}}"#, false),
        (r#"{"inf":{"$gt":1e400}}"#, true),
        (r#"{"inf":{"$numberDouble":"Infinity"}}"#, true),
        (r#"{"inf":{"$mod":[1,0]}}"#, false),
        (r#"{"f":{"$numberDecimal":"0.50"}}"#, true),
        (r#"{"m":{"$literal":{"$a":1}}}"#, true),
        (r#"{"m":{"$eq":{"$literal":{"$a":{"$numberInt":"1"}}}}}"#, true),
        (r#"{"m":{"$in":[{"$literal":{"$a":2}}]}}"#, false),
    ] {
        let parsed = Filter::parse(filter).unwrap();
        for filter in [parsed.clone(), Filter::parse(&parsed.to_string()).unwrap()] {
            let matcher = filter.compile().unwrap();
            assert_eq!(document.matches(&matcher), expected, "{filter}");
        }
    }
}

#[test]
fn the_builder_says_what_the_text_says() {
    let field = Filter::field::<&str>;
    for (built, text) in [
        (field("a").ne(1), r#"{"a":{"$ne":1}}"#),
        (field("a").gt(1).and(field("a").lte(5)), r#"{"a":{"$gt":1,"$lte":5}}"#),
        (field("a").one_of([2, 1, 2]), r#"{"a":{"$in":[1,2]}}"#),
        (field("a").none_of(["x"]), r#"{"a":{"$nin":["x"]}}"#),
        (field("a").all_of([2, 1]), r#"{"a":{"$all":[2,1]}}"#),
        (field("a").all_of(Vec::<Value>::new()), r#"{"a":{"$in":[]}}"#),
        (
            field("a").exists().and(field("b").is_missing()),
            r#"{"a":{"$exists":true},"b":{"$exists":false}}"#,
        ),
        (
            field("a").is_of_type([ValueType::Text, ValueType::Null]),
            r#"{"a":{"$type":["null","text"]}}"#,
        ),
        (field("a").is_of_type([]), r#"{"a":{"$in":[]}}"#),
        (
            field("a").prefix("x").and(field("a").contains("y")),
            r#"{"a":{"$prefix":"x","$contains":"y"}}"#,
        ),
        (
            field("a").matches("^x").and(field("a").modulo(4, 0)),
            r#"{"a":{"$regex":"^x","$mod":[4,0]}}"#,
        ),
        (field("a").size(3), r#"{"a":{"$size":3}}"#),
        (
            field("a").elem_match(Filter::value().gt(1).and(Filter::value().lt(5))),
            r#"{"a":{"$elemMatch":{"$gt":1,"$lt":5}}}"#,
        ),
        (
            field("a").elem_match(field("x").eq(1).and(!field("y").gt(5))),
            r#"{"a":{"$elemMatch":{"x":1,"y":{"$not":{"$gt":5}}}}}"#,
        ),
        (
            field("a").eq(1).or(field("b").eq(2)).or(field("c").eq(3)),
            r#"{"$or":[{"a":1},{"b":2},{"c":3}]}"#,
        ),
        (Filter::any([field("a").eq(1)]), r#"{"a":1}"#),
        (Filter::any([]), r#"{"$nor":[{}]}"#),
        (Filter::none([field("a").eq(1), field("b").eq(2)]), r#"{"$nor":[{"a":1},{"b":2}]}"#),
        (Filter::all([field("a").eq(1), field("b").eq(2)]), r#"{"a":1,"b":2}"#),
        (!!field("a").eq(1), r#"{"a":1}"#),
        (!Filter::everything(), r#"{"$nor":[{}]}"#),
        (!Filter::nothing(), "{}"),
        (field("$.a[0]").eq(doc!({ "x": 1 })), r#"{"$['a'][0]":{"$eq":{"x":1}}}"#),
        (field("a").eq(doc!({ "x": 1 })).and(field("a").eq(2)), r#"{"a":{"$all":[{"x":1},2]}}"#),
        (field("a").gt(1).and(field("a").gt(2)), r#"{"$and":[{"a":{"$gt":1}},{"a":{"$gt":2}}]}"#),
    ] {
        assert_eq!(built.to_string(), text);
        assert_eq!(Filter::parse(text).unwrap(), built);
    }
    let path = flagstone_doc::FieldPath::of_names(["a.b"]);
    assert_eq!(Filter::field(&path).eq(1).to_string(), r#"{"$['a.b']":1}"#);
    assert!(Filter::everything().is_everything() && Filter::parse("{}").unwrap().is_everything());
    assert!(!Filter::nothing().is_everything());
}
