//! Decimals: at most 34 digits and an exponent, as drivers have them.

use flagstone::Value;
use flagstone::internal::document::{self, NumberType};
use std::cmp::Ordering;

/// The most digits of a decimal.
pub(super) const DIGITS: usize = 34;
/// The largest magnitude of an exponent that results keep.
const EXPONENT_MAX: i64 = 6_144;

/// The number `digits x 10^exponent`; digits are values from 0 to 9 without leading zeros, and none
/// for zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) is_negative: bool,
    pub(super) digits: Vec<u8>,
    pub(super) exponent: i64,
}

impl Decimal {
    /// Returns the value of a finite number beside a decimal: of a double the 15 digits that all
    /// doubles have.
    pub(super) fn of(value: &Value) -> Option<Self> {
        Self::with_digits(value, 15)
    }

    /// Returns the value of a finite number to the digits of a decimal.
    pub(super) fn exactly(value: &Value) -> Option<Self> {
        Self::with_digits(value, DIGITS)
    }

    fn with_digits(value: &Value, count: usize) -> Option<Self> {
        match value {
            Value::Int(int) => Self::parse(&int.to_string()),
            Value::Number(number) if NumberType::of(value) != Some(NumberType::Double) => {
                Self::parse(number.as_str())
            }
            Value::Number(_) | Value::Float(_) => {
                let double = value.as_f64().filter(|double| double.is_finite())?;
                // A zero has no digits to fill.
                let behind = if double == 0.0 { 0 } else { count - 1 };
                Self::parse(&format!("{double:.behind$e}"))
            }
            _ => None,
        }
    }

    /// Parses a literal by the JSON grammar.
    pub(super) fn parse(literal: &str) -> Option<Self> {
        let (is_negative, rest) = match literal.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, literal),
        };
        let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let exponent: i64 = exponent.parse().ok()?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = whole.bytes().chain(fraction.bytes());
        let digits =
            digits.skip_while(|digit| *digit == b'0').map(|digit| digit.wrapping_sub(b'0'));
        let digits: Vec<u8> = digits.collect();
        if digits.iter().any(|digit| *digit > 9) {
            return None;
        }
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Some(Self { is_negative, digits, exponent })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Rounds to at most `DIGITS` digits, half to even.
    pub(super) fn rounded(self) -> Self {
        let more = self.digits.len().saturating_sub(DIGITS);
        if more == 0 {
            return self;
        }
        let mut cut = self.cut(more, Nearest::Even);
        if cut.digits.len() > DIGITS {
            // Nines have become a one with zeros behind.
            cut.digits.pop();
            cut.exponent = cut.exponent.saturating_add(1);
        }
        cut
    }

    /// Removes the last `count` digits.
    pub(super) fn cut(mut self, count: usize, nearest: Nearest) -> Self {
        if count == 0 {
            return self;
        }
        let kept = self.digits.len().saturating_sub(count);
        // More digits than there are: zeros before the first.
        let first = if count > self.digits.len() { 0 } else { self.digits[kept] };
        let behind =
            if count > self.digits.len() { &self.digits[..] } else { &self.digits[kept + 1..] };
        let has_rest = behind.iter().any(|digit| *digit != 0);
        let has_any = has_rest || first != 0;
        let is_odd = kept > 0 && self.digits[kept - 1] % 2 == 1;
        let is_up = match nearest {
            Nearest::Zero => false,
            Nearest::Up => has_any && !self.is_negative,
            Nearest::Down => has_any && self.is_negative,
            Nearest::Even => match first.cmp(&5) {
                Ordering::Less => false,
                Ordering::Greater => true,
                Ordering::Equal => has_rest || is_odd,
            },
        };
        self.digits.truncate(kept);
        self.exponent = self.exponent.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        if is_up {
            self.raise();
        }
        self
    }

    /// Adds one to the last digit.
    fn raise(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// The coefficient, of at most 34 digits.
    fn coefficient(&self) -> u128 {
        self.digits.iter().take(DIGITS).fold(0, |value, digit| value * 10 + u128::from(*digit))
    }

    /// The digits as an integer, with zeros behind.
    fn integer(&self, zeros: usize) -> Option<Value> {
        let digits = self.digits.iter().map(|digit| char::from(b'0' + digit));
        let text: String = digits.chain(std::iter::repeat_n('0', zeros)).collect();
        let sign = if self.is_negative && !self.is_zero() { "-" } else { "" };
        let text = if self.is_zero() { "0" } else { &text };
        Value::number(&format!("{sign}{text}"))
    }

    /// Returns the number `whole x 10^exponent`.
    fn scaled(whole: &Value, exponent: i64) -> Option<Self> {
        let found = Self::parse(&whole.to_string())?;
        Some(Self { exponent: found.exponent.checked_add(exponent)?, ..found })
    }

    /// Returns the sum, whatever the exponents are.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.clone().rounded(), other.clone().rounded());
        let exponent = a.exponent.min(b.exponent);
        if a.is_zero() && b.is_zero() {
            let is_negative = a.is_negative && b.is_negative;
            return Some(Self { is_negative, digits: Vec::new(), exponent });
        }
        let (large, small) = if b.is_zero() || !a.is_zero() && a.magnitude() >= b.magnitude() {
            (a, b)
        } else {
            (b, a)
        };
        let is_far = large.magnitude().saturating_sub(small.magnitude()) > 2 * DIGITS as i64 + 2;
        if small.is_zero() || is_far {
            return Some(large.padded(exponent));
        }
        let zeros = |of: &Self| usize::try_from(of.exponent - exponent).ok();
        let (a, b) = (large.integer(zeros(&large)?)?, small.integer(zeros(&small)?)?);
        Self::scaled(&document::exact_sum(&a, &b)?, exponent)
    }

    /// Returns the product, whatever the exponents are.
    pub(super) fn times(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.clone().rounded(), other.clone().rounded());
        let exponent = a.exponent.checked_add(b.exponent)?;
        let product =
            Self::scaled(&document::exact_product(&a.integer(0)?, &b.integer(0)?)?, exponent)?;
        Some(Self { is_negative: a.is_negative != b.is_negative, ..product })
    }

    /// Returns the quotient to 34 digits; `None` for a zero divisor.
    pub(super) fn divided(&self, by: &Self) -> Option<Self> {
        let (by, dividend) = (by.clone().rounded(), self.clone().rounded());
        let divisor = by.coefficient();
        if divisor == 0 {
            return None;
        }
        let (mut digits, mut rest) = (Vec::new(), 0_u128);
        let mut exponent = dividend.exponent.saturating_sub(by.exponent);
        let push = |digits: &mut Vec<u8>, digit: u8| {
            if digit != 0 || !digits.is_empty() {
                digits.push(digit);
            }
        };
        for digit in &dividend.digits {
            rest = rest * 10 + u128::from(*digit);
            push(&mut digits, (rest / divisor) as u8);
            rest %= divisor;
        }
        // One digit more than is kept, and a mark of what is behind it.
        while rest > 0 && digits.len() <= DIGITS {
            rest *= 10;
            push(&mut digits, (rest / divisor) as u8);
            rest %= divisor;
            exponent = exponent.saturating_sub(1);
        }
        if rest > 0 {
            digits.push(1);
            exponent = exponent.saturating_sub(1);
        }
        let is_negative = self.is_negative != by.is_negative;
        Some(Self { is_negative, digits, exponent }.rounded())
    }

    /// Returns the rest of a division whose quotient is whole, with the sign of the dividend;
    /// `None` for a zero divisor, or if the exponents are too far apart.
    pub(super) fn remainder(&self, by: &Self) -> Option<Self> {
        let exponent = self.exponent.min(by.exponent);
        let shift = usize::try_from(by.exponent - exponent).ok()?;
        let zeros = usize::try_from(self.exponent - exponent).ok()?;
        if by.is_zero() || shift + by.digits.len() > DIGITS || zeros > 2 * EXPONENT_MAX as usize {
            // A divisor that is larger in magnitude leaves the dividend.
            let is_less = !by.is_zero() && self.magnitude() < by.magnitude();
            return is_less.then(|| self.clone());
        }
        let divisor = by.coefficient() * 10_u128.pow(shift as u32);
        let digits = self.digits.iter().copied().chain(std::iter::repeat_n(0, zeros));
        let rest = digits.fold(0, |rest, digit| (rest * 10 + u128::from(digit)) % divisor);
        let mut found = Self::parse(&rest.to_string())?;
        (found.is_negative, found.exponent) = (self.is_negative, exponent);
        Some(found)
    }

    /// Where the first digit is.
    pub(super) fn magnitude(&self) -> i64 {
        self.exponent.saturating_add(self.digits.len() as i64)
    }

    /// Returns whether a whole number is odd; `None` of one that has a fraction.
    pub(super) fn is_odd(&self) -> Option<bool> {
        let behind = usize::try_from(self.exponent.saturating_neg()).unwrap_or_default();
        let kept = self.digits.len().saturating_sub(behind);
        let (whole, fraction) = self.digits.split_at(kept);
        let last = if self.exponent > 0 { None } else { whole.last() };
        let is_whole = fraction.iter().all(|digit| *digit == 0);
        is_whole.then(|| last.is_some_and(|digit| digit % 2 == 1))
    }

    pub(super) fn negated(self) -> Self {
        Self { is_negative: !self.is_negative, ..self }
    }

    /// Returns the number with zeros behind, so that its exponent is `exponent`, or as near to it
    /// as there is room.
    fn padded(mut self, exponent: i64) -> Self {
        let zeros = usize::try_from(self.exponent.saturating_sub(exponent)).unwrap_or_default();
        let zeros = zeros.min(DIGITS.saturating_sub(self.digits.len()));
        self.digits.resize(self.digits.len() + zeros, 0);
        self.exponent -= zeros as i64;
        self
    }

    /// Returns the number with zeros behind, so that its exponent is `exponent`, if it has room.
    pub(super) fn with_exponent(mut self, exponent: i64) -> Self {
        let zeros = self.exponent.saturating_sub(exponent);
        let has_room =
            usize::try_from(zeros).is_ok_and(|zeros| self.digits.len() + zeros <= DIGITS);
        if has_room {
            self.digits
                .resize(self.digits.len() + if self.is_zero() { 0 } else { zeros as usize }, 0);
            self.exponent = exponent;
        }
        self
    }

    /// Returns the literal, with an exponent where the point would be far from the digits.
    pub(super) fn literal(&self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let digits = if digits.is_empty() { "0".to_owned() } else { digits };
        let adjusted = self.exponent.saturating_add(digits.len() as i64 - 1);
        if self.exponent == 0 {
            return format!("{sign}{digits}");
        }
        if self.exponent < 0 && adjusted >= -6 {
            let behind = self.exponent.unsigned_abs() as usize;
            let padded = format!("{digits:0>width$}", width = behind + 1);
            let (whole, fraction) = padded.split_at(padded.len() - behind);
            return format!("{sign}{whole}.{fraction}");
        }
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        format!("{sign}{first}{point}{rest}E{adjusted:+}")
    }

    /// Returns the number as one of type decimal; infinite or zero beyond the exponents of one.
    pub(super) fn into_value(self) -> Value {
        let mut rounded = self.rounded();
        if rounded.is_zero() {
            rounded.exponent = rounded.exponent.clamp(-6_176, 6_111);
        } else if rounded.magnitude() > EXPONENT_MAX + 1 {
            let sign = if rounded.is_negative { -1.0 } else { 1.0 };
            return Value::Float(f64::INFINITY * sign);
        } else if rounded.exponent < -6_176 {
            let more = usize::try_from(-6_176 - rounded.exponent).unwrap_or(usize::MAX);
            rounded = rounded.cut(more.min(DIGITS + 1), Nearest::Even);
            rounded.exponent = -6_176;
        }
        document::decimal(&rounded.literal()).unwrap_or_default()
    }
}

/// How the last kept digit is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearest {
    Even,
    Zero,
    Up,
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn quotients_have_34_digits() {
        for (a, b, expected) in [
            ("1", "3", "0.3333333333333333333333333333333333"),
            ("2", "3", "0.6666666666666666666666666666666667"),
            ("1", "8", "0.125"),
            ("-10", "4", "-2.5"),
            ("1e3", "1e-3", "1E+6"),
            ("0", "7", "0"),
        ] {
            assert_eq!(decimal(a).divided(&decimal(b)).unwrap().literal(), expected, "{a} / {b}");
        }
        assert_eq!(decimal("1").divided(&decimal("0")), None);
    }

    #[test]
    fn remainders_have_the_sign_of_the_dividend() {
        for (a, b, expected) in
            [("7.5", "2", "1.5"), ("-7.5", "2", "-1.5"), ("1e30", "7", "1"), ("0.1", "1e5", "0.1")]
        {
            assert_eq!(decimal(a).remainder(&decimal(b)).unwrap().literal(), expected, "{a} % {b}");
        }
        assert_eq!(decimal("1").remainder(&decimal("0.0")), None);
    }

    #[test]
    fn digits_are_cut_as_asked() {
        let cut = |text: &str, count, nearest| decimal(text).cut(count, nearest).literal();
        assert_eq!(cut("12.5", 1, Nearest::Even), "12");
        assert_eq!(cut("13.5", 1, Nearest::Even), "14");
        assert_eq!(cut("12.51", 2, Nearest::Even), "13");
        assert_eq!(cut("99.9", 1, Nearest::Even), "100");
        assert_eq!(cut("-1.2", 1, Nearest::Down), "-2");
        assert_eq!(cut("-1.2", 1, Nearest::Up), "-1");
        assert_eq!(cut("1.2", 1, Nearest::Up), "2");
        assert_eq!(cut("0.4", 3, Nearest::Even), "0E+2");
        assert_eq!(decimal("1e7000").into_value(), Value::Float(f64::INFINITY));
        assert_eq!(decimal("1e-7000").into_value(), Value::Int(0));
        let nines = decimal("99999999999999999999999999999999999").rounded();
        assert_eq!((nines.digits.len(), nines.exponent), (34, 2));
    }
}
