//! Extended JSON, as MongoDB has it (version 2): a map of one name stands for a value that JSON
//! lacks.
//!
//! ```text
//! {"$date":"2019-08-01T00:00:00Z"}             {"$date":{"$numberLong":"-1"}}, milliseconds
//! {"$uuid":"30313233-3435-3637-3839-616263646566"}
//! {"$oid":"5d422b800123456789abcdef"}
//! {"$binary":{"base64":"AQI=","subType":"00"}} {"$binary":"AQI=","$type":"00"}, as of version 1
//! {"$numberDouble":"NaN"}                      also "Infinity", "-Infinity", "1.5"
//! {"$numberInt":"1"}  {"$numberLong":"1"}  {"$numberDecimal":"1.10"}, written only if the number
//!                     alone would be read as one of another type
//! ```
//!
//! Three forms are not MongoDB's. With them every document has a text that reads back as itself:
//!
//! ```text
//! {"$literal":{"$date":1}}    a map that has the name of a form, as it is
//! {"$pairs":[[key, value]]}   a map with keys that are not text
//! {"$date":{"$micros":5}}     a date that neither milliseconds nor the years 0 to 9999 hold
//! ```
//!
//! Types that documents lack, such as `$timestamp`, stay the maps that stand for them, also a
//! `$binary` of another subtype than 00, and than 04 of 16 bytes, which is a UUID.

use crate::datetime::DateTime;
use crate::map::Map;
use crate::object_id::ObjectId;
use crate::print::{base64, put_base64};
use crate::uuid::{UuidText, parse_uuid};
use crate::value::Value;
use crate::value::number_type::{decimal, long};
use std::io::Write;

/// The names of the forms.
const NAMES: [&str; 10] = [
    "$date",
    "$uuid",
    "$oid",
    "$binary",
    "$numberDouble",
    "$numberInt",
    "$numberLong",
    "$numberDecimal",
    "$pairs",
    "$literal",
];

pub(crate) const ALONE: &str = "the name of a value such as $date alone in its map; a map that \
     has such a name is written {\"$literal\":{..}}";

pub(crate) const NO_ZERO: &str = "a name without the character U+0000";

/// Returns whether `name` is that of a form.
pub(crate) fn is_form(name: &str) -> bool {
    name.starts_with('$') && NAMES.contains(&name)
}

/// Returns whether a map has the name of a form, and so is one, or is refused.
pub(crate) fn has_form(map: &Map) -> bool {
    map.iter().any(|(key, _)| key.as_str().is_some_and(is_form))
}

/// Returns the value that forms in `value` stand for. With `refuses_zeros` no name may have the
/// character U+0000.
///
/// # Errors
/// What was expected in place of the first bad form.
pub(crate) fn read(value: Value, refuses_zeros: bool) -> Result<Value, &'static str> {
    match value {
        Value::Array(items) => {
            let items = items.into_iter().map(|item| read(item, refuses_zeros));
            items.collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Map(map) if has_form(&map) => form(map, refuses_zeros),
        Value::Map(map) => fields(map, refuses_zeros).map(Value::Map),
        other => Ok(other),
    }
}

/// Returns the value that a map stands for: `{"$date":..}` and the like; `None` for other maps.
///
/// # Errors
/// What was expected instead.
pub fn extended_scalar(map: &Map) -> Option<Result<Value, &'static str>> {
    let first = map.iter().next().and_then(|(key, _)| key.as_str())?;
    let is_scalar = is_form(first) && !["$literal", "$pairs"].contains(&first);
    let read = || Ok(scalar(map)?.unwrap_or_else(|| Value::Map(map.clone())));
    is_scalar.then(read)
}

fn fields(map: Map, refuses_zeros: bool) -> Result<Map, &'static str> {
    let read = |(name, value)| Ok((name, read(value, refuses_zeros)?));
    map.into_iter().map(read).collect()
}

/// Reads a map that has the name of a form.
fn form(map: Map, refuses_zeros: bool) -> Result<Value, &'static str> {
    let name = map.iter().next().filter(|_| map.len() == 1).and_then(|(name, _)| name.as_str());
    match name {
        Some("$literal") => match only(map) {
            Some(Value::Map(inner)) => fields(inner, refuses_zeros).map(Value::Map),
            _ => Err(LITERAL),
        },
        Some("$pairs") => match only(map) {
            Some(Value::Array(items)) => {
                let pairs = items.into_iter().map(|item| pair(item, refuses_zeros));
                pairs.collect::<Result<_, _>>().map(Value::Map)
            }
            _ => Err(PAIRS),
        },
        _ => Ok(scalar(&map)?.unwrap_or(Value::Map(map))),
    }
}

fn only(map: Map) -> Option<Value> {
    map.into_iter().next().map(|(_, value)| value)
}

fn pair(item: Value, refuses_zeros: bool) -> Result<(Value, Value), &'static str> {
    let Value::Array(pair) = item else { return Err(PAIRS) };
    let [key, value] = <[Value; 2]>::try_from(pair).map_err(|_other| PAIRS)?;
    let key = read(key, refuses_zeros)?;
    if refuses_zeros && key.as_str().is_some_and(|name| name.contains('\0')) {
        return Err(NO_ZERO);
    }
    Ok((key, read(value, refuses_zeros)?))
}

/// What `$literal` has.
const LITERAL: &str = "a map";

/// What `$pairs` has.
const PAIRS: &str = "an array of pairs: [key, value]";

/// Reads the map of a form; `None` if it stands for a type that documents lack, and stays a map.
///
/// # Errors
/// What was expected as the value of the form's name.
pub(crate) fn scalar(map: &Map) -> Result<Option<Value>, &'static str> {
    if let (2, Some(data), Some(subtype)) = (map.len(), map.get("$binary"), map.get("$type")) {
        let subtype = match subtype.as_i64() {
            Some(number) => u8::try_from(number).ok(),
            None => hexadecimal(subtype),
        };
        return binary(data, subtype);
    }
    let Some((name, value)) = map.iter().next().filter(|_| map.len() == 1) else {
        return Err(ALONE);
    };
    let text = value.as_str();
    let (read, expected) = match name.as_str().unwrap_or_default() {
        "$date" => return date(value).map(|date| Some(Value::DateTime(date))),
        "$uuid" => (text.and_then(parse_uuid).map(Value::Uuid), "a UUID of 8-4-4-4-12 digits"),
        "$oid" => (
            text.and_then(|text| text.parse().ok()).map(Value::ObjectId),
            "an ObjectId of 24 hexadecimal digits",
        ),
        "$binary" => match value {
            Value::Map(inner) => match (inner.len(), inner.get("base64"), inner.get("subType")) {
                (2, Some(data), Some(subtype)) => return binary(data, hexadecimal(subtype)),
                _ => (None, BINARY),
            },
            data => return binary(data, Some(0)),
        },
        "$numberDouble" => (
            text.and_then(double).map(Value::Float),
            "the text of a number of double precision, NaN, Infinity or -Infinity",
        ),
        "$numberInt" => (
            text.and_then(integer).filter(|int| i32::try_from(*int).is_ok()).map(Value::Int),
            "the text of an integer of 32 bits",
        ),
        "$numberLong" => (text.and_then(integer).map(long), "the text of an integer of 64 bits"),
        "$numberDecimal" => {
            let exact = |read| match read {
                Read::Special(float) => Some(Value::Float(float)),
                Read::Literal(literal) => decimal(&literal),
            };
            let read = text.and_then(number).and_then(exact);
            (read, "the text of a number, NaN, Infinity or -Infinity")
        }
        "$pairs" => (None, PAIRS),
        "$literal" => (None, LITERAL),
        _ => (None, ALONE),
    };
    read.map(Some).ok_or(expected)
}

/// Reads a number in a text that is wider than JSON: it may begin with a plus, zeros or a point,
/// end with a point, or be no finite number.
fn number(text: &str) -> Option<Read> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let is = |word: &str| unsigned.eq_ignore_ascii_case(word);
    if is("nan") {
        return Some(Read::Special(f64::NAN));
    }
    if is("infinity") || is("inf") {
        let infinity = if sign == "-" { f64::NEG_INFINITY } else { f64::INFINITY };
        return Some(Read::Special(infinity));
    }
    let exponent_at = unsigned.find(['e', 'E']).unwrap_or(unsigned.len());
    let (digits, exponent) = unsigned.split_at(exponent_at);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 || !whole.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let point = if fraction.is_empty() { "" } else { "." };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    Some(Read::Literal(format!("{sign}{whole}{point}{fraction}{exponent}")))
}

/// What the text of a number says.
enum Read {
    /// NaN, or an infinity.
    Special(f64),
    /// What may be a literal of JSON.
    Literal(String),
}

fn double(text: &str) -> Option<f64> {
    match number(text)? {
        Read::Special(float) => Some(float),
        Read::Literal(literal) => {
            Value::number(&literal)?.as_f64().filter(|float| float.is_finite())
        }
    }
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Reads the value of `$date`.
fn date(value: &Value) -> Result<DateTime, &'static str> {
    const EXPECTED: &str = "an RFC 3339 date, {\"$numberLong\": the text of milliseconds} or \
         {\"$micros\": an integer}";
    let micros = match value {
        Value::Text(text) => return DateTime::parse_rfc3339(text).ok_or(EXPECTED),
        Value::Map(map) if map.len() == 1 => match (map.get("$numberLong"), map.get("$micros")) {
            (Some(Value::Text(millis)), _) => {
                let millis = integer(millis).ok_or(EXPECTED)?;
                let micros = millis.checked_mul(1000);
                Some(micros.ok_or("milliseconds that are less than 2^63 microseconds")?)
            }
            (_, Some(micros)) => micros.as_i64(),
            _ => None,
        },
        _ => None,
    };
    micros.map(DateTime::from_micros).ok_or(EXPECTED)
}

const BINARY: &str =
    "base64 with padding, or {\"base64\": that, \"subType\": two hexadecimal digits}";

/// Reads a subtype of one or two hexadecimal digits.
fn hexadecimal(subtype: &Value) -> Option<u8> {
    let is_one = |text: &&str| text.len() <= 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    u8::from_str_radix(subtype.as_str().filter(is_one)?, 16).ok()
}

/// Reads the data of `$binary`.
fn binary(data: &Value, subtype: Option<u8>) -> Result<Option<Value>, &'static str> {
    let bytes = data.as_str().and_then(base64).ok_or(BINARY)?;
    Ok(match (subtype.ok_or(BINARY)?, <[u8; 16]>::try_from(&*bytes)) {
        (4, Ok(uuid)) => Some(Value::Uuid(uuid)),
        (0, _) => Some(Value::Bytes(bytes)),
        _ => None,
    })
}

/// Appends the form of a float that is not finite.
pub(crate) fn put_not_finite(float: f64, out: &mut Vec<u8>) {
    let text: &[u8] = match float {
        float if float.is_nan() => b"NaN",
        float if float > 0.0 => b"Infinity",
        _ => b"-Infinity",
    };
    out.extend_from_slice(b"{\"$numberDouble\":\"");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\"}");
}

/// Appends the form of a date. As MongoDB does, dates of the years 1970 to 9999 are text, and
/// others are milliseconds, if they are whole.
pub(crate) fn put_date(time: DateTime, out: &mut Vec<u8>) {
    let micros = time.as_micros();
    let is_text = time.has_rfc3339() && (micros >= 0 || micros % 1000 != 0);
    // Writing to memory cannot fail.
    let _written = match (is_text, micros % 1000) {
        (true, 0) if micros % 1_000_000 != 0 => {
            let text = time.to_string();
            // Three digits of the fraction and the Z are left out.
            write!(out, "{{\"$date\":\"{}Z\"}}", &text[..text.len() - 4])
        }
        (true, _) => write!(out, "{{\"$date\":\"{time}\"}}"),
        (false, 0) => write!(out, "{{\"$date\":{{\"$numberLong\":\"{}\"}}}}", micros / 1000),
        (false, _) => write!(out, "{{\"$date\":{{\"$micros\":{micros}}}}}"),
    };
}

/// Appends the form of bytes.
pub(crate) fn put_binary(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"$binary\":{\"base64\":\"");
    put_base64(bytes, out);
    out.extend_from_slice(b"\",\"subType\":\"00\"}}");
}

/// Appends the form of a UUID.
pub(crate) fn put_uuid(bytes: &[u8; 16], out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _written = write!(out, "{{\"$uuid\":\"{}\"}}", UuidText(bytes));
}

/// Appends the form of an ObjectId.
pub(crate) fn put_object_id(id: ObjectId, out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _written = write!(out, "{{\"$oid\":\"{id}\"}}");
}

/// Returns whether a map must be written as `$literal`, so that [`read`] returns it.
pub(crate) fn needs_literal(map: &Map) -> bool {
    has_form(map) && !matches!(scalar(map), Ok(None))
}
