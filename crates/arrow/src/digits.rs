//! The digits of a number literal, and decimals of a fixed scale.

use flagstone::Value;

/// A number as digits and a power of ten: `-1.20e3` is -12 x 10^2.
pub(crate) struct Digits {
    is_negative: bool,
    /// Without zeros at both ends; empty for 0.
    digits: String,
    exponent: i64,
}

impl Digits {
    /// Returns the digits of a number; `None` for another value, and for a float that is not
    /// finite.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Int(int) => Self::parse(&int.to_string()),
            Value::Number(number) => Self::parse(number.as_str()),
            Value::Float(float) if float.is_finite() => Self::parse(&format!("{float:e}")),
            _ => None,
        }
    }

    fn parse(literal: &str) -> Option<Self> {
        let (is_negative, rest) = match literal.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, literal),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0');
        let trimmed = digits.trim_end_matches('0');
        let exponent = if trimmed.is_empty() {
            0
        } else {
            exponent.checked_add(i64::try_from(digits.len() - trimmed.len()).ok()?)?
        };
        Some(Self { is_negative, digits: trimmed.to_owned(), exponent })
    }

    /// Returns the digits before the point, without leading zeros; those after it are
    /// [`Digits::scale`].
    pub(crate) fn whole(&self) -> u64 {
        (self.digits.len() as i64).saturating_add(self.exponent).max(0) as u64
    }

    pub(crate) fn scale(&self) -> u64 {
        self.exponent.saturating_neg().max(0) as u64
    }

    /// Returns the integer that is `10^scale` times the number, if it is one of at most `precision`
    /// digits.
    pub(crate) fn scaled(&self, precision: u8, scale: u8) -> Option<String> {
        if self.scale() > u64::from(scale) || self.whole() + u64::from(scale) > precision.into() {
            return None;
        }
        // At most `precision` digits in all: the zeros are few.
        let zeros = usize::try_from(self.exponent + i64::from(scale)).ok()?;
        if self.digits.is_empty() {
            return Some("0".to_owned());
        }
        let sign = if self.is_negative { "-" } else { "" };
        Some(format!("{sign}{}{}", self.digits, "0".repeat(zeros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_scaled_exactly_or_not_at_all() {
        let scaled = |literal: &str, precision, scale| {
            Digits::parse(literal).and_then(|digits| digits.scaled(precision, scale))
        };
        assert_eq!(scaled("1.10", 5, 2).as_deref(), Some("110"));
        assert_eq!(scaled("-0.05", 5, 2).as_deref(), Some("-5"));
        assert_eq!(scaled("1.2e3", 6, 2).as_deref(), Some("120000"));
        assert_eq!(scaled("0e99", 5, 2).as_deref(), Some("0"));
        assert_eq!(scaled("-0.000", 5, 2).as_deref(), Some("0"));
        assert_eq!(scaled("1.123", 5, 2), None);
        assert_eq!(scaled("1234", 5, 2), None);
        assert_eq!(scaled("1e999999999999999999", 76, 0), None);
        assert_eq!(scaled("1e-999999999999999999", 76, 76), None);
    }
}
