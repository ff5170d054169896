//! Any value as JSON text, for columns of JSON.
//!
//! Most values have a JSON form. What lacks one is written as in filters, by a map with one name:
//!
//! ```text
//! {"$numberDouble":"NaN"}          a float that is not finite: NaN, Infinity, -Infinity
//! {"$pairs":[[key, value], ..]}    a map with keys that are not text
//! {"$date":{"$micros":5}}          a datetime outside the years 0 to 9999
//! ```

use flagstone::json::{NoJson, append_json, append_value_json};
use flagstone::{Malformed, Map, Value, View};

/// Writes the text into `buffer` and returns it.
pub(super) fn of<'a>(view: &View<'_>, buffer: &'a mut Vec<u8>) -> Result<&'a str, Malformed> {
    buffer.clear();
    let mut written = append_json(view, buffer);
    if matches!(written, Err(ref no_json) if !matches!(no_json, NoJson::Malformed(_))) {
        buffer.clear();
        written = append_value_json(&spelled(view.to_value()?), buffer);
    }
    match written {
        Ok(()) => {}
        Err(NoJson::Malformed(malformed)) => return Err(malformed),
        // What has no form of its own was spelled.
        Err(_no_json) => return Err(Malformed { at: 0, expected: "a value with a JSON form" }),
    }
    str::from_utf8(buffer).map_err(|_not_utf8| Malformed { at: 0, expected: "text in UTF-8" })
}

/// Returns the value with maps in place of all parts that JSON lacks.
fn spelled(value: Value) -> Value {
    match value {
        Value::Float(float) if !float.is_finite() => {
            let text = match float {
                float if float.is_nan() => "NaN",
                float if float > 0.0 => "Infinity",
                _ => "-Infinity",
            };
            named("$numberDouble", text)
        }
        Value::DateTime(at) if append_value_json(&value, &mut Vec::new()).is_err() => {
            named("$date", named("$micros", at.as_micros()))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(spelled).collect()),
        Value::Map(map) if map.has_only_names() => {
            Value::Map(map.into_iter().map(|(name, value)| (name, spelled(value))).collect())
        }
        Value::Map(map) => {
            let pair = |(key, value)| Value::Array(vec![spelled(key), spelled(value)]);
            named("$pairs", Value::Array(map.into_iter().map(pair).collect()))
        }
        other => other,
    }
}

fn named(name: &str, value: impl Into<Value>) -> Value {
    let mut map = Map::new();
    map.insert(name, value);
    Value::Map(map)
}
