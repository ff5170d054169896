//! What a reader of an index wants of a sort key without decoding it.

use super::decode::decode;
use super::encode::Direction;
use super::kind;
use crate::datetime::DateTime;
use crate::utf8::from_utf8;
use crate::value::Value;
use flagstone_base::Malformed;

/// Returns the ascending key, or [`MISSING`](super::MISSING), of which `key` is the form in
/// `direction`. A descending one is turned in `buffer`.
pub fn turned<'k>(key: &'k [u8], direction: Direction, buffer: &'k mut Vec<u8>) -> &'k [u8] {
    if direction == Direction::Ascending {
        return key;
    }
    buffer.clear();
    // Without the end byte.
    let bytes = key.split_last().map_or(&[][..], |(_, bytes)| bytes);
    buffer.extend(bytes.iter().map(|byte| !byte));
    buffer
}

/// Returns the integer of 64 bits that a whole sort key is of.
#[inline]
pub fn as_int(key: &[u8], direction: Direction) -> Option<i64> {
    let (mask, key) = match direction {
        Direction::Ascending => (0, key),
        Direction::Descending => (0xFF, key.split_last()?.1),
    };
    let (class, bytes) = key.split_first()?;
    let class = class ^ mask;
    let magnitude =
        |mask: u8| bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(byte ^ mask));
    const SMALLEST: u8 = kind::NEGATIVE - 8;
    const NEAREST: u8 = kind::NEGATIVE - 1;
    const LEAST: u8 = kind::POSITIVE + 1;
    const LARGEST: u8 = kind::POSITIVE + 8;
    match class {
        kind::ZERO if bytes.is_empty() => Some(0),
        LEAST..=LARGEST if bytes.len() == usize::from(class - kind::POSITIVE) => {
            i64::try_from(magnitude(mask)).ok()
        }
        SMALLEST..=NEAREST if bytes.len() == usize::from(kind::NEGATIVE - class) => {
            0_i64.checked_sub_unsigned(magnitude(!mask))
        }
        _ => None,
    }
}

/// Returns the boolean whose ascending sort key begins with `class`.
#[inline]
pub const fn as_bool(class: u8) -> Option<bool> {
    match class {
        kind::FALSE => Some(false),
        kind::TRUE => Some(true),
        _ => None,
    }
}

/// Returns whether an ascending sort key that begins with `class` is that of an array or a map.
#[inline]
pub const fn is_container(class: u8) -> bool {
    matches!(class, kind::ARRAY | kind::MAP)
}

/// Returns the point in time that a whole sort key is of.
#[inline]
pub fn as_datetime(key: &[u8], direction: Direction) -> Option<DateTime> {
    let (mask, key) = match direction {
        Direction::Ascending => (0, key),
        Direction::Descending => (u64::MAX, key.split_last()?.1),
    };
    let (class, bytes) = key.split_first()?;
    if *class ^ mask as u8 != kind::DATE_TIME {
        return None;
    }
    let micros = u64::from_be_bytes(bytes.try_into().ok()?) ^ mask;
    Some(DateTime::from_micros(micros as i64 ^ i64::MIN))
}

/// Returns the text that a whole sort key is of; `None` if it is of another value. The text is in
/// the key, unless that is descending or the text has a zero: then it is in `buffer`.
///
/// # Errors
/// If the text has no end or is not UTF-8.
#[inline]
pub fn as_text<'k>(
    key: &'k [u8],
    direction: Direction,
    buffer: &'k mut Vec<u8>,
) -> Result<Option<&'k str>, Malformed> {
    let is_ascending = direction == Direction::Ascending;
    let mask = if is_ascending { 0 } else { 0xFF };
    if key.first() != Some(&(kind::TEXT ^ mask)) {
        return Ok(None);
    }
    let has_zero = |key: &[u8]| memchr::memchr(0, key) != key.len().checked_sub(1);
    if !is_ascending {
        turned(key, direction, buffer);
    }
    if has_zero(if is_ascending { key } else { buffer }) {
        if let Value::Text(text) = decode(key, direction)? {
            buffer.clear();
            buffer.extend_from_slice(b"\x60");
            buffer.extend_from_slice(text.as_bytes());
            buffer.push(0);
        }
        return plain_text(buffer).map(Some);
    }
    plain_text(if is_ascending { key } else { buffer }).map(Some)
}

/// Returns the text between the first byte and the last.
#[inline]
fn plain_text(key: &[u8]) -> Result<&str, Malformed> {
    let text = key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
    from_utf8(text).ok_or(Malformed { at: 1, expected: "UTF-8" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sort_key::encode;

    #[test]
    fn texts_times_and_booleans_read_back_and_no_others() {
        let texts = ["", "a", "\0", "a\0b", "\0\0", "é", "\u{1}\u{7F}\u{10FFFF}"].map(Value::from);
        let times = [0, -1, 1, i64::MIN, i64::MAX].map(DateTime::from_micros).map(Value::DateTime);
        let others = [Value::Null, true.into(), false.into(), 7.into(), Value::Bytes(b"a".into())];
        for direction in [Direction::Ascending, Direction::Descending] {
            for value in texts.iter().chain(&times).chain(&others) {
                let mut key = Vec::new();
                encode(value, direction, &mut key);
                let mut buffer = b"before".to_vec();
                let text = as_text(&key, direction, &mut buffer).unwrap();
                assert_eq!(text, value.as_str(), "{value}");
                let time = as_datetime(&key, direction).map(Value::DateTime);
                let expected = matches!(value, Value::DateTime(_)).then(|| value.clone());
                assert_eq!(time, expected, "{value}");
                let class = turned(&key, direction, &mut buffer)[0];
                assert_eq!(as_bool(class), value.as_bool(), "{value}");
                for cut in 0..key.len() {
                    let _text_or_not = as_text(&key[..cut], direction, &mut Vec::new());
                    assert_eq!(as_datetime(&key[..cut], direction), None);
                }
            }
        }
        assert!(as_text(b"\x60\xFF\0", Direction::Ascending, &mut Vec::new()).is_err());
        assert!(as_text(b"\x60a", Direction::Ascending, &mut Vec::new()).is_err());
    }

    #[test]
    fn the_keys_of_integers_read_back_and_no_others() {
        let mut buffer = Vec::new();
        for direction in [Direction::Ascending, Direction::Descending] {
            let key = |value: &Value| {
                let mut key = Vec::new();
                encode(value, direction, &mut key);
                key
            };
            for int in [0, 1, -1, 255, 256, -256, 1 << 40, i64::MAX, i64::MIN, i64::MIN + 1] {
                assert_eq!(as_int(&key(&int.into()), direction), Some(int));
            }
            let numbers = ["0.5", "-0.5", "7.25", "-7.25", "9223372036854775808", "1e-30"];
            let others = numbers.iter().map(|text| Value::number(text).unwrap());
            let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Value::Float);
            let scalars = ["", "B"].map(Value::from);
            for value in others.chain(floats).chain(scalars).chain([Value::Null]) {
                let key = key(&value);
                assert_eq!(as_int(&key, direction), None, "{value}");
                let mut ascending = Vec::new();
                encode(&value, Direction::Ascending, &mut ascending);
                assert_eq!(turned(&key, direction, &mut buffer), ascending, "{value}");
            }
        }
        assert_eq!(as_int(&[], Direction::Ascending), None);
        assert_eq!(turned(&[], Direction::Descending, &mut buffer), b"");
    }
}
