//! Writes documents as Extended JSON. It has functions of its own, so that those of plain JSON,
//! which most programs want, are compiled as if they were alone.

use super::extended::{is_form, needs_literal, put_binary, put_date, put_object_id, put_uuid};
use super::options::JsonMode;
use super::write::{
    append_json, append_json_bytes, append_value_json, check_utf8, put_comma, put_items, put_map,
    put_pairs,
};
use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::number::Width;
use crate::print::{put_i64, put_key};
use crate::value::Value;
use crate::value::number_type::{NumberType, is_marked_decimal};
use crate::view::{FieldKey, StoredNumber, View};
use flagstone_base::Malformed;

/// As [`append_json`], in a mode.
///
/// # Errors
/// As [`append_json`].
pub fn append_json_as(view: &View<'_>, mode: JsonMode, out: &mut Vec<u8>) -> Result<(), Malformed> {
    match mode {
        JsonMode::Plain => append_json(view, out),
        JsonMode::Extended => append_extended(view, Longs::Typed, out),
    }
}

/// As [`append_json_as`], extended, but integers of 64 bits are plain numbers: for programs that
/// read counts and sizes of replies.
///
/// # Errors
/// As [`append_json`].
pub fn append_relaxed_json(view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    append_extended(view, Longs::Plain, out)
}

/// How a 64-bit integer that fits 32 bits is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Longs {
    /// With its type.
    Typed,
    /// As a number.
    Plain,
}

fn append_extended(view: &View<'_>, longs: Longs, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    put_view(view, DEPTH_MAX, longs, out)?;
    check_utf8(view, &out[start..])
}

/// As [`append_value_json`], in a mode.
pub fn append_value_json_as(value: &Value, mode: JsonMode, out: &mut Vec<u8>) {
    match mode {
        JsonMode::Plain => append_value_json(value, out),
        JsonMode::Extended => put_value(value, out),
    }
}

fn put_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bytes(bytes) => put_binary(bytes, out),
        Value::DateTime(time) => put_date(*time, out),
        Value::Uuid(bytes) => put_uuid(bytes, out),
        Value::ObjectId(id) => put_object_id(*id, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                put_comma(i, out);
                put_value(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) if needs_literal(map) => {
            out.extend_from_slice(LITERAL_START);
            put_map(map, out, put_value);
            out.push(b'}');
        }
        Value::Map(map) => put_map(map, out, put_value),
        Value::Number(number) => match number.width() {
            Width::Long => put_typed(LONG, number.as_str(), out),
            Width::Literal if needs_type(number.as_str()) => {
                put_typed(DECIMAL, number.as_str(), out);
            }
            Width::Least | Width::Literal => append_value_json(value, out),
        },
        scalar => append_value_json(scalar, out),
    }
}

/// Returns whether the literal of a decimal alone is that of a number of another type.
fn needs_type(literal: &str) -> bool {
    if is_marked_decimal(literal) {
        return false;
    }
    let alone = Value::number(literal);
    alone.and_then(|alone| NumberType::of(&alone)) != Some(NumberType::Decimal)
}

/// Appends a number that would be read as one of another type without its own.
fn put_typed(form: &[u8], literal: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(form);
    out.extend_from_slice(literal.as_bytes());
    out.extend_from_slice(TYPED_END);
}

/// What is around a literal with its type.
const LONG: &[u8] = b"{\"$numberLong\":\"";
const DECIMAL: &[u8] = b"{\"$numberDecimal\":\"";
const TYPED_END: &[u8] = b"\"}";

const LITERAL_START: &[u8] = b"{\"$literal\":";

fn put_view(
    view: &View<'_>,
    depth: usize,
    longs: Longs,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    if view.is_map() {
        put_fields(view, depth, longs, out)?;
    } else if view.is_array() {
        put_items(view, depth, out, |item, depth, out| put_view(item, depth, longs, out))?;
    } else if let Some(time) = view.as_datetime() {
        put_date(time, out);
    } else if let Some(bytes) = view.as_bytes() {
        put_binary(bytes, out);
    } else if let Some(bytes) = view.as_uuid() {
        put_uuid(bytes, out);
    } else if let Some(id) = view.as_object_id() {
        put_object_id(id, out);
    } else {
        match view.stored_number() {
            Some(StoredNumber::Long(int)) if longs == Longs::Typed => {
                out.extend_from_slice(LONG);
                put_i64(int, out);
                out.extend_from_slice(TYPED_END);
            }
            Some(StoredNumber::Literal { text, is_wide: true }) if needs_type(text) => {
                put_typed(DECIMAL, text, out);
            }
            _ => append_json_bytes(view, out)?,
        }
    }
    Ok(())
}

fn put_fields(
    view: &View<'_>,
    depth: usize,
    longs: Longs,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(view.malformed(TOO_DEEP))?;
    let is_literal = is_literal(view)?;
    if is_literal {
        out.extend_from_slice(LITERAL_START);
    }
    let start = out.len();
    for field in view.fields()? {
        let (key, value) = field?;
        let FieldKey::Name(name) = key else {
            out.truncate(start);
            return put_pairs(view, out, |part, out| put_view(part, depth, longs, out));
        };
        put_key(name, out);
        put_view(&value, depth, longs, out)?;
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

/// Returns whether a map has the name of a form, and must be written as `$literal`.
fn is_literal(view: &View<'_>) -> Result<bool, Malformed> {
    let is_inside = |view: &View<'_>| view.is_array() || view.is_map();
    let (mut has_form, mut is_deep) = (false, false);
    for field in view.fields()? {
        let (FieldKey::Name(name), value) = field? else { return Ok(false) };
        has_form |= is_form(name);
        is_deep |= is_inside(&value) && (name != "$binary" || value.is_array());
        if name == "$binary" && value.is_map() {
            for field in value.fields()? {
                is_deep |= is_inside(&field?.1);
            }
        }
    }
    // A deep map is none that stays as it is. It is not decoded: each level would be, with all
    // below.
    Ok(has_form && (is_deep || view.to_value()?.as_map().is_none_or(needs_literal)))
}
