//! Values in the text of filters: JSON, and a map with one name for what JSON lacks.
//!
//! ```text
//! {"$date":"2019-08-01T00:00:00Z"}   {"$date":{"$micros":5}}   {"$uuid":"30313233-.."}
//! {"$binary":"base64"}   {"$numberDouble":"NaN"}   {"$pairs":[[key, value], ..]}
//! {"$literal":{"$a":1}}   a map with a name that begins with a dollar sign
//! ```

use super::cursor::Cursor;
use super::error::FilterError;
use crate::datetime::DateTime;
use crate::map::Map;
use crate::print::{base64, put_base64};
use crate::uuid::{UuidText, parse_uuid};
use crate::value::Value;
use std::fmt::{self, Write};

const NAMES: [&str; 9] = [
    "$date",
    "$uuid",
    "$binary",
    "$numberDouble",
    "$numberInt",
    "$numberLong",
    "$numberDecimal",
    "$pairs",
    "$literal",
];

/// Returns whether a map is a value in a form of this module.
pub(super) fn is_special(map: &Map) -> bool {
    let first = map.iter().next().and_then(|(key, _)| key.as_str());
    first.is_some_and(|name| NAMES.contains(&name))
}

/// Returns whether a name of a map begins with a dollar sign.
pub(super) fn has_dollar(map: &Map) -> bool {
    map.iter().any(|(key, _)| key.as_str().is_some_and(|name| name.starts_with('$')))
}

/// Reads a value.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Value, FilterError> {
    match cursor.value() {
        Value::Array(items) => {
            let read_item = |i| cursor.inside_item(i, read);
            (0..items.len()).map(read_item).collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Map(map) if has_dollar(map) => special(cursor, map),
        Value::Map(map) => fields(cursor, map).map(Value::Map),
        other => Ok(other.clone()),
    }
}

fn fields(cursor: &mut Cursor<'_>, map: &Map) -> Result<Map, FilterError> {
    let mut pairs = Vec::with_capacity(map.len());
    for (i, (key, _)) in map.iter().enumerate() {
        pairs.push((key.clone(), cursor.inside_field(i, read)?));
    }
    Ok(Map::from_distinct(pairs))
}

fn special(cursor: &mut Cursor<'_>, map: &Map) -> Result<Value, FilterError> {
    let name = map.iter().next().and_then(|(key, _)| key.as_str()).unwrap_or_default();
    if map.len() > 1 || !NAMES.contains(&name) {
        return Err(cursor.refuse(
            "a value; a map with a name that begins with '$' is written {\"$literal\":{..}}",
        ));
    }
    let name = name.to_owned();
    cursor.inside_field(0, |cursor| inner(cursor, &name))
}

/// Reads what follows the name of a special value.
fn inner(cursor: &mut Cursor<'_>, name: &str) -> Result<Value, FilterError> {
    let value = cursor.value();
    let text = value.as_str();
    let (read, expected) = match name {
        "$literal" => match value {
            Value::Map(map) => (Some(Value::Map(fields(cursor, map)?)), ""),
            _ => (None, "a map"),
        },
        "$pairs" => return pairs(cursor),
        "$date" => (date(value), "an RFC 3339 date, or {\"$micros\": an integer}"),
        "$uuid" => (text.and_then(parse_uuid).map(Value::Uuid), "a UUID of 8-4-4-4-12 digits"),
        "$binary" => (text.and_then(base64).map(Value::Bytes), "base64 with padding"),
        "$numberDouble" => {
            let special = match text {
                Some("NaN") => Some(f64::NAN),
                Some("Infinity") => Some(f64::INFINITY),
                Some("-Infinity") => Some(f64::NEG_INFINITY),
                _ => None,
            };
            let number = text.and_then(Value::number);
            (special.map(Value::Float).or(number), "the text of a number")
        }
        _ => (text.and_then(Value::number), "the text of a number"),
    };
    read.ok_or_else(|| cursor.refuse(expected))
}

fn date(value: &Value) -> Option<Value> {
    let micros = |map: &Map| match map.iter().next() {
        Some((key, micros)) if map.len() == 1 && key.as_str() == Some("$micros") => micros.as_i64(),
        _ => None,
    };
    match value {
        Value::Text(text) => DateTime::parse_rfc3339(text).map(Value::DateTime),
        Value::Map(map) => micros(map).map(|micros| Value::DateTime(DateTime::from_micros(micros))),
        _ => None,
    }
}

/// Reads a map with keys of any value.
fn pairs(cursor: &mut Cursor<'_>) -> Result<Value, FilterError> {
    let Value::Array(items) = cursor.value() else {
        return Err(cursor.refuse("an array of pairs"));
    };
    let pair = |cursor: &mut Cursor<'_>| match cursor.value() {
        Value::Array(pair) if pair.len() == 2 => {
            Ok((cursor.inside_item(0, read)?, cursor.inside_item(1, read)?))
        }
        _ => Err(cursor.refuse("a pair: [key, value]")),
    };
    let map: Map =
        (0..items.len()).map(|i| cursor.inside_item(i, pair)).collect::<Result<_, _>>()?;
    Ok(Value::Map(map))
}

/// Writes a value so that [`read`] reads it back.
pub(super) struct Literal<'a>(pub(super) &'a Value);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Float(float) if float.is_nan() => f.write_str(r#"{"$numberDouble":"NaN"}"#),
            Value::Float(float) if float.is_infinite() => {
                let sign = if *float < 0.0 { "-" } else { "" };
                write!(f, r#"{{"$numberDouble":"{sign}Infinity"}}"#)
            }
            Value::DateTime(time) if time.has_rfc3339() => write!(f, r#"{{"$date":"{time}"}}"#),
            Value::DateTime(time) => {
                write!(f, r#"{{"$date":{{"$micros":{}}}}}"#, time.as_micros())
            }
            Value::Uuid(bytes) => write!(f, r#"{{"$uuid":"{}"}}"#, UuidText(bytes)),
            Value::Bytes(bytes) => {
                let mut text = Vec::new();
                put_base64(bytes, &mut text);
                write!(f, r#"{{"$binary":"{}"}}"#, String::from_utf8_lossy(&text))
            }
            Value::Array(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { "," } else { "" }, Self(item))?;
                }
                f.write_char(']')
            }
            Value::Map(map) if !map.has_only_names() => {
                f.write_str(r#"{"$pairs":["#)?;
                for (i, (key, value)) in map.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}[{},{}]", Self(key), Self(value))?;
                }
                f.write_str("]}")
            }
            Value::Map(map) if has_dollar(map) => {
                write!(f, r#"{{"$literal":{}}}"#, Fields(map))
            }
            Value::Map(map) => write!(f, "{}", Fields(map)),
            scalar => write!(f, "{scalar}"),
        }
    }
}

struct Fields<'a>(&'a Map);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (i, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}:{}", if i > 0 { "," } else { "" }, Literal(value))?;
        }
        f.write_char('}')
    }
}
