//! JSON: both parsers agree, and text that is parsed, written and parsed again gives the same
//! document.

use super::document::shape;
use super::{bounded, note};
use flagstone_doc::json::{append_json, append_value_json, parse};
use flagstone_doc::{JsonParser, Names, validate};

pub(super) fn body(bytes: &[u8]) {
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
    append_value_json(&value, &mut of_value).unwrap();
    assert_eq!(text, of_value, "a view is written another way than its value");
    let again = parse(&text).unwrap();
    assert_eq!(again, value, "it comes back");
    let mut text_again = Vec::new();
    append_value_json(&again, &mut text_again).unwrap();
    assert_eq!(text, text_again);
    note(shape(&value, 4));
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
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
