//! Decodes sort keys. The result equals the encoded value; its numbers have the plainest literal.

use super::encode::Direction;
use super::{kind, number};
use crate::datetime::DateTime;
use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::map::Map;
use crate::object_id::ObjectId;
use crate::value::Value;
use flagstone_base::{Decoder, Malformed};

/// Decodes the value of a sort key.
///
/// # Errors
/// If `bytes` are not a sort key, or bytes follow after its end.
pub fn decode(bytes: &[u8], direction: Direction) -> Result<Value, Malformed> {
    let (value, len) = decode_first(bytes, direction)?;
    if len < bytes.len() {
        return Err(Malformed { at: len, expected: "the end of the sort key" });
    }
    Ok(value)
}

/// Returns whether [`decode`] accepts `key`, an ascending sort key. Two kinds are not accepted: a
/// number whose exponent needs a literal of many megabytes, and a container nested too deep.
pub fn is_readable(key: &[u8]) -> bool {
    key.first() == Some(&kind::TEXT) || decode(key, Direction::Ascending).is_ok()
}

/// Decodes the sort key at the start of `bytes`; returns its value and its length in bytes.
///
/// A descending key costs a copy of `bytes`.
///
/// # Errors
/// If `bytes` do not begin with a sort key.
pub fn decode_first(bytes: &[u8], direction: Direction) -> Result<(Value, usize), Malformed> {
    if direction == Direction::Descending {
        let plain: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        let (value, len) = decode_first(&plain, Direction::Ascending)?;
        if plain.get(len) != Some(&kind::END) {
            return Err(Malformed { at: len, expected: "the end of a descending sort key" });
        }
        return Ok((value, len + 1));
    }
    let mut decoder = Decoder::new(bytes);
    let mut zeros = number::ZEROS_MAX;
    let value = plain(get(&mut decoder, DEPTH_MAX, &mut zeros)?, &decoder)?;
    Ok((value, decoder.position()))
}

fn run(decoder: &mut Decoder<'_>) -> Result<Vec<u8>, Malformed> {
    const WHAT: &str = "a run of bytes and its end";
    let mut bytes = Vec::new();
    loop {
        let rest = decoder.clone().rest();
        let zero = memchr::memchr(0, rest).ok_or_else(|| decoder.refuse(WHAT))?;
        bytes.extend_from_slice(&rest[..zero]);
        decoder.take(zero + 1, WHAT)?;
        if rest.get(zero + 1) != Some(&0xFF) {
            return Ok(bytes);
        }
        bytes.push(0);
        decoder.u8(WHAT)?;
    }
}

fn at_end(decoder: &mut Decoder<'_>) -> Result<bool, Malformed> {
    let ends = decoder.clone().u8("a sort key or the end of a container")? == kind::END;
    if ends {
        decoder.u8("the end of a container")?;
    }
    Ok(ends)
}

const ASCENDING: &str = "keys in ascending order";

/// Returns whether two keys are those of a timestamp, in the order of its sort key.
fn is_time(first: &Value, second: &Value) -> bool {
    first.as_str() == Some("t") && second.as_str() == Some("i")
}

/// Returns whether a value is a map with the parts of a timestamp in the order of its sort key.
fn has_time_first(value: &Value) -> bool {
    let Value::Map(map) = value else { return false };
    let mut keys = map.iter().map(|(key, _)| key);
    keys.next().zip(keys.next()).is_some_and(|(first, second)| is_time(first, second))
}

/// Refuses the parts of a timestamp outside of one.
fn plain(value: Value, decoder: &Decoder<'_>) -> Result<Value, Malformed> {
    if has_time_first(&value) { Err(decoder.refuse(ASCENDING)) } else { Ok(value) }
}

/// Decodes one value; `zeros` is the number of zeros that literals may still write out.
fn get(decoder: &mut Decoder<'_>, depth: usize, zeros: &mut u64) -> Result<Value, Malformed> {
    const WHAT: &str = "the type byte of a sort key";
    let start = decoder.position();
    let class = decoder.u8(WHAT)?;
    if depth == 0 && matches!(class, kind::ARRAY | kind::MAP) {
        return Err(Malformed { at: start, expected: TOO_DEEP });
    }
    let inside = depth.saturating_sub(1);
    Ok(match class {
        kind::NULL => Value::Null,
        kind::FALSE => Value::Bool(false),
        kind::TRUE => Value::Bool(true),
        kind::NOT_A_NUMBER => Value::Float(f64::NAN),
        kind::BELOW_ALL => Value::Float(f64::NEG_INFINITY),
        kind::ABOVE_ALL => Value::Float(f64::INFINITY),
        kind::HUGE_NEGATIVE..=kind::HUGE_POSITIVE => return number::get(class, decoder, zeros),
        kind::TEXT => Value::Text(
            String::from_utf8(run(decoder)?)
                .map_err(|_not_utf8| Malformed { at: start, expected: "text in UTF-8" })?,
        ),
        kind::BYTES => Value::Bytes(run(decoder)?),
        kind::OBJECT_ID => {
            Value::ObjectId(ObjectId::from_bytes(decoder.array("the bytes of an ObjectId")?))
        }
        kind::DATE_TIME => {
            let bytes = decoder.array("the bytes of a datetime")?;
            Value::DateTime(DateTime::from_micros(i64::from_be_bytes(bytes) ^ i64::MIN))
        }
        kind::UUID => Value::Uuid(decoder.array("the bytes of a uuid")?),
        kind::ARRAY => {
            let mut items = Vec::new();
            while !at_end(decoder)? {
                items.push(plain(get(decoder, inside, zeros)?, decoder)?);
            }
            Value::Array(items)
        }
        kind::MAP => {
            let mut pairs: Vec<(Value, Value)> = Vec::new();
            while !at_end(decoder)? {
                let key = plain(get(decoder, inside, zeros)?, decoder)?;
                let is_descending = pairs.last().is_some_and(|(last, _)| *last >= key);
                if is_descending && !(pairs.len() == 1 && is_time(&pairs[0].0, &key)) {
                    return Err(decoder.refuse(ASCENDING));
                }
                pairs.push((key, get(decoder, inside, zeros)?));
            }
            let map = Map::from_distinct(pairs);
            // The parts of a timestamp stand in their own order, and no others.
            let is_timestamp = map.timestamp().is_some();
            if map.iter().any(|(_, value)| has_time_first(value) != is_timestamp) {
                return Err(decoder.refuse(ASCENDING));
            }
            Value::Map(map)
        }
        _ => return Err(Malformed { at: start, expected: WHAT }),
    })
}
