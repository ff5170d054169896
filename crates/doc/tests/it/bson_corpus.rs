//! The corpus of BSON, MongoDB's suite of Extended JSON: what is read, written and refused.

use flagstone_doc::{JsonMode, JsonOptions, JsonParser, Value, json};

fn read(text: &str) -> Result<Value, flagstone_doc::JsonError> {
    JsonParser::new(JsonOptions::new().mode(JsonMode::Extended)).parse_value(text.as_bytes())
}

fn written(value: &Value) -> String {
    let mut text = Vec::new();
    json::append_value_json_as(value, JsonMode::Extended, &mut text);
    String::from_utf8(text).unwrap()
}

fn text<'a>(case: &'a Value, name: &str) -> Option<&'a str> {
    case.get(name).and_then(Value::as_str)
}

/// Returns whether the case is about a type that documents lack. It stays the map that stands for
/// it, so nothing of it is refused, such as a bad `$timestamp`.
fn is_of_another_type(text: &str) -> bool {
    ["$regularExpression", "$code", "$timestamp", "Key\"", "$dbPointer", "\\u0000"]
        .iter()
        .any(|name| text.contains(name))
}

#[test]
fn the_corpus_of_extended_json_passes() {
    let dir = super::shared("FLAGSTONE_SUITES", "suites").map(|dir| dir.join("bson-corpus"));
    let Some(dir) = dir.filter(|dir| dir.is_dir()) else {
        println!(
            "skipped: no bson-corpus in shared/suites above here or in FLAGSTONE_SUITES: the files \
             of source/bson-corpus/tests in github.com/mongodb/specifications"
        );
        return;
    };
    let (mut valid, mut refused, mut skipped) = (0, 0, 0);
    for file in std::fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let suite = json::parse(std::fs::read(&path).unwrap()).unwrap();
        for case in suite.get("valid").and_then(Value::as_array).unwrap_or_default() {
            let canonical = text(case, "canonical_extjson").unwrap();
            let value = read(canonical).unwrap_or_else(|error| panic!("{name}: {case}: {error}"));
            for form in ["relaxed_extjson", "degenerate_extjson"] {
                // Types that documents lack are compared as the maps that they are.
                if let Some(text) = text(case, form)
                    && !is_of_another_type(canonical)
                    && !matches!(&*name, "regex" | "dbpointer" | "timestamp" | "symbol")
                {
                    let other = read(text);
                    assert_eq!(other.as_ref(), Ok(&value), "{name}: {case}");
                }
            }
            assert_eq!(read(&written(&value)).as_ref(), Ok(&value), "{name}: {case}");
            // What is written is the relaxed form, other than a number with more digits than a
            // double has, and a UUID by its own name.
            let form = text(case, "relaxed_extjson").unwrap_or(canonical);
            if !form.contains("$number") || name == "datetime" || name == "double" {
                let expected = if form.contains(r#""subType" : "04""#) {
                    r#"{"x":{"$uuid":"73ffd264-44b3-4c69-90e8-e7d1dfc035d4"}}"#
                } else {
                    form
                };
                let expected = json::parse(expected).unwrap();
                assert_eq!(json::parse(written(&value)).unwrap(), expected, "{name}: {case}");
            }
            valid += 1;
        }
        for case in suite.get("parseErrors").and_then(Value::as_array).unwrap_or_default() {
            let string = text(case, "string").unwrap();
            let description = text(case, "description").unwrap();
            // Numbers of a document have no least and no greatest exponent.
            let is_range = ["Inexact rounding", "Invalid representation", "Exact rounding"];
            let is_decimal = name.starts_with("decimal128");
            let text = if is_decimal {
                format!(r#"{{"d":{{"$numberDecimal":{}}}}}"#, Value::from(string))
            } else {
                string.to_owned()
            };
            let is_ours = is_decimal && Value::number(string).is_some();
            if is_of_another_type(string) || is_ours || is_range.contains(&description) {
                skipped += 1;
                continue;
            }
            assert!(read(&text).is_err(), "{name}: {case}");
            refused += 1;
        }
    }
    println!("{valid} cases read and written, {refused} refused, {skipped} of types of its own");
    assert!(valid > 600 && refused > 100);
}
