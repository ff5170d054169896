//! Decimal128 to the literals of exact numbers and back.
//!
//! ```text
//! bit 127: sign | 126..113: exponent + 6176 | 112..0: coefficient, up to 10^34 - 1
//! bits 126..122 11110: infinity   11111: not a number   11...: a coefficient beyond 113 bits
//! ```
//! A coefficient that is larger than 34 digits counts as 0, as IEEE 754 has it.

use flagstone::internal::document::marked_decimal;

/// The digits of the largest coefficient.
const DIGITS_MAX: usize = 34;
const COEFFICIENT_MAX: u128 = 10_u128.pow(DIGITS_MAX as u32) - 1;
const BIAS: i64 = 6176;
const EXPONENT_MIN: i64 = -BIAS;
const EXPONENT_MAX: i64 = 6111;

/// A decimal as text, or as the float that documents have for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decimal {
    Literal(String),
    Float(f64),
}

/// Decodes the 16 bytes of a decimal. The literal has the digits and the exponent of the decimal,
/// so [`encode`] gives the same bytes again, but for a coefficient that counts as 0.
pub(super) fn decode(bytes: [u8; 16]) -> Decimal {
    let bits = u128::from_le_bytes(bytes);
    let is_negative = bits >> 127 == 1;
    let (exponent, coefficient) = match (bits >> 122) as u8 & 0x1F {
        0x1F => return Decimal::Float(f64::NAN),
        0x1E => return Decimal::Float(if is_negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        0x18.. => ((bits >> 111) as i64 & 0x3FFF, 0),
        _ => ((bits >> 113) as i64 & 0x3FFF, bits & ((1 << 113) - 1)),
    };
    let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
    Decimal::Literal(marked_decimal(literal(is_negative, coefficient, exponent - BIAS)))
}

/// Writes a decimal as IEEE 754 says: with an exponent where the point would be far from the
/// digits.
fn literal(is_negative: bool, coefficient: u128, exponent: i64) -> String {
    let sign = if is_negative { "-" } else { "" };
    let digits = coefficient.to_string();
    // The exponent of the first digit.
    let adjusted = exponent + digits.len() as i64 - 1;
    if exponent == 0 {
        return format!("{sign}{digits}");
    }
    if exponent < 0 && adjusted >= -6 {
        let behind = exponent.unsigned_abs() as usize;
        let padded = format!("{digits:0>width$}", width = behind + 1);
        let (whole, fraction) = padded.split_at(padded.len() - behind);
        return format!("{sign}{whole}.{fraction}");
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}E{adjusted:+}")
}

/// Returns the bytes of the decimal that equals a literal of the JSON grammar, with as many digits
/// as the literal has where a decimal can have them; `None` if no decimal equals it.
pub(super) fn encode(literal: &str) -> Option<[u8; 16]> {
    let (is_negative, unsigned) = match literal.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, literal),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    // Leading zeros count for nothing. A literal may be as long as a document.
    let digits = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0');
    let mut coefficient = 0_u128;
    let mut zeros_behind = 0_u32;
    for digit in digits {
        if coefficient > 0 && digit == b'0' {
            zeros_behind += 1;
            continue;
        }
        // Zeros in between become digits when another digit follows them.
        let shifted = zeros_behind.checked_add(1).and_then(|by| 10_u128.checked_pow(by));
        let next = shifted.and_then(|by| coefficient.checked_mul(by));
        coefficient = next?.checked_add(u128::from(digit.checked_sub(b'0')?))?;
        zeros_behind = 0;
        if coefficient > COEFFICIENT_MAX {
            return None;
        }
    }
    // Zeros at the end are kept where there is room.
    while zeros_behind > 0 && coefficient <= COEFFICIENT_MAX / 10 {
        coefficient *= 10;
        zeros_behind -= 1;
    }
    exponent = exponent.checked_add(i64::from(zeros_behind))?;
    if coefficient == 0 {
        exponent = exponent.clamp(EXPONENT_MIN, EXPONENT_MAX);
    }
    while exponent > EXPONENT_MAX && coefficient <= COEFFICIENT_MAX / 10 {
        coefficient *= 10;
        exponent -= 1;
    }
    while exponent < EXPONENT_MIN && coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
    }
    if !(EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
        return None;
    }
    let sign = u128::from(is_negative) << 127;
    Some((sign | ((exponent + BIAS) as u128) << 113 | coefficient).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bits: u128) -> String {
        match decode(bits.to_le_bytes()) {
            Decimal::Literal(literal) => literal,
            Decimal::Float(float) => float.to_string(),
        }
    }

    #[test]
    fn digits_and_exponents_come_back() {
        for literal in [
            "0",
            "-0E+0",
            "1",
            "-1",
            "1.10",
            "0.001",
            "-0.00",
            "0E+3",
            "0E-6176",
            "0E+6111",
            "1E+3",
            "1.5E-7",
            "0.000001",
            "1E-7",
            "123456.789",
            "9999999999999999999999999999999999",
            "9.999999999999999999999999999999999E+6144",
            "-1E-6176",
            "1E+6111",
            "1000000000000000000000000000000000",
        ] {
            let bits = u128::from_le_bytes(encode(literal).unwrap());
            assert_eq!(text(bits), literal);
        }
        // The same number in other words.
        for (literal, expected) in [
            ("1e3", "1E+3"),
            ("1.0e+05", "1.0E+5"),
            ("10e6143", "1.000000000000000000000000000000000E+6144"),
            ("1e6144", "1.000000000000000000000000000000000E+6144"),
            ("10e-6177", "1E-6176"),
            ("0e99999", "0E+6111"),
            ("0e-99999", "0E-6176"),
            ("0.1000000000000000000000000000000000000", "0.1000000000000000000000000000000000"),
            ("10000000000000000000000000000000000000", "1.000000000000000000000000000000000E+37"),
        ] {
            assert_eq!(text(u128::from_le_bytes(encode(literal).unwrap())), expected, "{literal}");
        }
    }

    #[test]
    fn what_has_more_than_34_digits_or_a_far_exponent_is_no_decimal() {
        for literal in [
            "12345678901234567890123456789012345",
            "0.12345678901234567890123456789012345",
            "1e6145",
            "1e-6177",
            "1e999999999999999999",
            "1e-999999999999999999",
            "1e99999999999999999999",
            &format!("1{}1", "0".repeat(100)),
            &format!("1{}1", "0".repeat(100_000)),
        ] {
            assert_eq!(encode(literal), None, "{literal}");
        }
        assert!(encode(&format!("0.{}1e100000", "0".repeat(99_999))).is_some());
    }

    #[test]
    fn special_forms_have_their_values() {
        assert_eq!(text(0x1F << 122), "NaN");
        assert_eq!((text(0x1E << 122), text(0x3E << 122)), ("inf".into(), "-inf".into()));
        // Coefficients beyond 34 digits, in both forms.
        assert_eq!(text((BIAS as u128) << 113 | (COEFFICIENT_MAX + 1)), "0");
        assert_eq!(text(0b11 << 125 | (BIAS as u128) << 111 | 5), "0");
    }
}
