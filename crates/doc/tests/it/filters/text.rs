//! The text of filters.

use flagstone_doc::{Filter, FilterError};

#[test]
fn a_filter_is_written_in_one_form() {
    for (given, written) in [
        (r#" { "a" : 1 , "b" : { "$gt" : 2 } } "#, r#"{"a":1,"b":{"$gt":2}}"#),
        (r#"{"a":{"$eq":1}}"#, r#"{"a":1}"#),
        (r#"{"a":{"$eq":{"x":1}}}"#, r#"{"a":{"$eq":{"x":1}}}"#),
        (r#"{"a":{"x":1}}"#, r#"{"a":{"$eq":{"x":1}}}"#),
        (r#"{"$and":[{"a":1},{"b":2},{}]}"#, r#"{"a":1,"b":2}"#),
        (r#"{"$and":[{"a":1},{"a":2}]}"#, r#"{"a":{"$all":[1,2]}}"#),
        (
            r#"{"$and":[{"a":{"$gt":1}},{"b":1},{"a":{"$lt":5}}]}"#,
            r#"{"a":{"$gt":1,"$lt":5},"b":1}"#,
        ),
        (r#"{"$or":[{"$or":[{"a":1},{"b":2}]},{"c":3}]}"#, r#"{"$or":[{"a":1},{"b":2},{"c":3}]}"#),
        (r#"{"$or":[{"a":1}]}"#, r#"{"a":1}"#),
        (r#"{"$nor":[{"a":1}]}"#, r#"{"a":{"$ne":1}}"#),
        (r#"{"$nor":[{"a":1,"b":2}]}"#, r#"{"$nor":[{"a":1,"b":2}]}"#),
        (r#"{"a":{"$not":{"$eq":1}}}"#, r#"{"a":{"$ne":1}}"#),
        (r#"{"a":{"$not":{"$exists":true}}}"#, r#"{"a":{"$exists":false}}"#),
        (r#"{"a":{"$not":{"$gt":1,"$lt":5}}}"#, r#"{"$nor":[{"a":{"$gt":1,"$lt":5}}]}"#),
        (r#"{"a":{"$in":["x",2,1,2.0]}}"#, r#"{"a":{"$in":[1,2,"x"]}}"#),
        (r#"{"a":{"$type":["string","null"]}}"#, r#"{"a":{"$type":["null","text"]}}"#),
        (r#"{"a":{"$regex":"x","$options":"xi"}}"#, r#"{"a":{"$regex":"x","$options":"ix"}}"#),
        (
            r#"{"a":{"$not":{"$regex":"x","$options":"i"}}}"#,
            r#"{"a":{"$not":{"$regex":"x","$options":"i"}}}"#,
        ),
        (r#"{"$.a['b']":1}"#, r#"{"a.b":1}"#),
        (r#"{"a":1.10}"#, r#"{"a":1.10}"#),
        (r#"{"a":{"$numberLong":"5"}}"#, r#"{"a":5}"#),
        (
            r#"{"a":{"$date":"2019-08-01T02:00:00+02:00"}}"#,
            r#"{"a":{"$date":"2019-08-01T00:00:00Z"}}"#,
        ),
        (
            r#"{"a":[{"$uuid":"07070707-0707-0707-0707-070707070707"}]}"#,
            r#"{"a":[{"$uuid":"07070707-0707-0707-0707-070707070707"}]}"#,
        ),
        (
            r#"{"a":{"$oid":"56E1FC72E0C917E9C4714161"}}"#,
            r#"{"a":{"$oid":"56e1fc72e0c917e9c4714161"}}"#,
        ),
        (r#"{"a":{"$pairs":[[1,"x"]]}}"#, r#"{"a":{"$eq":{"$pairs":[[1,"x"]]}}}"#),
        (r#"{"a":{"$elemMatch":{"$eq":1}}}"#, r#"{"a":{"$elemMatch":{"$eq":1}}}"#),
        (r#"{"a":{"$elemMatch":{"$":1,"b":2}}}"#, r#"{"a":{"$elemMatch":{"$":1,"b":2}}}"#),
        (r#"{"a\"\n":"\u0001"}"#, r#"{"a\"\n":"\u0001"}"#),
    ] {
        let filter = Filter::parse(given).unwrap();
        assert_eq!(filter.to_string(), written, "{given}");
        assert_eq!(Filter::parse(written).unwrap().to_string(), written);
    }
}

fn error(text: &str) -> FilterError {
    Filter::parse(text).map(|filter| format!("{text} is {filter}")).unwrap_err()
}

#[test]
fn an_error_names_the_place_and_what_was_expected() {
    const FILTER: &str = "a map of paths and conditions";
    for (text, offset, place, expected) in [
        ("", 0, "", "a value"),
        ("{", 1, "", "a name in quotes"),
        ("[1]", 0, "", FILTER),
        (" 7", 1, "", FILTER),
        (r#"{"$or":{"a":1}}"#, 7, "$or", "an array of one filter or more"),
        (r#"{"$or":[]}"#, 7, "$or", "an array of one filter or more"),
        (r#"{"$or":[{"a":1}, 5]}"#, 17, "$or[1]", FILTER),
        (r#"{"a":1, "$where":"x"}"#, 8, "$where", "a path or one of $key $and $or $nor"),
        (r#"{"a":{"$gt":1,"$gtt":2}}"#, 14, "a.$gtt", "one of the operators"),
        (r#"{"a":{"$gt":1,"b":2}}"#, 14, "a.b", "one of the operators"),
        (r#"{"a":{"b":1,"$gt":2}}"#, 6, "a.b", "one of the operators"),
        (r#"{"a":{"$or":[{"$gt":2}]}}"#, 6, "a.$or", "one of the operators"),
        (r#"{"a":{"$in":5}}"#, 12, "a.$in", "an array of values"),
        (r#"{"a":{"$exists":"x"}}"#, 16, "a.$exists", "true or false, or a number"),
        (r#"{"a":{"$size":-1}}"#, 14, "a.$size", "an integer from 0 on"),
        (r#"{"a":{"$mod":[0,1]}}"#, 13, "a.$mod", "[divisor, remainder]"),
        (r#"{"a":{"$type":["text","texts"]}}"#, 22, "a.$type[1]", "a type: number, map"),
        (r#"{"a":{"$type":[]}}"#, 14, "a.$type", "a type: number, map"),
        (r#"{"a":{"$prefix":1}}"#, 16, "a.$prefix", "text"),
        (r#"{"a":{"$regex":"("}}"#, 15, "a.$regex", "a regular expression (unclosed group)"),
        (r#"{"a":{"$regex":"x","$options":"g"}}"#, 15, "a.$regex", "options among i, m, s and x"),
        (r#"{"a":{"$options":"i"}}"#, 6, "a.$options", "$regex beside $options"),
        (r#"{"a":{"$not":5}}"#, 13, "a.$not", "a map of operators"),
        (r#"{"a":{"$elemMatch":5}}"#, 19, "a.$elemMatch", "a map of operators or of paths"),
        (r#"{"a":{"$date":"yesterday"}}"#, 14, "a.$date", "an RFC 3339 date"),
        (r#"{"a":{"$uuid":"x"}}"#, 14, "a.$uuid", "a UUID"),
        (r#"{"a":{"$oid":"x"}}"#, 13, "a.$oid", "an ObjectId of 24 hexadecimal digits"),
        (r#"{"a":{"$binary":"x"}}"#, 16, "a.$binary", "base64 with padding"),
        (r#"{"a":{"$numberInt":"x"}}"#, 19, "a.$numberInt", "the text of an integer of 32 bits"),
        (r#"{"a":[1,{"$gt":5}]}"#, 8, "a[1]", "a value; a map with a name"),
        (r#"{"a":{"$date":"2019-08-01T00:00:00Z","x":1}}"#, 5, "a", "a value; a map with a name"),
        (r#"{"a":{"$in":[[{"$pairs":[[1]]}]]}}"#, 25, "a.$in[0][0].$pairs[0]", "a pair"),
        (r#"{"$.a[*]":1}"#, 1, "$.a[*]", "a path (field path, character 5"),
        (r#"{"a":1,"a":2}"#, 8, "", "a name that is new in its map"),
        (r#"{"x":{"y\"]}":[1,{}]}, "b":{"$size":"x"}}"#, 36, "b.$size", "an integer from 0 on"),
    ] {
        let error = error(text);
        assert_eq!((error.offset, error.place.as_str()), (Some(offset), place), "{text}: {error}");
        assert!(error.expected.starts_with(expected), "{text}: {error}");
    }
    assert_eq!(
        error(r#"{"score":{"$size":"many"}}"#).to_string(),
        r#"filter, byte 18, at score.$size: expected an integer from 0 on, found "many""#
    );
    let value = flagstone_doc::doc!({ "a": { "$size": [] } });
    let error = Filter::from_value(&value).unwrap_err();
    assert_eq!(
        error.to_string(),
        "filter, at a.$size: expected an integer from 0 on, found an empty array"
    );
    // It said that it expected and found an array.
    let text = Filter::parse(r#"{"$or":[]}"#).unwrap_err().to_string();
    assert!(text.ends_with("an array of one filter or more, found an empty array"), "{text}");
}
