//! Converts numbers of documents to numbers of Rust types, exactly where possible.

use crate::number::{Exact, NumberLiteral, NumberText};
use crate::view::View;
use flagstone_base::Malformed;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Converts to the float with the shortest decimal of `value`, so that `0.1_f32` is stored as 0.1
/// and reads back unchanged. If it would not read back, returns the exact value instead.
pub(super) fn shortest(value: f32) -> f64 {
    let wide = f64::from(value);
    if !value.is_finite() || value.fract() == 0.0 {
        return wide;
    }
    let mut text = [0_u8; 32];
    let mut rest = text.as_mut_slice();
    let fits = std::io::Write::write_fmt(&mut rest, format_args!("{value:e}")).is_ok();
    let left = rest.len();
    let written = std::str::from_utf8(&text[..text.len() - left]).ok();
    let parsed = written.filter(|_| fits).and_then(|text| text.parse::<f64>().ok());
    parsed.filter(|short| (*short as f32).to_bits() == value.to_bits()).unwrap_or(wide)
}

/// An integer of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    I64(i64),
    U64(u64),
    I128(i128),
    U128(u128),
}

/// Returns the integer equal to the number `view`; `None` if it is not an integer or has more than
/// 128 bits.
#[inline]
pub(super) fn integer(view: &View<'_>) -> Option<Integer> {
    match view.as_small_int() {
        Some(int) => Some(Integer::I64(int)),
        None => odd_integer(view),
    }
}

fn odd_integer(view: &View<'_>) -> Option<Integer> {
    if let Some(int) = view.as_stored_u64() {
        return Some(Integer::U64(int));
    }
    if let Some((coefficient, scale)) = view.as_decimal() {
        let divisor = 10_i64.checked_pow(scale.into());
        return match divisor {
            Some(divisor) if coefficient % divisor == 0 => {
                Some(Integer::I64(coefficient / divisor))
            }
            None if coefficient == 0 => Some(Integer::I64(0)),
            _ => None,
        };
    }
    let mut text: NumberText = [0; 48];
    let exact = match view.as_stored_float() {
        Some(float) if float.is_finite() => Exact::of_float(float, &mut text),
        Some(_) => return None,
        None => Exact::of(&NumberLiteral::whole(view.as_literal()?)?),
    };
    let magnitude = magnitude(&exact)?;
    if exact.negative {
        let negative = 0_i128.checked_sub_unsigned(magnitude)?;
        return Some(match i64::try_from(negative) {
            Ok(int) => Integer::I64(int),
            Err(_beyond) => Integer::I128(negative),
        });
    }
    Some(match u64::try_from(magnitude) {
        Ok(int) => Integer::U64(int),
        Err(_beyond) => Integer::U128(magnitude),
    })
}

/// Returns the magnitude of an integer of at most 128 bits.
fn magnitude(exact: &Exact<'_>) -> Option<u128> {
    // The largest magnitude has 39 digits.
    if exact.is_zero() {
        return Some(0);
    }
    let places = usize::try_from(exact.exponent).ok().filter(|places| *places <= 39)?;
    let zeros = places.checked_sub(exact.len())?;
    let digits = exact
        .digits()
        .try_fold(0_u128, |value, digit| value.checked_mul(10)?.checked_add(digit.into()))?;
    digits.checked_mul(10_u128.checked_pow(zeros as u32)?)
}

/// The powers of ten that a float represents exactly.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Returns the float nearest to the number `view`; `None` if `view` is not a number.
#[inline]
pub(super) fn float(view: &View<'_>) -> Option<f64> {
    if let Some(float) = view.as_stored_float() {
        return Some(float);
    }
    if let Some(int) = view.as_small_int() {
        return Some(int as f64);
    }
    if let Some((coefficient, scale)) = view.as_decimal() {
        // Both operands are exact floats, so their quotient is the nearest float.
        const EXACT_BELOW: u64 = 1 << 53;
        if coefficient.unsigned_abs() < EXACT_BELOW
            && let Some(divisor) = POWERS_OF_TEN.get(usize::from(scale))
        {
            return Some(coefficient as f64 / divisor);
        }
    }
    match view.as_stored_u64() {
        Some(int) => Some(int as f64),
        None => literal(view).ok()??.parse().ok(),
    }
}

/// Returns the nearest `f32`, computed from the literal rather than from the nearest `f64`.
pub(super) fn float32(view: &View<'_>) -> Option<f32> {
    if let Some(float) = view.as_stored_float() {
        return Some(float as f32);
    }
    match integer(view) {
        Some(Integer::I64(int)) => Some(int as f32),
        Some(Integer::U64(int)) => Some(int as f32),
        _ => literal(view).ok()??.parse().ok(),
    }
}

/// Returns the literal of a number stored as a decimal or a literal; `None` for other values.
pub(super) fn literal<'a>(view: &View<'a>) -> Result<Option<Cow<'a, str>>, Malformed> {
    if let Some((coefficient, scale)) = view.as_decimal() {
        let mut text = Vec::with_capacity(24);
        crate::print::put_decimal(coefficient, scale, &mut text);
        return Ok(String::from_utf8(text).ok().map(Cow::Owned));
    }
    let Some(literal) = view.as_literal() else { return Ok(None) };
    let text = NumberLiteral::whole(literal).and_then(|_| std::str::from_utf8(literal).ok());
    text.map(|text| Some(Cow::Borrowed(text))).ok_or(view.malformed("a number"))
}

/// Returns the float that equals a decimal or literal, if there is one.
pub(super) fn equal_float(view: &View<'_>, literal: &str) -> Option<f64> {
    let float = float(view)?;
    // A float preserves every decimal of 15 digits.
    if let Some((coefficient, _)) = view.as_decimal()
        && coefficient.unsigned_abs() < 10_u64.pow(15)
    {
        return Some(float);
    }
    equals(float, literal).then_some(float)
}

/// Returns whether `float` equals the number written by `literal`.
pub(super) fn equals(float: f64, literal: &str) -> bool {
    let mut text: NumberText = [0; 48];
    float.is_finite()
        && Exact::of_float(float, &mut text).cmp(&Exact::of_literal(literal.as_bytes()))
            == Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Value};

    fn document(literal: &str) -> Document {
        Document::from_value(&Value::number(literal).unwrap()).unwrap()
    }

    #[test]
    fn an_integer_is_one_however_it_is_written() {
        let of = |literal: &str| integer(&document(literal).root());
        for literal in ["1000", "1000.0", "1e3", "1.000E+3", "100000e-2", "1000.00000000000000000"]
        {
            let found = of(literal);
            assert!(
                matches!(found, Some(Integer::I64(1000) | Integer::U64(1000))),
                "{literal}: {found:?}"
            );
        }
        assert_eq!(of("-0"), Some(Integer::U64(0)));
        assert_eq!(of("18446744073709551616"), Some(Integer::U128(1 << 64)));
        assert_eq!(of("-9223372036854775809"), Some(Integer::I128(-(1 << 63) - 1)));
        assert_eq!(of(&i128::MIN.to_string()), Some(Integer::I128(i128::MIN)));
        assert_eq!(of(&u128::MAX.to_string()), Some(Integer::U128(u128::MAX)));
        for literal in ["0.5", "1.1", "1e-3", "340282366920938463463374607431768211456", "1e400"] {
            assert_eq!(of(literal), None, "{literal}");
        }
        let float = |float: f64| integer(&Document::from_value(&float.into()).unwrap().root());
        assert_eq!(float(7.0), Some(Integer::U64(7)));
        assert_eq!(float(1e30), Some(Integer::U128(10_u128.pow(30))), "the decimal it stands for");
        assert_eq!((float(0.5), float(f64::NAN), float(f64::INFINITY)), (None, None, None));
    }

    #[test]
    fn a_decimal_is_the_float_that_its_text_is() {
        for literal in [
            "1.10",
            "0.1",
            "-2.5",
            "83886.08",
            "36028797018963967.5",
            "9007199254740993.1",
            "0.0000000000000000000001",
            "0.30000000000000004",
            "1e400",
            "-1e-400",
            "123456789.123456789",
        ] {
            let found = float(&document(literal).root()).unwrap();
            assert_eq!(found.to_bits(), literal.parse::<f64>().unwrap().to_bits(), "{literal}");
            let found = float32(&document(literal).root()).unwrap();
            assert_eq!(found.to_bits(), literal.parse::<f32>().unwrap().to_bits(), "{literal}");
        }
    }

    #[test]
    fn a_float_of_32_bits_is_stored_as_the_shortest_decimal() {
        assert_eq!(shortest(0.1).to_bits(), 0.1_f64.to_bits());
        assert_eq!(shortest(-1.25e-40), -1.25e-40);
        assert!(shortest(f32::NAN).is_nan());
        let mut bits = 1_u32;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(2_654_435_761).wrapping_add(12_345);
            let value = f32::from_bits(bits);
            if !value.is_nan() {
                assert_eq!((shortest(value) as f32).to_bits(), bits);
            }
        }
    }
}
