//! The sort key of a number: its floor in the fewest bytes, then its fraction in base 100.
//!
//! Two classes of numbers are written as their decimal exponent and digits instead: those with a
//! magnitude of 2^63 or more, and fractions with more than 16 leading zeros. So the length of a
//! key follows the length of the number's literal.

use super::kind;
use crate::number::{EXPONENT_MAX, Exact, Number};
use crate::value::Value;
use flagstone_base::{Decoder, Malformed};

const LEADING_ZEROS_MAX: i64 = 16;
const FRACTION: u8 = 0xFF;
const HALF: u64 = 1 << 63;
/// The limit of zeros in all literals made from one key of the disk: as many as the bytes of the
/// longest JSON document by default.
pub(super) const ZEROS_MAX: u64 = 1 << 24;

/// Appends an unsigned integer so that bytes compare as integers do: one byte for values below F8,
/// otherwise the byte F7 + n and n big-endian bytes.
fn put_ordered(value: u64, invert: u8, out: &mut Vec<u8>) {
    if value < 0xF8 {
        out.push(value as u8 ^ invert);
        return;
    }
    let bytes = value.to_be_bytes();
    let skip = value.leading_zeros() as usize / 8;
    out.push((0xF7 + (8 - skip) as u8) ^ invert);
    out.extend(bytes[skip..].iter().map(|byte| byte ^ invert));
}

fn ordered(decoder: &mut Decoder<'_>, invert: u8) -> Result<u64, Malformed> {
    const WHAT: &str = "a decimal exponent";
    let first = decoder.u8(WHAT)? ^ invert;
    if first < 0xF8 {
        return Ok(first.into());
    }
    let bytes = decoder.take(usize::from(first - 0xF7), WHAT)?;
    Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(byte ^ invert)))
}

/// Appends digits (0..=9) as pairs, each plus one, and an end byte.
fn put_pairs(digits: impl Iterator<Item = u8>, invert: u8, out: &mut Vec<u8>) {
    let mut digits = digits;
    while let Some(tens) = digits.next() {
        let ones = digits.next().unwrap_or(0);
        out.push((tens * 10 + ones + 1) ^ invert);
    }
    out.push(invert);
}

/// Decodes pairs of digits up to their end, without trailing zeros; there is at least one digit.
fn pairs(decoder: &mut Decoder<'_>, invert: u8) -> Result<Vec<u8>, Malformed> {
    const WHAT: &str = "base-100 digits and their end";
    let mut digits = Vec::new();
    loop {
        let byte = decoder.u8(WHAT)? ^ invert;
        match byte {
            0 => break,
            1..=100 => digits.extend([(byte - 1) / 10, (byte - 1) % 10]),
            _ => return Err(decoder.refuse(WHAT)),
        }
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    if digits.is_empty() { Err(decoder.refuse(WHAT)) } else { Ok(digits) }
}

fn put_by_exponent(number: &Exact<'_>, out: &mut Vec<u8>) {
    let tiny = number.exponent < 0;
    let class = match (tiny, number.negative) {
        (true, true) => kind::TINY_NEGATIVE,
        (true, false) => kind::TINY_POSITIVE,
        (false, true) => kind::HUGE_NEGATIVE,
        (false, false) => kind::HUGE_POSITIVE,
    };
    out.push(class);
    let invert = if number.negative { 0xFF } else { 0 };
    let invert_exponent = if number.negative == tiny { 0 } else { 0xFF };
    put_ordered(number.exponent.unsigned_abs(), invert_exponent, out);
    put_pairs(number.digits(), invert, out);
}

/// Returns the digits of `1 - 0.digits`; the last of `digits` must not be zero.
fn complement(digits: impl Iterator<Item = u8>) -> impl Iterator<Item = u8> {
    let mut digits = digits.peekable();
    std::iter::from_fn(move || {
        let digit = digits.next()?;
        Some(if digits.peek().is_some() { 9 - digit } else { 10 - digit })
    })
}

pub(super) fn put(number: &Exact<'_>, out: &mut Vec<u8>) {
    if number.is_zero() {
        out.push(kind::ZERO);
        return;
    }
    if number.exponent < -LEADING_ZEROS_MAX {
        return put_by_exponent(number, out);
    }
    let Some((whole, has_fraction)) = number.whole_part() else {
        return put_by_exponent(number, out);
    };
    let floor = if number.negative { whole + u64::from(has_fraction) } else { whole };
    if floor > HALF || (floor == HALF && !number.negative) {
        return put_by_exponent(number, out);
    }
    let skip = floor.leading_zeros() as usize / 8;
    let bytes = floor.to_be_bytes();
    let len = (8 - skip) as u8;
    if number.negative {
        out.push(kind::NEGATIVE - len);
        out.extend(bytes[skip..].iter().map(|byte| !byte));
    } else {
        out.push(kind::POSITIVE + len);
        out.extend_from_slice(&bytes[skip..]);
    }
    if has_fraction {
        out.push(FRACTION);
        let zeros = std::iter::repeat_n(0, (-number.exponent).max(0) as usize);
        let digits = zeros.chain(number.digits().skip(number.exponent.max(0) as usize));
        if number.negative {
            put_pairs(complement(digits), 0, out);
        } else {
            put_pairs(digits, 0, out);
        }
    }
}

/// Appends the sort key of a 64-bit integer without computing its decimal digits.
pub(super) fn put_int(value: i64, out: &mut Vec<u8>) {
    let magnitude = value.unsigned_abs();
    let bytes = magnitude.to_be_bytes();
    let skip = magnitude.leading_zeros() as usize / 8;
    let len = (8 - skip) as u8;
    match value {
        0 => out.push(kind::ZERO),
        1.. => {
            out.push(kind::POSITIVE + len);
            out.extend_from_slice(&bytes[skip..]);
        }
        _ => {
            out.push(kind::NEGATIVE - len);
            out.extend(bytes[skip..].iter().map(|byte| !byte));
        }
    }
}

/// Decodes a number whose first byte, its class, was `class`.
pub(super) fn get(
    class: u8,
    decoder: &mut Decoder<'_>,
    zeros: &mut u64,
) -> Result<Value, Malformed> {
    match class {
        kind::ZERO => Ok(Value::Int(0)),
        kind::TINY_NEGATIVE | kind::TINY_POSITIVE | kind::HUGE_NEGATIVE | kind::HUGE_POSITIVE => {
            by_exponent(class, decoder, zeros)
        }
        _ => plain(class, decoder),
    }
}

fn by_exponent(class: u8, decoder: &mut Decoder<'_>, zeros: &mut u64) -> Result<Value, Malformed> {
    let negative = matches!(class, kind::TINY_NEGATIVE | kind::HUGE_NEGATIVE);
    let tiny = matches!(class, kind::TINY_NEGATIVE | kind::TINY_POSITIVE);
    let invert = if negative { 0xFF } else { 0 };
    let exponent = ordered(decoder, if negative == tiny { 0 } else { 0xFF })?;
    let digits = pairs(decoder, invert)?;
    // A literal has no leading zeros.
    let leading = digits.iter().take_while(|&&digit| digit == 0).count();
    let exponent = i64::try_from(exponent).map_err(|_beyond| decoder.refuse("an exponent"))?;
    let exponent = if tiny { -exponent } else { exponent };
    let scale = exponent.checked_sub(digits.len() as i64);
    let literal = scale.and_then(|scale| scaled(&digits[leading..], scale, zeros));
    let literal = literal.ok_or_else(|| decoder.refuse("a number's exponent and digits"))?;
    number(&format!("{}{literal}", if negative { "-" } else { "" }), decoder)
}

/// Returns the literal of `digits` times ten to the power of `scale`. Where an exponent is out of
/// range it writes zeros or moves the point. Returns `None` if there are no digits or it would
/// write more than `zeros` zeros.
fn scaled(digits: &[u8], scale: i64, zeros: &mut u64) -> Option<String> {
    if digits.is_empty() {
        return None;
    }
    let mut literal: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
    let beyond = scale.unsigned_abs().saturating_sub(EXPONENT_MAX as u64);
    *zeros = zeros.checked_sub(beyond)?;
    let beyond = beyond as usize;
    match scale {
        0..=40 => literal.extend(std::iter::repeat_n('0', scale as usize)),
        _ if beyond == 0 => literal.push_str(&format!("e{scale}")),
        _ if scale > 0 => {
            literal.extend(std::iter::repeat_n('0', beyond));
            literal.push_str(&format!("e{EXPONENT_MAX}"));
        }
        _ => {
            let padded = format!("{literal:0>width$}", width = beyond + 1);
            let (whole, fraction) = padded.split_at(padded.len() - beyond);
            literal = format!("{whole}.{fraction}e-{EXPONENT_MAX}");
        }
    }
    Some(literal)
}

fn plain(class: u8, decoder: &mut Decoder<'_>) -> Result<Value, Malformed> {
    let negative = class < kind::ZERO;
    let len = if negative { kind::NEGATIVE - class } else { class - kind::POSITIVE };
    let bytes = decoder.take(len.into(), "the bytes of an integer")?;
    let invert = if negative { 0xFF } else { 0 };
    let floor = bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(byte ^ invert));
    let has_fraction = decoder.clone().u8("").is_ok_and(|byte| byte == FRACTION);
    if !has_fraction {
        let value = if negative { -i128::from(floor) } else { i128::from(floor) };
        return Ok(Value::from(value));
    }
    decoder.u8("a fraction")?;
    let digits = pairs(decoder, 0)?;
    let Some(whole) = floor.checked_sub(u64::from(negative)) else {
        return Err(decoder.refuse("a floor below zero"));
    };
    let mut literal = format!("{}{whole}.", if negative { "-" } else { "" });
    if negative {
        literal.extend(complement(digits.into_iter()).map(|digit| char::from(b'0' + digit)));
    } else {
        literal.extend(digits.iter().map(|digit| char::from(b'0' + digit)));
    }
    number(&literal, decoder)
}

fn number(literal: &str, decoder: &Decoder<'_>) -> Result<Value, Malformed> {
    let number = Number::parse(literal).ok_or_else(|| decoder.refuse("a number in its range"))?;
    Ok(number.as_i64().map_or(Value::Number(number), Value::Int))
}

#[cfg(test)]
mod tests {
    use crate::Value;
    use crate::sort_key::{Direction, decode, encode};

    fn back(value: &Value) -> Value {
        let mut key = Vec::new();
        encode(value, Direction::Ascending, &mut key);
        decode(&key, Direction::Ascending).unwrap()
    }

    #[test]
    fn numbers_at_the_end_of_the_exponents_come_back() {
        let end = "e999999999999999999";
        for literal in ["10", "12300", "-10", "1", "1.5", "99999999999999999999990"] {
            let number = Value::number(&format!("{literal}{end}")).unwrap();
            assert_eq!(back(&number), number, "{literal}");
        }
        for literal in ["0.1", "-0.1", "0.0012", "1", "123.4567"] {
            let number = Value::number(&format!("{literal}e-999999999999999999")).unwrap();
            assert_eq!(back(&number), number, "{literal}");
        }
        let zeros = format!("1{}{end}", "0".repeat(5000));
        assert_eq!(back(&Value::number(&zeros).unwrap()), Value::number(&zeros).unwrap());
    }

    #[test]
    fn exponents_that_no_literal_has_are_refused() {
        // Tiny and huge classes, the longest exponents, all bit patterns at the ends of their
        // bytes, and a pair of digits.
        for class in 0x30..=0x4F {
            for exponent in [[0xFF; 8], [0; 8], [0x7F, 255, 255, 255, 255, 255, 255, 255]] {
                for (first, digits) in [(0xFF, 0x20), (0, 0xDF)] {
                    let bytes = [&[class, first][..], &exponent, &[digits, 0]].concat();
                    let _refused_or_not = decode(&bytes, Direction::Ascending);
                }
            }
        }
    }
}
