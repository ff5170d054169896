//! Writes documents as JSON, from their bytes or from values in memory.
//!
//! Types that JSON lacks become text: bytes in base64, datetimes by RFC 3339, UUIDs in
//! hexadecimal. What has no such text is written in a form of Extended JSON: a float that is not
//! finite, a datetime outside the years 0 to 9999, a map with a key that is not text. In the mode
//! `Extended` all these types are.

use super::extended;
use super::options::JsonMode;
use crate::datetime::DateTime;
use crate::depth::DEPTH_MAX;
use crate::layout::{tag, unsigned};
use crate::map::Map;
use crate::number::float_text;
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

/// As [`append_json`], in a mode.
///
/// # Errors
/// As [`append_json`].
pub fn append_json_as(view: &View<'_>, mode: JsonMode, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    match mode {
        JsonMode::Plain => put_view::<PLAIN>(view, DEPTH_MAX, out)?,
        JsonMode::Extended => put_view::<EXTENDED>(view, DEPTH_MAX, out)?,
    }
    check_utf8(view, &out[start..])
}

/// As [`append_json`], but does not check that the text is UTF-8: in a damaged document it may not
/// be. For a caller that checks the whole text anyway.
///
/// # Errors
/// As [`append_json`], other than for text that is not UTF-8.
pub fn append_json_bytes(view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    put_view::<PLAIN>(view, DEPTH_MAX, out)
}

/// One check covers all strings: the quotes between them are ASCII.
fn check_utf8(view: &View<'_>, text: &[u8]) -> Result<(), Malformed> {
    match simdutf8::basic::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(view.malformed("text in UTF-8")),
    }
}

/// Appends `value` as JSON without spaces.
pub fn append_value_json(value: &Value, out: &mut Vec<u8>) {
    put_value::<PLAIN>(value, out);
}

/// As [`append_value_json`], in a mode.
pub fn append_value_json_as(value: &Value, mode: JsonMode, out: &mut Vec<u8>) {
    match mode {
        JsonMode::Plain => put_value::<PLAIN>(value, out),
        JsonMode::Extended => put_value::<EXTENDED>(value, out),
    }
}

/// The modes, as parameters of functions: each is compiled by itself.
const PLAIN: bool = false;
const EXTENDED: bool = true;

fn put_value<const MODE: bool>(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => put_bool(*value, out),
        Value::Int(int) => put_i64(*int, out),
        Value::Number(number) => out.extend_from_slice(number.as_str().as_bytes()),
        Value::Float(float) => put_float(*float, out),
        Value::Text(text) => put_text(text.as_bytes(), out),
        Value::Bytes(bytes) => put_bytes::<MODE>(bytes, out),
        Value::DateTime(time) => put_datetime::<MODE>(*time, out),
        Value::Uuid(bytes) => put_uuid::<MODE>(bytes, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                put_comma(i, out);
                put_value::<MODE>(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) if !map.has_only_names() => {
            out.extend_from_slice(b"{\"$pairs\":[");
            for (i, (key, value)) in map.sorted().into_iter().enumerate() {
                out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
                put_value::<MODE>(key, out);
                out.push(b',');
                put_value::<MODE>(value, out);
                out.push(b']');
            }
            out.extend_from_slice(b"]}");
        }
        Value::Map(map) if MODE == EXTENDED && extended::needs_literal(map) => {
            out.extend_from_slice(b"{\"$literal\":");
            put_names::<MODE>(map, out);
            out.push(b'}');
        }
        Value::Map(map) => put_names::<MODE>(map, out),
    }
}

/// Appends a map whose keys are names.
fn put_names<const MODE: bool>(map: &Map, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (key, value)) in map.iter().enumerate() {
        put_comma(i, out);
        put_text(key.as_str().unwrap_or_default().as_bytes(), out);
        out.push(b':');
        put_value::<MODE>(value, out);
    }
    out.push(b'}');
}

/// Appends a value. Inlined, so that the views of most values stay in registers.
#[inline(always)]
fn put_view<const MODE: bool>(
    view: &View<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
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
    put_other::<MODE>(view, depth, out)
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
fn put_other<const MODE: bool>(
    view: &View<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let (tag, payload) = view.raw_scalar();
    match tag {
        tag::ARRAY_4 => put_items::<MODE>(view, depth, out)?,
        tag::MAP_4 => put_fields::<MODE>(view, depth, out)?,
        tag::U64 => put_u64(unsigned(payload), out),
        tag::FLOAT => put_float(f64::from_bits(unsigned(payload)), out),
        tag::DECIMAL_4 | tag::DECIMAL_8 => {
            let (coefficient, scale) = view.as_decimal().unwrap_or_default();
            put_decimal(coefficient, scale, out);
        }
        tag::LITERAL_1 | tag::LITERAL_4 => {
            if crate::number::Literal::whole(payload).is_none() {
                return Err(view.malformed("a number"));
            }
            out.extend_from_slice(payload);
        }
        tag::BYTES_1 | tag::BYTES_4 => put_bytes::<MODE>(payload, out),
        tag::DATE_TIME => put_datetime::<MODE>(view.as_datetime().unwrap_or_default(), out),
        tag::UUID => put_uuid::<MODE>(view.as_uuid().unwrap_or(&[0; 16]), out),
        _ => return Err(view.malformed("a tag that this version knows")),
    }
    Ok(())
}

fn put_items<const MODE: bool>(
    view: &View<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(view.malformed("nesting of at most 512 levels"))?;
    out.push(b'[');
    for (i, item) in view.items()?.enumerate() {
        put_comma(i, out);
        put_view::<MODE>(&item?, depth, out)?;
    }
    out.push(b']');
    Ok(())
}

fn put_fields<const MODE: bool>(
    view: &View<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(view.malformed("nesting of at most 512 levels"))?;
    let is_literal = MODE == EXTENDED && needs_literal(view)?;
    if is_literal {
        out.extend_from_slice(b"{\"$literal\":");
    }
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
                    put_view::<MODE>(&body.next(&mut place)?, depth, out)?;
                }
            }
        }
        None => {
            for field in view.fields()? {
                let (key, value) = field?;
                let FieldKey::Name(name) = key else {
                    out.truncate(start);
                    return put_pairs::<MODE>(view, depth, out);
                };
                put_key(name, out);
                put_view::<MODE>(&value, depth, out)?;
            }
        }
    }
    // Every name has a comma before it.
    match out.get_mut(start) {
        Some(first) => *first = b'{',
        None => out.push(b'{'),
    }
    out.push(b'}');
    if is_literal {
        out.push(b'}');
    }
    Ok(())
}

/// Appends a map with a key that is not text.
#[cold]
fn put_pairs<const MODE: bool>(
    view: &View<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.extend_from_slice(b"{\"$pairs\":[");
    for (i, field) in view.fields()?.enumerate() {
        let (key, value) = field?;
        out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
        match key {
            FieldKey::Name(name) => put_text(name.as_bytes(), out),
            FieldKey::Value(key) => put_view::<MODE>(&key, depth, out)?,
        }
        out.push(b',');
        put_view::<MODE>(&value, depth, out)?;
        out.push(b']');
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

/// Returns whether a map has the name of a form, and must be written as `$literal`.
fn needs_literal(view: &View<'_>) -> Result<bool, Malformed> {
    let is_inside = |view: &View<'_>| view.is_array() || view.is_map();
    let (mut has_form, mut is_deep) = (false, false);
    for field in view.fields()? {
        let (FieldKey::Name(name), value) = field? else { return Ok(false) };
        has_form |= extended::is_form(name);
        is_deep |= is_inside(&value) && name != "$binary";
        if name == "$binary" && value.is_map() {
            for field in value.fields()? {
                is_deep |= is_inside(&field?.1);
            }
        }
    }
    // A deep map is none that stays as it is. It is not decoded: each level would be, with all
    // below.
    let must = |value: &Value| value.as_map().is_none_or(extended::needs_literal);
    Ok(has_form && (is_deep || must(&view.to_value()?)))
}

fn put_comma(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

#[inline]
fn put_bool(value: bool, out: &mut Vec<u8>) {
    // Copies of fixed length need no call.
    match value {
        true => out.extend_from_slice(b"true"),
        false => out.extend_from_slice(b"false"),
    }
}

fn put_float(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return extended::put_not_finite(value, out);
    }
    let mut text = [0; 48];
    let len = float_text(value, &mut text);
    out.extend_from_slice(&text[..len]);
}

fn put_bytes<const MODE: bool>(bytes: &[u8], out: &mut Vec<u8>) {
    if MODE == EXTENDED {
        return extended::put_binary(bytes, out);
    }
    out.push(b'"');
    put_base64(bytes, out);
    out.push(b'"');
}

fn put_datetime<const MODE: bool>(time: DateTime, out: &mut Vec<u8>) {
    if MODE == EXTENDED || !time.has_rfc3339() {
        return extended::put_date(time, out);
    }
    // Writing to memory cannot fail.
    let _written = write!(out, "\"{time}\"");
}

fn put_uuid<const MODE: bool>(bytes: &[u8; 16], out: &mut Vec<u8>) {
    if MODE == EXTENDED {
        return extended::put_uuid(bytes, out);
    }
    // Writing to memory cannot fail.
    let _written = write!(out, "\"{}\"", UuidText(bytes));
}
