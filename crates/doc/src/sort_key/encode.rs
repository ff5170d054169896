//! Encodes values as sort keys.

use super::{kind, number};
use crate::map::Map;
use crate::value::{Limit, Value};
use crate::view::View;
use flagstone_base::Malformed;
use flagstone_base::sorted::sort_by;

/// The direction in which a sort key orders values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Small values come first.
    #[default]
    Ascending,
    /// Large values come first: a byte is added that ends the key, then all bytes are inverted.
    Descending,
}

impl Direction {
    /// Turns the ascending key at the end of `out` into a key of this direction. A descending key
    /// gets an end byte. Without it the key of 7 would be a prefix of the key of 7.5, and so come
    /// first in both directions.
    fn apply(self, start: usize, out: &mut Vec<u8>) {
        if self == Self::Descending {
            out.push(kind::END);
            for byte in &mut out[start..] {
                *byte = !*byte;
            }
        }
    }
}

/// Appends the sort key of `value`. The keys of any two values compare as the values do.
///
/// A key is at most a few bytes longer than the value's JSON, however large its exponents are.
pub fn encode(value: &Value, direction: Direction, out: &mut Vec<u8>) {
    let start = out.len();
    put(value, out);
    direction.apply(start, out);
}

/// Appends an ascending sort key, or [`MISSING`](super::MISSING), in another direction.
pub fn directed(ascending: &[u8], direction: Direction, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(ascending);
    direction.apply(start, out);
}

/// Appends the sort key of the value of `view`; scalars are not decoded for this.
///
/// # Errors
/// If the bytes read are malformed; `out` may then hold a part of a key.
pub fn encode_view(
    view: &View<'_>,
    direction: Direction,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let start = out.len();
    if let Some(text) = view.as_text_bytes() {
        put_run(kind::TEXT, text, out);
    } else if let Some(int) = view.as_small_int() {
        number::put_int(int, out);
    } else {
        put(&view.to_value()?, out);
    }
    direction.apply(start, out);
    Ok(())
}

/// Appends the sort key of the value at the dotted `path` (`id`, `a.b`) of `document`. Returns
/// false if there is no such value. A collection takes primary keys from documents this way.
///
/// # Errors
/// If the bytes read are malformed.
pub fn extract(document: &View<'_>, path: &str, out: &mut Vec<u8>) -> Result<bool, Malformed> {
    match document.path(path)? {
        Some(view) => encode_view(&view, Direction::Ascending, out).map(|()| true),
        None => Ok(false),
    }
}

/// Appends a run of bytes: 00 becomes 00 FF, and 00 ends the run.
fn put_run(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    out.push(kind);
    let mut rest = bytes;
    while let Some(zero) = memchr::memchr(0, rest) {
        out.extend_from_slice(&rest[..=zero]);
        out.push(0xFF);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.push(0);
}

fn put(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(kind::NULL),
        Value::Bool(false) => out.push(kind::FALSE),
        Value::Bool(true) => out.push(kind::TRUE),
        Value::Int(int) => number::put_int(*int, out),
        Value::Number(_) | Value::Float(_) => match value.exact(&mut [0; 48]) {
            Ok(exact) => number::put(&exact, out),
            Err(Limit::NotANumber) => out.push(kind::NOT_A_NUMBER),
            Err(Limit::BelowAll) => out.push(kind::BELOW_ALL),
            Err(Limit::AboveAll) => out.push(kind::ABOVE_ALL),
        },
        Value::Text(text) => put_run(kind::TEXT, text.as_bytes(), out),
        Value::Bytes(bytes) => put_run(kind::BYTES, bytes, out),
        Value::ObjectId(id) => {
            out.push(kind::OBJECT_ID);
            out.extend_from_slice(id.as_bytes());
        }
        Value::DateTime(time) => {
            out.push(kind::DATE_TIME);
            out.extend_from_slice(&(time.as_micros() ^ i64::MIN).to_be_bytes());
        }
        Value::Uuid(bytes) => {
            out.push(kind::UUID);
            out.extend_from_slice(bytes);
        }
        Value::Array(items) => {
            out.push(kind::ARRAY);
            items.iter().for_each(|item| put(item, out));
            out.push(kind::END);
        }
        Value::Map(map) => {
            out.push(kind::MAP);
            put_pairs(map, out);
        }
    }
}

/// Appends the pairs of a map in the order of their keys, and the end byte. The parts of a
/// timestamp stand in the order in which they count.
fn put_pairs(map: &Map, out: &mut Vec<u8>) {
    if let Some([seconds, increment]) = map.timestamp() {
        put_run(kind::TEXT, b"$timestamp", out);
        out.push(kind::MAP);
        put_run(kind::TEXT, b"t", out);
        put(seconds, out);
        put_run(kind::TEXT, b"i", out);
        put(increment, out);
        out.push(kind::END);
    } else if map.has_only_names() {
        for (key, value) in map.sorted() {
            put(key, out);
            put(value, out);
        }
    } else {
        // Each key is encoded once: twice at every level would take 2^depth steps.
        let start = out.len();
        let mut places = Vec::with_capacity(map.len());
        for (key, value) in map {
            let from = out.len();
            put(key, out);
            let key_end = out.len();
            put(value, out);
            places.push((from..key_end, from..out.len()));
        }
        if !places.is_sorted_by(|(a, _), (b, _)| out[a.clone()] < out[b.clone()]) {
            sort_by(&mut places, |(a, _), (b, _)| out[a.clone()].cmp(&out[b.clone()]));
            let pairs: Vec<u8> =
                places.into_iter().flat_map(|(_, pair)| &out[pair]).copied().collect();
            out.truncate(start);
            out.extend_from_slice(&pairs);
        }
    }
    out.push(kind::END);
}

/// Returns the ascending sort key of `value`.
pub(crate) fn of(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out);
    out
}

/// Returns the part of a map's sort key that differs between maps.
pub(crate) fn of_pairs(map: &Map) -> Vec<u8> {
    let mut out = Vec::new();
    put_pairs(map, &mut out);
    out
}
