//! JSON: both parsers agree, and text that is parsed, written and parsed again gives the same
//! document; so does Extended JSON, and RFC 3339 text of a moment.

use super::document::shape;
use super::{bounded, note};
use flagstone_doc::json::{
    append_json, append_json_as, append_value_json, append_value_json_as, parse,
};
use flagstone_doc::{
    DEPTH_MAX, DateTime, JsonMode, JsonOptions, JsonParser, Names, Value, validate,
};

pub(super) fn body(bytes: &[u8]) {
    time(bytes);
    extended(bytes);
    let names = Names::new();
    let (mut parser, mut binary) = (JsonParser::default(), Vec::new());
    let parsed =
        bounded(bytes.len(), 300, "JSON", || parser.parse(bytes, Some(&names), &mut binary));
    let value = bounded(bytes.len(), 300, "JSON as a value", || parse(bytes));
    assert_eq!(parsed.is_ok(), value.is_ok(), "{parsed:?} {value:?}");
    let value = match (parsed, value) {
        (Ok(_), Ok(value)) => value,
        (Err(error), _) | (_, Err(error)) => return note(error),
    };
    let view = validate(&binary, Some(&names)).unwrap();
    assert_eq!(view.to_value().as_ref(), Ok(&value));
    let (mut text, mut of_value) = (Vec::new(), Vec::new());
    append_json(&view, &mut text).unwrap();
    append_value_json(&value, &mut of_value);
    assert_eq!(text, of_value, "a view is written another way than its value");
    let again = parse(&text).unwrap();
    assert_eq!(again, value, "it comes back");
    let mut text_again = Vec::new();
    append_value_json(&again, &mut text_again);
    assert_eq!(text, text_again);
    note(shape(&value, 4));
}

fn time(bytes: &[u8]) {
    let Some(time) = str::from_utf8(bytes).ok().and_then(DateTime::parse_rfc3339) else { return };
    let text = time.to_string();
    // An offset may lead out of the years with four digits.
    if text.starts_with('-') || text.find('-') != Some(4) {
        return;
    }
    assert_eq!(DateTime::parse_rfc3339(&text), Some(time), "a time comes back: {text}");
}

/// Extended JSON is JSON, a bad form is refused at a place in the text, and what is read comes
/// back.
fn extended(bytes: &[u8]) {
    let options = JsonOptions::new().mode(JsonMode::Extended);
    let names = Names::new();
    let (mut parser, mut binary) = (JsonParser::new(options), Vec::new());
    let parsed = bounded(bytes.len(), 600, "Extended JSON", || {
        parser.parse(bytes, Some(&names), &mut binary)
    });
    if let Err(error) = parsed {
        assert!(error.offset <= bytes.len(), "{error}");
        return note(error.expected);
    }
    let deep = JsonOptions::new().depth_max(DEPTH_MAX);
    assert!(JsonParser::new(deep).parse_value(bytes).is_ok(), "it is JSON");
    let view = validate(&binary, Some(&names)).unwrap();
    let value = view.to_value().unwrap();
    assert_eq!(parser.parse_value(bytes).as_ref(), Ok(&value));
    let (mut text, mut of_value) = (Vec::new(), Vec::new());
    append_json_as(&view, JsonMode::Extended, &mut text).unwrap();
    append_value_json_as(&value, JsonMode::Extended, &mut of_value);
    assert_eq!(text, of_value, "a view is written another way than its value");
    let again: Value =
        JsonParser::new(deep.mode(JsonMode::Extended)).parse_value(&text).expect("a written text");
    assert_eq!(again, value, "it comes back");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"a":[1,2.50,-0,1e400,"x\n\ud83d\ude00",null],"b":{"c":true,"a":""},"é":false}"#,
        r#" [ 123456789012345678901234567890 , -0.000001e-99 , "\u0000\"\\\/" , {} , [] ] "#,
        concat!(
            r#"{"id":"evn2i5p","score":7,"tags":["a","b"],"#,
            r#""body":"some text that is long enough","n":null}"#
        ),
        r#"[[[[[[[[[[[[{"deep":[1]}]]]]]]]]]]]]"#,
        "\"plain text of ascii and \u{fc}ml\u{e4}ut, long enough for sixteen bytes at once\"",
        "3.141592653589793238462643383279",
        r#"{"t":{"$date":"2016-12-31T23:59:60.5Z"},"u":{"$date":{"$numberLong":"-1"}},"n":null}"#,
        r#"{"b":{"$binary":{"base64":"AQI=","subType":"00"}},"c":{"$binary":"AQI=","$type":"05"}}"#,
        r#"[{"$numberDouble":"NaN"},{"$numberDecimal":"1.10"},{"$numberInt":"1"},{"$code":"x"}]"#,
        r#"{"$oid":"56e1fc72e0c917e9c4714161"}"#,
        r#"{"$literal":{"$date":{"$uuid":"30313233-3435-3637-3839-616263646566"}}}"#,
        r#"{"p":{"$pairs":[[1,{"$date":{"$micros":5}}],[{"$literal":{"$pairs":1}},2]]}}"#,
        "2001-01-01t02:00:00.000000001+02:00",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
