//! Writes documents as JSON, from their bytes or from values in memory.
//!
//! Types that JSON lacks become text: bytes in base64, datetimes by RFC 3339, UUIDs and ObjectIds
//! in hexadecimal. What has no such text is written in a form of Extended JSON: a float that is not
//! finite, a datetime outside the years 0 to 9999, a map with a key that is not text.

use super::extended::{put_date, put_not_finite};
use crate::datetime::DateTime;
use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::layout::{tag, unsigned};
use crate::map::Map;
use crate::number::float_text;
use crate::object_id::ObjectId;
use crate::print::{put_base64, put_decimal, put_i64, put_key, put_text, put_text_of, put_u64};
use crate::uuid::UuidText;
use crate::value::Value;
use crate::view::{FieldKey, View};
use flagstone_base::Malformed;
use std::io::Write;

/// Appends the value of `view` as JSON without spaces.
///
/// # Errors
/// If the bytes are not a valid document. `out` may then hold a part of the text.
pub fn append_json(view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    append_json_bytes(view, out)?;
    check_utf8(view, &out[start..])
}

/// As [`append_json`], but does not check that the text is UTF-8: in a damaged document it may not
/// be. For a caller that checks the whole text anyway.
///
/// # Errors
/// As [`append_json`], other than for text that is not UTF-8.
pub fn append_json_bytes(view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    put_view(view, DEPTH_MAX, out)
}

/// One check covers all strings: the quotes between them are ASCII.
pub(super) fn check_utf8(view: &View<'_>, text: &[u8]) -> Result<(), Malformed> {
    match simdutf8::basic::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(view.malformed("text in UTF-8")),
    }
}

/// Appends `value` as JSON without spaces.
pub fn append_value_json(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => put_bool(*value, out),
        Value::Int(int) => put_i64(*int, out),
        Value::Number(number) => out.extend_from_slice(number.as_str().as_bytes()),
        Value::Float(float) => put_float(*float, out),
        Value::Text(text) => put_text(text.as_bytes(), out),
        Value::Bytes(bytes) => put_bytes(bytes, out),
        Value::DateTime(time) => put_datetime(*time, out),
        Value::Uuid(bytes) => put_uuid(bytes, out),
        Value::ObjectId(id) => put_object_id(*id, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                put_comma(i, out);
                append_value_json(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) => put_map(map, out, append_value_json),
    }
}

/// Appends a map, whose keys and values `put` appends.
pub(super) fn put_map(map: &Map, out: &mut Vec<u8>, put: fn(&Value, &mut Vec<u8>)) {
    if map.has_only_names() {
        out.push(b'{');
        for (i, (key, value)) in map.iter().enumerate() {
            put_comma(i, out);
            put_text(key.as_str().unwrap_or_default().as_bytes(), out);
            out.push(b':');
            put(value, out);
        }
        out.push(b'}');
        return;
    }
    out.extend_from_slice(PAIRS_START);
    for (i, (key, value)) in map.sorted().into_iter().enumerate() {
        out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
        put(key, out);
        out.push(b',');
        put(value, out);
        out.push(b']');
    }
    out.extend_from_slice(PAIRS_END);
}

const PAIRS_START: &[u8] = b"{\"$pairs\":[";
const PAIRS_END: &[u8] = b"]}";

/// Appends a value. Inlined, so that the views of most values stay in registers.
#[inline(always)]
fn put_view(view: &View<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    if let Some(text) = view.as_text_bytes() {
        put_text(text, out);
        return Ok(());
    }
    if let Some(text) = constant(view.raw_scalar().0) {
        put_constant(text, out);
        return Ok(());
    }
    if let Some(int) = view.as_small_int() {
        put_i64(int, out);
        return Ok(());
    }
    put_other(view, depth, out)
}

/// The JSON of values that their tag alone determines: null, the booleans, empty arrays and maps,
/// small integers. Half of the fields of a comment are such, in any order, and a copy of fixed
/// length replaces a jump for each. The last byte is the length of the text, 0 for other tags.
static CONSTANTS: [[u8; 8]; tag::TEXT as usize] = {
    let mut texts = [[0; 8]; tag::TEXT as usize];
    texts[tag::NULL as usize] = *b"null\0\0\0\x04";
    texts[tag::FALSE as usize] = *b"false\0\0\x05";
    texts[tag::TRUE as usize] = *b"true\0\0\0\x04";
    texts[tag::EMPTY_ARRAY as usize] = *b"[]\0\0\0\0\0\x02";
    texts[tag::EMPTY_MAP as usize] = *b"{}\0\0\0\0\0\x02";
    let mut small = tag::SMALL_INT;
    while small < tag::TEXT {
        let ones = b'0' + small.abs_diff(tag::SMALL_INT_ZERO) % 10;
        let tens = b'0' + small.abs_diff(tag::SMALL_INT_ZERO) / 10;
        texts[small as usize] = match small {
            ..tag::SMALL_INT_ZERO => [b'-', ones, 0, 0, 0, 0, 0, 2],
            _ if tens == b'0' => [ones, 0, 0, 0, 0, 0, 0, 1],
            _ => [tens, ones, 0, 0, 0, 0, 0, 2],
        };
        small += 1;
    }
    texts
};

#[inline]
fn constant(tag: u8) -> Option<&'static [u8; 8]> {
    CONSTANTS.get(usize::from(tag)).filter(|text| text[7] > 0)
}

#[inline]
fn put_constant(text: &[u8; 8], out: &mut Vec<u8>) {
    let end = out.len() + usize::from(text[7]);
    out.extend_from_slice(text);
    out.truncate(end);
}

/// Appends a value that has a payload and is neither a text nor a signed integer.
#[inline(never)]
fn put_other(view: &View<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (tag, payload) = view.raw_scalar();
    match tag {
        tag::ARRAY_4 => put_items(view, depth, out, put_view)?,
        tag::MAP_4 => put_fields(view, depth, out)?,
        tag::U64 => put_u64(unsigned(payload), out),
        tag::FLOAT => put_float(f64::from_bits(unsigned(payload)), out),
        tag::DECIMAL_4 | tag::DECIMAL_8 => {
            let (coefficient, scale) = view.as_decimal().unwrap_or_default();
            put_decimal(coefficient, scale, out);
        }
        tag::LITERAL_1 | tag::LITERAL_4 => {
            if crate::number::NumberLiteral::whole(payload).is_none() {
                return Err(view.malformed("a number"));
            }
            out.extend_from_slice(payload);
        }
        tag::BYTES_1 | tag::BYTES_4 => put_bytes(payload, out),
        tag::DATE_TIME => put_datetime(view.as_datetime().unwrap_or_default(), out),
        tag::UUID => put_uuid(view.as_uuid().unwrap_or(&[0; 16]), out),
        tag::OBJECT_ID => match view.as_object_id() {
            Some(id) => put_object_id(id, out),
            None => return Err(view.malformed("an ObjectId")),
        },
        _ => return Err(view.malformed("a tag that this version knows")),
    }
    Ok(())
}

/// Appends an array of at most `depth` levels; `put` appends its items.
pub(super) fn put_items(
    view: &View<'_>,
    depth: usize,
    out: &mut Vec<u8>,
    put: impl Fn(&View<'_>, usize, &mut Vec<u8>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(view.malformed(TOO_DEEP))?;
    out.push(b'[');
    for (i, item) in view.items()?.enumerate() {
        put_comma(i, out);
        put(&item?, depth, out)?;
    }
    out.push(b']');
    Ok(())
}

fn put_fields(view: &View<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(view.malformed(TOO_DEEP))?;
    let start = out.len();
    match view.known_names()? {
        Some((body, names)) => {
            let keys = names.json_keys();
            let mut place = body.start();
            while place.index < body.count {
                let (id, tag) = (body.id(place.index), body.tag(place.index));
                let key = keys.get(id).ok_or(view.malformed("defined names"))?;
                key.put(out);
                // Most fields are texts or constants, which need no view.
                if tag >= tag::TEXT {
                    put_text_of(body.bytes_at(place), usize::from(tag - tag::TEXT), out);
                    place.skip(tag);
                } else if let Some(text) = constant(tag) {
                    put_constant(text, out);
                    place.skip(tag);
                } else {
                    put_view(&body.next(&mut place)?, depth, out)?;
                }
            }
        }
        None => {
            for field in view.fields()? {
                let (key, value) = field?;
                let FieldKey::Name(name) = key else {
                    out.truncate(start);
                    return put_pairs(view, out, |part, out| put_view(part, depth, out));
                };
                put_key(name, out);
                put_view(&value, depth, out)?;
            }
        }
    }
    // Every name has a comma before it.
    match out.get_mut(start) {
        Some(first) => *first = b'{',
        None => out.push(b'{'),
    }
    out.push(b'}');
    Ok(())
}

/// Appends a map with a key that is not text; `put` appends its keys and values.
#[cold]
pub(super) fn put_pairs(
    view: &View<'_>,
    out: &mut Vec<u8>,
    put: impl Fn(&View<'_>, &mut Vec<u8>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    out.extend_from_slice(PAIRS_START);
    for (i, field) in view.fields()?.enumerate() {
        let (key, value) = field?;
        out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
        match key {
            FieldKey::Name(name) => put_text(name.as_bytes(), out),
            FieldKey::Value(key) => put(&key, out)?,
        }
        out.push(b',');
        put(&value, out)?;
        out.push(b']');
    }
    out.extend_from_slice(PAIRS_END);
    Ok(())
}

pub(super) fn put_comma(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

#[inline]
fn put_bool(value: bool, out: &mut Vec<u8>) {
    // Copies of fixed length need no call.
    if value { out.extend_from_slice(b"true") } else { out.extend_from_slice(b"false") }
}

fn put_float(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return put_not_finite(value, out);
    }
    let mut text = [0; 48];
    let len = float_text(value, &mut text);
    out.extend_from_slice(&text[..len]);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    put_base64(bytes, out);
    out.push(b'"');
}

fn put_datetime(time: DateTime, out: &mut Vec<u8>) {
    if !time.has_rfc3339() {
        return put_date(time, out);
    }
    // Writing to memory cannot fail.
    let _written = write!(out, "\"{time}\"");
}

fn put_uuid(bytes: &[u8; 16], out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _written = write!(out, "\"{}\"", UuidText(bytes));
}

fn put_object_id(id: ObjectId, out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _written = write!(out, "\"{id}\"");
}
