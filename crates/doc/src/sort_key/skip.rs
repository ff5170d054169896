//! The length of a sort key, found without decoding it.

use super::encode::Direction;
use super::kind;
use flagstone_base::Malformed;

/// The first byte of a fraction, and the last escaped byte of a run.
const MORE: u8 = 0xFF;
/// The floor of a number takes at most this many bytes. Numbers from 2^63 on have an exponent.
const NUMBER_BYTES_MAX: u8 = 8;
/// From this byte on the first byte of an exponent says how many bytes follow.
const LONG_EXPONENT: u8 = 0xF8;

/// Returns the length of the sort key at the start of `bytes`; `None` if `bytes` end before the key
/// does. An ascending key may be continued by FF, a whole number by its fraction and a run of bytes
/// by an escape; it counts as ended where `bytes` end. Nothing is decoded or allocated.
///
/// # Errors
/// If `bytes` do not begin with a sort key.
#[inline]
pub fn first_len(bytes: &[u8], direction: Direction) -> Result<Option<usize>, Malformed> {
    if direction == Direction::Ascending
        && let Some(len) = whole_number_len(bytes)
    {
        return Ok(Some(len));
    }
    first_len_of_any(bytes, direction)
}

/// Returns the length of an ascending positive number that is whole and below 2^63, if another byte
/// follows it. Most numbers are such.
#[inline]
fn whole_number_len(bytes: &[u8]) -> Option<usize> {
    let len = usize::from(bytes.first()?.checked_sub(kind::POSITIVE)?);
    let next = bytes.get(1 + len)?;
    (len <= usize::from(NUMBER_BYTES_MAX) && *next != MORE).then_some(1 + len)
}

#[inline(never)]
fn first_len_of_any(bytes: &[u8], direction: Direction) -> Result<Option<usize>, Malformed> {
    let descending = direction == Direction::Descending;
    let mut skip = Skip { bytes, at: 0, mask: if descending { 0xFF } else { 0 } };
    let Some(()) = skip.value()? else { return Ok(None) };
    if !descending {
        return Ok(Some(skip.at));
    }
    match skip.byte() {
        None => Ok(None),
        Some(kind::END) => Ok(Some(skip.at)),
        Some(_) => Err(skip.refuse("the end of a descending sort key")),
    }
}

/// A position in a sort key. Each function returns `None` where the bytes end too early.
struct Skip<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Inverts the bytes of a descending key.
    mask: u8,
}

impl Skip<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).map(|byte| byte ^ self.mask)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, count: usize) -> Option<()> {
        let left = self.bytes.len() - self.at;
        (count <= left).then(|| self.at += count)
    }

    /// The error of the byte before the position.
    const fn refuse(&self, expected: &'static str) -> Malformed {
        Malformed { at: self.at - 1, expected }
    }

    /// Skips a value with everything in it.
    fn value(&mut self) -> Result<Option<()>, Malformed> {
        let mut open = 0_usize;
        loop {
            let Some(class) = self.byte() else { return Ok(None) };
            let skipped = match class {
                kind::ARRAY | kind::MAP => {
                    open += 1;
                    Some(())
                }
                kind::END if open > 0 => {
                    open -= 1;
                    Some(())
                }
                kind::NULL | kind::FALSE | kind::TRUE => Some(()),
                kind::TEXT | kind::BYTES => self.run(),
                kind::DATE_TIME => self.take(8),
                kind::UUID => self.take(16),
                kind::OBJECT_ID => self.take(12),
                _ => self.number(class)?,
            };
            match skipped {
                None => return Ok(None),
                Some(()) if open == 0 => return Ok(Some(())),
                Some(()) => {}
            }
        }
    }

    /// Skips a run of bytes and its end.
    fn run(&mut self) -> Option<()> {
        loop {
            let rest = &self.bytes[self.at..];
            let zero = memchr::memchr(self.mask, rest)?;
            self.at += zero + 1;
            if self.peek() != Some(MORE) {
                return Some(());
            }
            self.at += 1;
        }
    }

    fn number(&mut self, class: u8) -> Result<Option<()>, Malformed> {
        const SMALLEST: u8 = kind::NEGATIVE - NUMBER_BYTES_MAX;
        const LARGEST: u8 = kind::POSITIVE + NUMBER_BYTES_MAX;
        Ok(match class {
            kind::NOT_A_NUMBER | kind::BELOW_ALL | kind::ZERO | kind::ABOVE_ALL => Some(()),
            kind::HUGE_NEGATIVE => self.by_exponent(0xFF, 0xFF),
            kind::TINY_NEGATIVE => self.by_exponent(0, 0xFF),
            kind::TINY_POSITIVE => self.by_exponent(0xFF, 0),
            kind::HUGE_POSITIVE => self.by_exponent(0, 0),
            SMALLEST..kind::NEGATIVE => self.floor(usize::from(kind::NEGATIVE - class)),
            kind::POSITIVE..=LARGEST => self.floor(usize::from(class - kind::POSITIVE)),
            _ => return Err(self.refuse("the type byte of a sort key")),
        })
    }

    fn floor(&mut self, len: usize) -> Option<()> {
        self.take(len)?;
        if self.peek() != Some(MORE) {
            return Some(());
        }
        self.at += 1;
        self.digits(0)
    }

    fn by_exponent(&mut self, invert_exponent: u8, invert: u8) -> Option<()> {
        let first = self.byte()? ^ invert_exponent;
        if first >= LONG_EXPONENT {
            self.take(usize::from(first - (LONG_EXPONENT - 1)))?;
        }
        self.digits(invert)
    }

    /// Skips digits and their end.
    fn digits(&mut self, invert: u8) -> Option<()> {
        let end = memchr::memchr(invert ^ self.mask, &self.bytes[self.at..])?;
        self.at += end + 1;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sort_key::encode;
    use crate::{DateTime, ObjectId, Value, doc};

    fn values() -> Vec<Value> {
        let numbers = [
            "0",
            "7",
            "7.25",
            "-0.25",
            "-1",
            "255",
            "256",
            "-256",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "1e30",
            "-1e30",
            "1e400",
            "-1e400",
            "1e1000000000",
            "1e-1000000000",
            "-1e-1000000000",
            "1e-30",
            "-1e-30",
            "0.5",
            "-9223372036854775808",
            "-9223372036854775809",
            "123456.789",
        ];
        let mut values: Vec<Value> =
            numbers.iter().map(|text| Value::number(text).unwrap()).collect();
        values.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Value::Float));
        values.extend(["", "a", "a\0b", "\0", "\0\0", "\u{1}\u{7F}"].map(Value::from));
        values.extend([Value::Bytes(vec![0, 0xFF, 0, 1]), Value::Bytes(vec![0xFF; 3])]);
        values.extend([Value::Null, false.into(), true.into(), Value::Uuid([0xFF; 16])]);
        values.push(Value::DateTime(DateTime::from_micros(-1)));
        values.push(Value::ObjectId(ObjectId::from_bytes([0xFF; 12])));
        values.extend([doc!([]), doc!({}), doc!([[], [1, [2]], {"a": [null]}])]);
        let nested = Value::Array(values.clone());
        values.push(doc!({ "a": (nested), "b\0": { "c": 7.5 } }));
        values
    }

    #[test]
    fn the_length_of_a_key_is_found_among_the_bytes_that_follow() {
        for direction in [Direction::Ascending, Direction::Descending] {
            for value in values() {
                let mut key = Vec::new();
                encode(&value, direction, &mut key);
                let len = key.len();
                assert_eq!(first_len(&key, direction), Ok(Some(len)), "{value}");
                for next in values() {
                    key.truncate(len);
                    encode(&next, Direction::Ascending, &mut key);
                    assert_eq!(first_len(&key, direction), Ok(Some(len)), "{value} {next}");
                }
            }
        }
    }

    #[test]
    fn a_key_that_is_cut_short_has_no_length() {
        for direction in [Direction::Ascending, Direction::Descending] {
            for value in values() {
                let mut key = Vec::new();
                encode(&value, direction, &mut key);
                for cut in 0..key.len() {
                    match first_len(&key[..cut], direction) {
                        Ok(None) => {}
                        // Only FF continues what may be whole.
                        Ok(Some(len)) => assert_eq!((len, key[cut]), (cut, 0xFF), "{value}"),
                        Err(malformed) => panic!("{value} at {cut}: {malformed}"),
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_sort_key_is_refused() {
        for bytes in [[0x01], [0x00], [0xFF], [0x30], [0x50], [0x04], [0x06]] {
            assert!(first_len(&bytes, Direction::Ascending).is_err(), "{bytes:?}");
        }
    }
}
