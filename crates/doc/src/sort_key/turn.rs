//! What a reader of an index wants of a sort key without decoding it.

use super::encode::Direction;
use super::kind;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::sort_key::encode;

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
