//! Extended JSON: every document has a text, which reads back as an equal document.
//!
//! Before, a single float that is not finite stopped each command that printed its document, and
//! nothing that was printed came back as a date, bytes or a UUID. ObjectIds came back as maps,
//! so nothing that a driver had made could be found by what it had made.

use crate::random::{check, value};
use flagstone_doc::json::{append_relaxed_json, append_value_json_as};
use flagstone_doc::{
    DEPTH_MAX, DateTime, Document, Duplicates, Encoder, JsonMode, JsonOptions, JsonParser, Map,
    Names, NumberType, ObjectId, Value, View, doc, json,
};

fn options() -> JsonOptions {
    JsonOptions::new().mode(JsonMode::Extended).depth_max(DEPTH_MAX)
}

fn read(text: &str) -> Value {
    let parsed = JsonParser::new(options()).parse_value(text.as_bytes());
    parsed.map_err(|error| format!("{text}: {error}")).unwrap()
}

/// Returns the text of a value, of its document with names inside, and of that with names as ids.
fn written(value: &Value, mode: JsonMode) -> String {
    let mut text = Vec::new();
    json::append_value_json_as(value, mode, &mut text);
    let text = String::from_utf8(text).unwrap();
    let document = Document::from_value(value).unwrap();
    assert_eq!(document.to_json_as(mode).unwrap(), text);
    let (names, mut bytes) = (Names::new(), Vec::new());
    Encoder::new().encode(value, Some(&names), &mut bytes).unwrap();
    let mut by_ids = Vec::new();
    json::append_json_as(&View::of(&bytes, Some(&names)).unwrap(), mode, &mut by_ids).unwrap();
    assert_eq!(by_ids, text.as_bytes());
    text
}

fn millis(millis: i64) -> Value {
    DateTime::from_micros(millis * 1000).into()
}

fn object_id() -> Value {
    "56e1fc72e0c917e9c4714161".parse::<ObjectId>().unwrap().into()
}

fn pairs() -> Value {
    Value::Map(
        [(Value::from(1), Value::from("one")), (Value::from("a"), doc!({}))].into_iter().collect(),
    )
}

/// Values with their text in both modes.
fn forms() -> Vec<(Value, &'static str, &'static str)> {
    let nan = r#"{"$numberDouble":"NaN"}"#;
    let infinity = r#"{"$numberDouble":"Infinity"}"#;
    let minus = r#"{"$numberDouble":"-Infinity"}"#;
    let y10k = r#"{"$date":{"$numberLong":"253402300800000"}}"#;
    let last = r#"{"$date":{"$micros":9223372036854775807}}"#;
    let odd = r#"{"$pairs":[[1,"one"],["a",{}]]}"#;
    let bytes = r#"{"$binary":{"base64":"AAH/","subType":"00"}}"#;
    let uuid = r#"{"$uuid":"30313233-3435-3637-3839-616263646566"}"#;
    let id = r#"{"$oid":"56e1fc72e0c917e9c4714161"}"#;
    vec![
        (f64::NAN.into(), nan, nan),
        (f64::INFINITY.into(), infinity, infinity),
        (f64::NEG_INFINITY.into(), minus, minus),
        (Value::Float(-0.0), "-0.0", "-0.0"),
        (Value::Float(1.5), "1.5", "1.5"),
        (Value::number("1.10").unwrap(), "1.10", "1.10"),
        (Value::number("1e400").unwrap(), "1e400", "1e400"),
        (millis(0), r#""1970-01-01T00:00:00Z""#, r#"{"$date":"1970-01-01T00:00:00Z"}"#),
        (
            millis(501),
            r#""1970-01-01T00:00:00.501000Z""#,
            r#"{"$date":"1970-01-01T00:00:00.501Z"}"#,
        ),
        (
            DateTime::from_micros(7).into(),
            r#""1970-01-01T00:00:00.000007Z""#,
            r#"{"$date":"1970-01-01T00:00:00.000007Z"}"#,
        ),
        (millis(-1), r#""1969-12-31T23:59:59.999000Z""#, r#"{"$date":{"$numberLong":"-1"}}"#),
        (
            DateTime::from_micros(-1).into(),
            r#""1969-12-31T23:59:59.999999Z""#,
            r#"{"$date":"1969-12-31T23:59:59.999999Z"}"#,
        ),
        (millis(253_402_300_800_000), y10k, y10k),
        (DateTime::from_micros(i64::MAX).into(), last, last),
        (vec![0_u8, 1, 255].into(), r#""AAH/""#, bytes),
        (Value::Uuid(*b"0123456789abcdef"), r#""30313233-3435-3637-3839-616263646566""#, uuid),
        (object_id(), r#""56e1fc72e0c917e9c4714161""#, id),
        (pairs(), odd, odd),
    ]
}

#[test]
fn what_json_lacks_has_a_text_in_both_modes() {
    for (value, plain, extended) in forms() {
        for wrap in [|value| value, |value| doc!({ "a": [1, (value)] })] {
            let wrapped = |text: &str| match wrap(Value::Null) {
                Value::Null => text.to_owned(),
                _ => format!(r#"{{"a":[1,{text}]}}"#),
            };
            let value: Value = wrap(value.clone());
            assert_eq!(written(&value, JsonMode::Plain), wrapped(plain));
            assert_eq!(written(&value, JsonMode::Extended), wrapped(extended));
            assert_eq!(read(&wrapped(extended)), value);
            assert_eq!(
                format!("{:?}", read(&wrapped(extended)).value_type()),
                format!("{:?}", value.value_type())
            );
            // In plain JSON a text or a map stays one.
            let text = wrapped(plain);
            let again = json::parse(&text).unwrap();
            assert_eq!(written(&again, JsonMode::Plain), text);
            let inside = again.get("a").and_then(|items| items.at(1)).unwrap_or(&again);
            assert!(
                !matches!(inside, Value::DateTime(_) | Value::Float(_) | Value::Bytes(_)),
                "{text}"
            );
        }
    }
}

/// What MongoDB's tools write was loaded as the number alone, and went out as another type.
#[test]
fn canonical_numbers_keep_their_types_for_drivers() {
    for (text, of) in [
        (r#"{"$numberInt":"5"}"#, NumberType::Int),
        (r#"{"$numberLong":"5"}"#, NumberType::Long),
        (r#"{"$numberDouble":"5"}"#, NumberType::Double),
        (r#"{"$numberDouble":"5.0"}"#, NumberType::Double),
        (r#"{"$numberDecimal":"5"}"#, NumberType::Decimal),
        (r#"{"$numberDecimal":"1.5"}"#, NumberType::Decimal),
        (r#"{"$numberDecimal":"-00.5"}"#, NumberType::Decimal),
        (r#"{"$numberDecimal":"-0"}"#, NumberType::Decimal),
        (r#"{"$numberDecimal":"1e3"}"#, NumberType::Decimal),
    ] {
        let document = Document::from_json_with(format!(r#"{{"n":{text}}}"#), options()).unwrap();
        let value = document.get("n").unwrap().to_value().unwrap();
        assert_eq!(NumberType::of(&value), Some(of), "{text}");
        assert_eq!(NumberType::of(&read(text)), Some(of), "{text}");
        // What is written is read with its type again.
        let written = document.to_json_as(JsonMode::Extended).unwrap();
        let again = Document::from_json_with(&written, options()).unwrap();
        let read = again.get("n").unwrap().to_value().unwrap();
        assert_eq!((NumberType::of(&read), &read), (Some(of), &value), "{written}");
        let mut of_value = Vec::new();
        append_value_json_as(&value, JsonMode::Extended, &mut of_value);
        assert_eq!(written, format!(r#"{{"n":{}}}"#, String::from_utf8(of_value).unwrap()));
        // A number that says its type by itself is one.
        let is_typed = written.contains('$');
        let plain = Document::from_json(document.to_json().unwrap()).unwrap();
        let alone = plain.get("n").unwrap().to_value().unwrap();
        assert_eq!(is_typed, NumberType::of(&alone) != Some(of), "{written}");
        let mut relaxed = Vec::new();
        append_relaxed_json(&document.root(), &mut relaxed).unwrap();
        let relaxed = String::from_utf8(relaxed).unwrap();
        let is_long = of == NumberType::Long;
        assert_eq!(relaxed, if is_long { r#"{"n":5}"#.to_owned() } else { written });
    }
}

#[test]
fn relaxed_and_canonical_forms_are_read() {
    let bytes = || Value::from(vec![1_u8, 2]);
    let uuid = Value::Uuid(*b"0123456789abcdef");
    for (text, value) in [
        (r#"{"$numberInt":"-2147483648"}"#, (-2_147_483_648_i64).into()),
        (r#"{"$numberLong":"9223372036854775807"}"#, i64::MAX.into()),
        (r#"{"$numberDouble":"1.5"}"#, 1.5.into()),
        (r#"{"$numberDouble":"-1.2E+18"}"#, (-1.2e18).into()),
        (r#"{"$numberDouble":"0.1"}"#, Value::number("0.1").unwrap()),
        (r#"{"$numberDecimal":"1.10"}"#, Value::number("1.10").unwrap()),
        (r#"{"$numberDecimal":"1E+6144"}"#, Value::number("1e6144").unwrap()),
        (r#"{"$numberDecimal":"NaN"}"#, f64::NAN.into()),
        (r#"{"$numberDecimal":"-Infinity"}"#, f64::NEG_INFINITY.into()),
        (r#"{"$date":{"$numberLong":"0"}}"#, millis(0)),
        (r#"{"$date":{"$numberLong":"-1"}}"#, millis(-1)),
        (r#"{"$date":"1970-01-01T00:00:00.001Z"}"#, millis(1)),
        (r#"{"$date":"1970-01-01t01:00:00.001999999+01:00"}"#, DateTime::from_micros(1_999).into()),
        (r#"{"$date":"2016-12-31T23:59:60Z"}"#, millis(1_483_228_800_000)),
        (r#"{"$binary":{"base64":"AQI=","subType":"00"}}"#, bytes()),
        (r#"{"$binary":{"subType":"0","base64":"AQI="}}"#, bytes()),
        (r#"{"$binary":"AQI=","$type":"00"}"#, bytes()),
        (r#"{"$binary":"AQI=","$type":0}"#, bytes()),
        (r#" { "$type" : "00" , "$binary" : "AQI=" } "#, bytes()),
        (r#"{"$type":0,"$binary":"AQI="}"#, bytes()),
        (r#"{"$binary":"AQI="}"#, bytes()),
        (r#"{"$uuid":"30313233-3435-3637-3839-616263646566"}"#, uuid.clone()),
        (r#"{"$oid":"56E1FC72E0C917E9C4714161"}"#, object_id()),
        (
            r#"{"$ref":"c","$id":{"$oid":"56e1fc72e0c917e9c4714161"},"$db":"d"}"#,
            doc!({ "$ref": "c", "$id": (object_id()), "$db": "d" }),
        ),
        (r#"{"$binary":{"base64":"MDEyMzQ1Njc4OWFiY2RlZg==","subType":"04"}}"#, uuid),
        (r#"{"\u0024date" : "1970-01-01T00:00:00Z"}"#, millis(0)),
        (r#"{"$d\u0061te":{"$numberLong":"0"}}"#, millis(0)),
        (r#"[{"$numberInt":"1"},{"a":{"$numberInt":"2"},"b":3}]"#, doc!([1, { "a": 2, "b": 3 }])),
        (r#"{"$literal":{}}"#, doc!({})),
        (r#"{"$pairs":[]}"#, doc!({})),
        (r#"{"$pairs":[[{"$numberInt":"1"},"one"],["a",{}]]}"#, pairs()),
    ] {
        assert_eq!(read(text), value, "{text}");
        let names = Names::new();
        let (mut parser, mut out) = (JsonParser::new(options()), Vec::new());
        // Twice, since the second time the names are known.
        for _ in 0..2 {
            out.clear();
            parser.parse(text.as_bytes(), Some(&names), &mut out).unwrap();
            let view = flagstone_doc::validate(&out, Some(&names)).unwrap();
            assert_eq!(view.to_value().unwrap(), value, "{text}");
        }
    }
}

/// MongoDB has more types, and other databases other names with a dollar sign.
#[test]
fn maps_of_other_types_stay_maps() {
    for text in [
        r#"{"$timestamp":{"t":1,"i":2}}"#,
        r#"{"_id":{"$maxKey":1},"n":{"$timestamp":{"t":1,"i":2}}}"#,
        r#"{"$regularExpression":{"pattern":"a","options":""}}"#,
        r#"{"$ref":"c","$id":5,"$db":"d"}"#,
        r#"{"$minKey":1}"#,
        r#"{"$binary":{"base64":"AQI=","subType":"05"}}"#,
        r#"{"$binary":{"base64":"AQI=","subType":"04"}}"#,
        r#"{"$binary":"AQI=","$type":"80"}"#,
        r#"{"$type":"string"}"#,
        r#"{"$type":"00","x":{"$type":1}}"#,
        r#"{"$":1,"$dat":2,"$dates":3,"date":4}"#,
    ] {
        let value = read(text);
        assert_eq!(value, json::parse(text).unwrap());
        assert_eq!(written(&value, JsonMode::Extended), text);
    }
    let with_date = read(r#"{"$code":{"$date":{"$numberLong":"0"}}}"#);
    assert_eq!(with_date.get("$code"), Some(&millis(0)));
}

/// MongoDB cannot write such a map so that it comes back; here it is wrapped.
#[test]
fn a_map_that_looks_like_a_form_comes_back() {
    for text in [
        r#"{"$date":"1970-01-01T00:00:00Z"}"#,
        r#"{"$date":1}"#,
        r#"{"$oid":"56e1fc72e0c917e9c4714161"}"#,
        r#"{"$oid":"56e1fc72"}"#,
        r#"{"$oid":5,"x":{}}"#,
        r#"{"a":1,"$date":2}"#,
        r#"{"$date":{"$date":{"$date":[{"$uuid":null}]}}}"#,
        r#"{"$numberDouble":"NaN"}"#,
        r#"{"$binary":{"base64":"AQI=","subType":"00"}}"#,
        r#"{"$binary":{"base64":"!","subType":"05"}}"#,
        r#"{"$binary":{"base64":"AQI=","subType":["05"]}}"#,
        r#"{"$binary":{"base64":{},"subType":"05"},"$type":[]}"#,
        r#"{"$type":"00","$binary":"AQI="}"#,
        r#"{"$literal":{"$date":1}}"#,
        r#"{"$literal":5}"#,
        r#"{"$pairs":[[1,2]]}"#,
        r#"[{"x":{"$numberLong":"1"}}]"#,
    ] {
        let value = json::parse(text).unwrap();
        let extended = written(&value, JsonMode::Extended);
        assert!(extended.contains("$literal"), "{extended}");
        assert_eq!(read(&extended), value, "{extended}");
        assert_eq!(written(&value, JsonMode::Plain), text);
    }
    let date = doc!({ "$date": (millis(0)) });
    let text = r#"{"$literal":{"$date":{"$date":"1970-01-01T00:00:00Z"}}}"#;
    assert_eq!(written(&date, JsonMode::Extended), text);
    assert_eq!(read(text), date);
}

#[test]
fn a_bad_form_is_refused_at_its_place() {
    let alone = "the name of a value such as $date alone in its map";
    for (text, offset, expected) in [
        (r#"{"$date":42}"#, 9, "an RFC 3339 date"),
        (r#"{"a":{"$date":"yesterday"}}"#, 14, "an RFC 3339 date"),
        (r#"{"a":{"$date":"2001-02-30T00:00:00Z"}}"#, 14, "an RFC 3339 date"),
        (r#"{"a":{"$date":"2001-13-01T00:00:00Z"}}"#, 14, "an RFC 3339 date"),
        (r#"[1,{"$date":{"$numberLong":5}}]"#, 12, "an RFC 3339 date"),
        (r#"{"$date":{"$numberLong":"9223372036854775807"}}"#, 9, "milliseconds that are less"),
        (r#"{"$date":{"$numberLong":"1","x":2}}"#, 9, "an RFC 3339 date"),
        (r#"{"$date":"2001-01-01T00:00:00Z","x":1}"#, 0, alone),
        (r#"{"x":1,"$date":"2001-01-01T00:00:00Z"}"#, 0, alone),
        (r#"{"a":[{"x":{},"$numberInt":"1"}]}"#, 6, alone),
        (r#"{"$numberInt":"2147483648"}"#, 14, "the text of an integer of 32 bits"),
        (r#"{"$numberInt":"1.0"}"#, 14, "the text of an integer of 32 bits"),
        (r#"{"$numberInt":"+1"}"#, 14, "the text of an integer of 32 bits"),
        (r#"{"$numberInt":1}"#, 14, "the text of an integer of 32 bits"),
        (r#"{"$numberLong":"9223372036854775808"}"#, 15, "the text of an integer of 64 bits"),
        (r#"{"$numberDouble":"1e400"}"#, 17, "the text of a number of double precision"),
        (r#"{"$numberDouble":"x"}"#, 17, "the text of a number of double precision"),
        (r#"{"$numberDouble":1.5}"#, 17, "the text of a number of double precision"),
        (r#"{"$numberDecimal":"1.2.3"}"#, 18, "the text of a number"),
        (r#"{"$uuid":"3031323334353637383961626364656"}"#, 9, "a UUID"),
        (r#"{"a":{"$oid":"56e1fc72e0c917e9c471416"}}"#, 13, "an ObjectId of 24"),
        (r#"{"$oid":"56e1fc72e0c917e9c471416g"}"#, 8, "an ObjectId of 24"),
        (r#"{"$oid":{"x":1}}"#, 8, "an ObjectId of 24"),
        (r#"{"$oid":"56e1fc72e0c917e9c4714161","x":1}"#, 0, alone),
        (r#"{"$binary":{"base64":"AQI=","subType":0}}"#, 11, "base64 with padding"),
        (r#"{"$binary":{"base64":"AQI"}}"#, 11, "base64 with padding"),
        (r#"{"$binary":{"base64":"AQI","subType":"00"}}"#, 11, "base64 with padding"),
        (r#"{"$binary":{"base64":"AQI=","subType":"xx"}}"#, 11, "base64 with padding"),
        (r#"{"$binary":"AQI=","$type":"00","x":1}"#, 0, alone),
        (r#"{"$literal":5}"#, 12, "a map"),
        (r#"{"$pairs":[[1]]}"#, 10, "an array of pairs"),
        (r#"{"a":{"$date":tomorrow}}"#, 14, "null, true or false"),
        (r#"{"a":{"$date":"2001-01-01T00:00:00Z"]"#, 36, "',' or '}'"),
        (r#"{"a":{"$date":"2001"#, 19, "the closing quote of a string"),
        (r#"{"$literal":{"a":{"$date":1}}}"#, 12, "an RFC 3339 date"),
    ] {
        let error = JsonParser::new(options()).parse_value(text.as_bytes()).unwrap_err();
        assert!(error.offset == offset && error.expected.starts_with(expected), "{text}: {error}");
    }
    let default = JsonOptions::new().mode(JsonMode::Extended);
    let twice = r#"{"a":{"$date":{"$numberLong":"0"}},"b":{"$date":{"$numberLong":"0"}},"a":1}"#;
    let strict = default.duplicates(Duplicates::Error);
    let error = JsonParser::new(strict).parse_value(twice.as_bytes()).unwrap_err();
    assert_eq!((error.offset, error.expected), (70, "a name that is new in its map"));
    let error = Document::from_json_with(r#"{"$date":1}"#, default).unwrap_err();
    // It was the brace of the map, whatever was in it.
    let text = error.to_string();
    assert!(text.starts_with("JSON, line 1, column 10 (byte 9): expected an RFC"), "{text}");
    assert!(text.ends_with(", found '1'"), "{text}");
}

/// The levels of a form do not count, and the levels of its value do.
#[test]
fn nesting_is_that_of_the_document() {
    let mut parser = JsonParser::new(options().depth_max(2));
    for (text, is_read) in [
        (r#"[[{"$date":{"$numberLong":"0"}}]]"#, true),
        (r#"[[[{"$date":{"$numberLong":"0"}}]]]"#, false),
        (r#"[{"$literal":{"$date":1}}]"#, true),
        (r#"[[{"$literal":{"$date":1}}]]"#, false),
        (r#"[[{"$literal":{}}]]"#, false),
        (r#"[[{}]]"#, false),
    ] {
        assert_eq!(parser.parse_value(text.as_bytes()).is_ok(), is_read, "{text}");
    }
    // Neither the reader nor the writer looks at one level once for each level above it.
    for name in ["$date", "$type", "$literal", "\\u0024date", "$binary"] {
        let open = format!(r#"{{"{name}":"#);
        let text = open.repeat(500) + &format!(r#""{}""#, "x".repeat(4 << 20)) + &"}".repeat(500);
        let deep = JsonOptions::new().depth_max(DEPTH_MAX);
        let value = JsonParser::new(deep).parse_value(text.as_bytes()).unwrap();
        let written = Document::from_value(&value).unwrap().to_json_as(JsonMode::Extended).unwrap();
        assert!(written.len() >= 4 << 20);
        let _refused_or_not = JsonParser::new(options()).parse_value(text.as_bytes());
    }
}

#[test]
fn any_value_comes_back() {
    check("any_value_comes_back", &value(), 3_000, |value| {
        let text = written(&value, JsonMode::Extended);
        let again = read(&text);
        assert_eq!(again, value, "{text}");
        assert_eq!(written(&again, JsonMode::Extended), text);
        // The plain text is JSON, whatever the value is.
        let plain = written(&value, JsonMode::Plain);
        let deep = JsonOptions::new().depth_max(DEPTH_MAX);
        let parsed = JsonParser::new(deep).parse_value(plain.as_bytes()).unwrap();
        assert_eq!(written(&parsed, JsonMode::Plain), plain);
    });
}

#[test]
fn names_of_forms_anywhere_come_back() {
    use proptest::prelude::*;
    let name = prop_oneof![
        3 => "[ab]",
        1 => Just("$date".to_owned()),
        1 => Just("$binary".to_owned()),
        1 => Just("$type".to_owned()),
        1 => Just("$numberLong".to_owned()),
        1 => Just("$literal".to_owned()),
        1 => Just("$pairs".to_owned()),
        1 => Just("base64".to_owned()),
        1 => Just("subType".to_owned()),
        1 => Just("$oid".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::from("AQI=")),
        Just(Value::from("05")),
        Just(Value::from("00")),
        Just(Value::from("1")),
        Just(Value::from(1)),
        Just(millis(0)),
        Just(f64::NAN.into()),
    ];
    let tree = leaf.prop_recursive(4, 24, 3, move |inner| {
        let array = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array);
        let fields = prop::collection::vec((name.clone(), inner.clone()), 0..3);
        let map = fields.prop_map(|fields| Value::Map(fields.into_iter().collect::<Map>()));
        let odd =
            inner.prop_map(|value| Value::Map([(Value::from(1), value)].into_iter().collect()));
        prop_oneof![1 => array, 4 => map, 1 => odd]
    });
    check("names_of_forms_anywhere_come_back", &tree, 20_000, |value| {
        let text = written(&value, JsonMode::Extended);
        assert_eq!(read(&text), value, "{text}");
    });
}
