//! Values in the text of filters: JSON, and the forms of Extended JSON for what JSON lacks.
//!
//! A map with any name that begins with a dollar sign is written as `$literal`, since most such
//! names are operators.

use super::cursor::{Cursor, Form};
use super::error::FilterError;
use super::value_test::REGEX_FORM;
use crate::json::{
    StoredForm, is_form, put_binary, put_date, put_not_finite, put_object_id, put_uuid, scalar,
};
use crate::map::Map;
use crate::value::Value;
use std::fmt::{self, Write};

/// Returns whether a map is one of operators. It is not if it is a value in a form of Extended
/// JSON. A regular expression is none: it is a condition.
pub(super) fn has_operators(map: &Map, form: Form) -> bool {
    let first = map.iter().next().and_then(|(key, _)| key.as_str()).unwrap_or_default();
    if first == REFERENCE || first != REGEX_FORM && StoredForm::has_name(map) {
        return false;
    }
    match form {
        Form::Text => has_dollar(map) && !is_form(first),
        Form::Driver(_) => first.starts_with('$'),
    }
}

/// The first name of a reference to another document, which Extended JSON leaves as the map that it
/// is: `{"$ref":"films","$id":1}`.
const REFERENCE: &str = "$ref";

/// Returns whether a path begins with a field of a reference, though its name looks like that of
/// an operator.
pub(super) fn is_of_reference(path: &str) -> bool {
    matches!(path.split('.').next(), Some(REFERENCE | "$id" | "$db"))
}

/// Returns whether a name of a map begins with a dollar sign.
fn has_dollar(map: &Map) -> bool {
    map.iter().any(|(key, _)| key.as_str().is_some_and(|name| name.starts_with('$')))
}

/// Reads a value.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Value, FilterError> {
    match cursor.value() {
        value if cursor.form() != Form::Text => Ok(value.clone()),
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
    match (map.len(), name) {
        (1, "$literal") => cursor.inside_field(0, |cursor| match cursor.value() {
            Value::Map(map) => fields(cursor, map).map(Value::Map),
            _ => Err(cursor.refuse("a map")),
        }),
        (1, "$pairs") => cursor.inside_field(0, pairs),
        (len, name) if is_form(name) => match scalar(map) {
            Ok(value) => Ok(value.unwrap_or_else(|| Value::Map(map.clone()))),
            Err(expected) if len == 1 => {
                cursor.inside_field(0, |cursor| Err(cursor.refuse(expected)))
            }
            Err(_) => Err(cursor.refuse(NO_VALUE)),
        },
        (_, REFERENCE) => fields(cursor, map).map(Value::Map),
        // What documents store as a map, such as a timestamp, of values that have forms.
        _ if StoredForm::has_name(map) => fields(cursor, map).map(Value::Map),
        _ => Err(cursor.refuse(NO_VALUE)),
    }
}

const NO_VALUE: &str =
    "a value; a map with a name that begins with '$' is written {\"$literal\":{..}}";

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
pub(super) struct ValueLiteral<'a>(pub(super) &'a Value);

impl fmt::Display for ValueLiteral<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Float(float) if !float.is_finite() => form(f, |out| put_not_finite(*float, out)),
            Value::DateTime(time) => form(f, |out| put_date(*time, out)),
            Value::Uuid(bytes) => form(f, |out| put_uuid(bytes, out)),
            Value::ObjectId(id) => form(f, |out| put_object_id(*id, out)),
            Value::Bytes(bytes) => form(f, |out| put_binary(bytes, out)),
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
                write!(f, r#"{{"$literal":{}}}"#, MapLiteral(map))
            }
            Value::Map(map) => write!(f, "{}", MapLiteral(map)),
            scalar => write!(f, "{scalar}"),
        }
    }
}

fn form(f: &mut fmt::Formatter<'_>, put: impl FnOnce(&mut Vec<u8>)) -> fmt::Result {
    let mut text = Vec::new();
    put(&mut text);
    f.write_str(&String::from_utf8_lossy(&text))
}

struct MapLiteral<'a>(&'a Map);

impl fmt::Display for MapLiteral<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (i, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}:{}", if i > 0 { "," } else { "" }, ValueLiteral(value))?;
        }
        f.write_char('}')
    }
}
