//! The BSON of every type, and the JSON of the document that it becomes.

use super::{json, read, unhex, written};
use flagstone::doc::{JsonMode, JsonOptions};
use flagstone::{Document, Value, doc};

/// The elements of a document, their BSON without the document around them, and the JSON.
pub(crate) const TYPES: [(&str, &str); 36] = [
    ("01 61 00 00 00 00 00 00 00 f8 3f", r#"{"a":1.5}"#),
    ("01 61 00 00 00 00 00 00 00 f0 3f", r#"{"a":1.0}"#),
    ("01 61 00 00 00 00 00 00 00 00 80", r#"{"a":-0.0}"#),
    ("01 61 00 00 00 00 00 00 00 f8 7f", r#"{"a":{"$numberDouble":"NaN"}}"#),
    ("02 61 00 04 00 00 00 c3 a9 78 00", "{\"a\":\"\u{e9}x\"}"),
    ("02 61 00 02 00 00 00 00 00", r#"{"a":"\u0000"}"#),
    ("03 61 00 05 00 00 00 00", r#"{"a":{}}"#),
    ("03 61 00 0b 00 00 00 10 00 01 00 00 00 00", r#"{"a":{"":1}}"#),
    ("04 61 00 05 00 00 00 00", r#"{"a":[]}"#),
    ("04 61 00 0f 00 00 00 0a 30 00 10 31 00 07 00 00 00 00", r#"{"a":[null,7]}"#),
    ("05 61 00 02 00 00 00 00 01 ff", r#"{"a":{"$binary":{"base64":"Af8=","subType":"00"}}}"#),
    (
        "05 61 00 10 00 00 00 04 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f",
        r#"{"a":{"$uuid":"00010203-0405-0607-0809-0a0b0c0d0e0f"}}"#,
    ),
    ("05 61 00 01 00 00 00 04 01", r#"{"a":{"$binary":{"base64":"AQ==","subType":"04"}}}"#),
    ("05 61 00 01 00 00 00 80 01", r#"{"a":{"$binary":{"base64":"AQ==","subType":"80"}}}"#),
    (
        "05 61 00 06 00 00 00 02 02 00 00 00 01 02",
        r#"{"a":{"$binary":{"base64":"AQI=","subType":"02"}}}"#,
    ),
    ("06 61 00", r#"{"a":{"$undefined":true}}"#),
    (
        "07 61 00 56 e1 fc 72 e0 c9 17 e9 c4 71 41 61",
        r#"{"a":{"$oid":"56e1fc72e0c917e9c4714161"}}"#,
    ),
    ("08 61 00 00", r#"{"a":false}"#),
    ("08 61 00 01", r#"{"a":true}"#),
    ("09 61 00 01 00 00 00 00 00 00 00", r#"{"a":{"$date":"1970-01-01T00:00:00.001Z"}}"#),
    ("09 61 00 ff ff ff ff ff ff ff ff", r#"{"a":{"$date":{"$numberLong":"-1"}}}"#),
    ("0a 61 00", r#"{"a":null}"#),
    ("0b 61 00 78 2e 00 69 00", r#"{"a":{"$regularExpression":{"pattern":"x.","options":"i"}}}"#),
    (
        "0c 61 00 02 00 00 00 63 00 56 e1 fc 72 e0 c9 17 e9 c4 71 41 61",
        r#"{"a":{"$dbPointer":{"$ref":"c","$id":{"$oid":"56e1fc72e0c917e9c4714161"}}}}"#,
    ),
    ("0d 61 00 02 00 00 00 78 00", r#"{"a":{"$code":"x"}}"#),
    ("0e 61 00 02 00 00 00 78 00", r#"{"a":{"$symbol":"x"}}"#),
    (
        "0f 61 00 16 00 00 00 02 00 00 00 78 00 0c 00 00 00 10 79 00 01 00 00 00 00",
        r#"{"a":{"$code":"x","$scope":{"y":1}}}"#,
    ),
    ("10 61 00 ff ff ff 7f", r#"{"a":2147483647}"#),
    ("11 61 00 02 00 00 00 ff ff ff ff", r#"{"a":{"$timestamp":{"t":4294967295,"i":2}}}"#),
    ("12 61 00 01 00 00 00 00 00 00 00", r#"{"a":{"$numberLong":"1"}}"#),
    ("12 61 00 00 00 00 00 00 00 00 80", r#"{"a":-9223372036854775808}"#),
    ("13 61 00 6e 00 00 00 00 00 00 00 00 00 00 00 00 00 3c 30", r#"{"a":1.10}"#),
    ("13 61 00 05 00 00 00 00 00 00 00 00 00 00 00 00 00 40 30", r#"{"a":{"$numberDecimal":"5"}}"#),
    ("13 61 00 01 00 00 00 00 00 00 00 00 00 00 00 00 00 46 30", r#"{"a":1E+3}"#),
    ("7f 61 00", r#"{"a":{"$maxKey":1}}"#),
    ("ff 61 00", r#"{"a":{"$minKey":1}}"#),
];

/// Returns the document of these elements.
pub(crate) fn document(elements: &str) -> Vec<u8> {
    let elements = unhex(elements);
    let len = elements.len() as i32 + 5;
    [&len.to_le_bytes(), &elements[..], &[0]].concat()
}

#[test]
fn every_type_has_its_json_and_comes_back() {
    for (elements, expected) in TYPES {
        let bson = document(elements);
        let read = read(&bson).unwrap_or_else(|error| panic!("{expected}: {error}"));
        assert_eq!(json(&read), expected);
        assert_eq!(written(&read).unwrap(), bson, "{expected}");
        // So does what was read from its JSON.
        let options = JsonOptions::new().mode(JsonMode::Extended);
        let parsed = Document::from_json_with(expected, options).unwrap();
        assert_eq!(written(parsed.as_bytes()).unwrap(), bson, "{expected}");
    }
    // All together, and decoded in between: a value remembers the width of its numbers.
    let all: String = TYPES
        .iter()
        .enumerate()
        .map(|(at, (elements, _))| elements.replacen("61", &format!("{:02x}", 0x41 + at), 1))
        .collect();
    let bson = document(&all);
    let read = read(&bson).unwrap();
    let value = flagstone::internal::document::validate(&read, None).unwrap().to_value().unwrap();
    let again = Document::from_value(&value).unwrap();
    assert_eq!(written(again.as_bytes()).unwrap(), bson);
}

#[test]
fn numbers_of_json_become_doubles_where_these_print_the_same() {
    const INT: u8 = 0x10;
    const LONG: u8 = 0x12;
    const DOUBLE: u8 = 0x01;
    const DECIMAL: u8 = 0x13;
    for (literal, kind) in [
        ("7", INT),
        ("2147483648", LONG),
        ("9223372036854775807", LONG),
        ("9223372036854775808", DECIMAL),
        ("100000000000000000000", DECIMAL),
        ("-0", DOUBLE),
        ("1.5", DOUBLE),
        ("-0.1", DOUBLE),
        ("1.0", DOUBLE),
        ("1.10", DECIMAL),
        ("0.30000000000000004", DOUBLE),
        ("0.3000000000000000400", DECIMAL),
        ("0.1234567890123456789", DECIMAL),
        ("1e3", DOUBLE),
        ("1e-7", DOUBLE),
        ("1.7976931348623157e308", DOUBLE),
        ("5e-324", DOUBLE),
        ("1e309", DECIMAL),
        ("1.0E10", DOUBLE),
        // As decimals are written.
        ("1.0E+10", DECIMAL),
        ("0.000001", DOUBLE),
    ] {
        let document = Document::from_json(format!(r#"{{"a":{literal}}}"#)).unwrap();
        let bson = written(document.as_bytes()).unwrap();
        assert_eq!(bson[4], kind, "{literal}");
        // The number is the same, and the BSON from now on.
        let read = read(&bson).unwrap();
        let again = Document::from_bytes(read.clone(), None).unwrap();
        assert_eq!(again, document, "{literal}");
        assert_eq!(written(&read).unwrap(), bson, "{literal}");
    }
    let long = format!(r#"{{"x":{{"a":[1,0.{}1]}}}}"#, "123".repeat(20));
    let error = written(Document::from_json(long).unwrap().as_bytes()).unwrap_err();
    assert_eq!(error.path, "x.a[1]");
    assert!(error.to_string().contains("expected a number of at most 34 digits"), "{error}");
}

#[test]
fn what_bson_lacks_goes_out_as_near_as_it_can() {
    let micros = flagstone::doc::DateTime::from_micros;
    let pairs: flagstone::doc::Map =
        [(Value::from(1), Value::from("one")), (true.into(), doc!([2]))].into_iter().collect();
    for (value, expected) in [
        (Value::from(micros(1_999)), r#"{"$date":"1970-01-01T00:00:00.001Z"}"#),
        (micros(-1).into(), r#"{"$date":{"$numberLong":"-1"}}"#),
        (micros(i64::MIN).into(), r#"{"$date":{"$numberLong":"-9223372036854776"}}"#),
        (Value::Map(pairs), r#"{"$literal":{"$pairs":[[true,[2]],[1,"one"]]}}"#),
        (doc!({ "a\0b": [1], "c": 2 }), r#"{"$literal":{"$pairs":[["a\u0000b",[1]],["c",2]]}}"#),
    ] {
        let own = Document::from_value(&doc!({ "a": (value) })).unwrap();
        let out = written(own.as_bytes());
        // The first date is before what 64 bits of microseconds hold from milliseconds.
        match out.map(|bson| read(&bson)).unwrap() {
            Ok(read) => assert_eq!(json(&read), format!(r#"{{"a":{expected}}}"#)),
            Err(error) => {
                assert!(expected.contains("-9223372036854776"), "{error}");
                assert!(error.to_string().contains("at a: expected a date of less than 2^63"));
            }
        }
    }
    for (value, path, expected) in [
        (doc!([1]), "", "a document, found array"),
        (doc!({ "a": [{ "b": (Value::number("1e7000")) }] }), "a[0].b", "an exponent of BSON"),
    ] {
        let document = Document::from_value(&value).unwrap();
        let error = written(document.as_bytes()).unwrap_err();
        assert_eq!(error.path, path);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Each level was written twice once the last of its names had a zero: 2^100 times in all.
#[test]
fn nested_maps_with_a_zero_in_their_last_names_are_written_once() {
    let mut value = doc!(1);
    for _ in 0..100 {
        value = doc!({ "a": (value), "z\0": 1 });
    }
    let document = Document::from_value(&value).unwrap();
    let bson = written(document.as_bytes()).unwrap();
    assert!(bson.len() < 100 * 100, "{}", bson.len());
    assert_eq!(bson.windows(7).filter(|name| name == b"$pairs\0").count(), 100);
}

#[test]
fn maps_that_only_look_like_other_types_stay_documents() {
    for text in [
        r#"{"a":{"$timestamp":{"t":-1,"i":2}}}"#,
        r#"{"a":{"$timestamp":{"t":4294967296,"i":2}}}"#,
        r#"{"a":{"$timestamp":{"t":1,"i":2},"x":1}}"#,
        r#"{"a":{"$timestamp":{"t":1,"i":2,"x":1}}}"#,
        r#"{"a":{"$timestamp":{"t":1.0,"i":2}}}"#,
        r#"{"a":{"$timestamp":{"i":2,"t":1}}}"#,
        r#"{"a":{"$regularExpression":{"pattern":"a","options":"xi"}}}"#,
        r#"{"a":{"$regularExpression":{"pattern":"a\u0000","options":""}}}"#,
        r#"{"a":{"$regularExpression":"a"}}"#,
        r#"{"a":{"$code":1}}"#,
        r#"{"a":{"$code":"x","$scope":1}}"#,
        r#"{"a":{"$dbPointer":{"$ref":"c","$id":1}}}"#,
        r#"{"a":{"$binary":{"base64":"AQ==","subType":"5"}}}"#,
        r#"{"a":{"$binary":{"base64":"AQ","subType":"05"}}}"#,
        r#"{"a":{"$binary":{"base64":"AQI=","subType":"00"}}}"#,
        r#"{"a":{"$undefined":false}}"#,
        r#"{"a":{"$minKey":2}}"#,
        r#"{"a":{"$date":{"$numberLong":"5"}}}"#,
        r#"{"$timestamp":{"t":1,"i":2}}"#,
        r#"{"a":{"$set":{"b":1}}}"#,
    ] {
        let document = Document::from_json(text).unwrap();
        let bson = written(document.as_bytes()).unwrap();
        let back = Document::from_bytes(read(&bson).unwrap(), None).unwrap();
        assert_eq!(back.to_json().unwrap(), text);
    }
}
