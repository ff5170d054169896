//! Exact sums and products of numbers.
//!
//! A result keeps the digits after the point that a person would write: a sum has as many as the
//! longer operand, a product as many as both operands together. So `1.10 + 1` is `2.10`. If one
//! operand is a binary float, the result is a binary float. If one is stored in a wider form than
//! it needs, so is the result.

use crate::number::{Number, NumberLiteral, Width};
use crate::value::Value;

/// The limit of digits in a result, so that `1e1000000000 + 1` does not exhaust memory.
const DIGITS_MAX: usize = 1000;
/// The limit of digits in a sum to which more is added. Numbers within the limits of a result have
/// 1,000 digits before the point and 1,000 after it; the rest is for the carry of any number of
/// them.
const ACCUMULATED_DIGITS_MAX: usize = 2 * DIGITS_MAX + 40;

/// Returns the sum of two numbers, exactly unless one is a binary float; `None` if an operand is
/// not a number or the sum has more than 1,000 digits.
pub fn sum(a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(Value::from(i128::from(*a) + i128::from(*b))),
        (Value::Float(_), _) | (_, Value::Float(_)) => Some(float(a.as_f64()? + b.as_f64()?)),
        _ => {
            let sum = Decimal::of(a, DIGITS_MAX)?.plus(Decimal::of(b, DIGITS_MAX)?);
            Some(widened(sum.into_value(DIGITS_MAX)?, a, b))
        }
    }
}

/// Adds `number` to `sum`, which earlier calls have returned, and which may have more digits than a
/// result. So a sum of many numbers does not depend on their order. `None` if `number` alone has
/// more digits than a result, or either is no exact number.
pub fn accumulated(sum: &Value, number: &Value) -> Option<Value> {
    let sum = Decimal::of(sum, ACCUMULATED_DIGITS_MAX)?;
    sum.plus(Decimal::of(number, DIGITS_MAX)?).into_value(ACCUMULATED_DIGITS_MAX)
}

/// Adds two sums that [`accumulated`] has returned.
pub fn accumulated_both(a: &Value, b: &Value) -> Option<Value> {
    let (a, b) = (Decimal::of(a, ACCUMULATED_DIGITS_MAX)?, Decimal::of(b, ACCUMULATED_DIGITS_MAX)?);
    a.plus(b).into_value(ACCUMULATED_DIGITS_MAX)
}

/// Returns the product of two numbers; `None` if an operand is not a number or the product has
/// more than 1,000 digits.
pub fn product(a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(Value::from(i128::from(*a) * i128::from(*b))),
        (Value::Float(_), _) | (_, Value::Float(_)) => Some(float(a.as_f64()? * b.as_f64()?)),
        _ => {
            let product = Decimal::of(a, DIGITS_MAX)?.times(&Decimal::of(b, DIGITS_MAX)?)?;
            Some(widened(product.into_value(DIGITS_MAX)?, a, b))
        }
    }
}

/// Returns the result of an operation as wide as its widest operand. An integer beyond 32 bits, or
/// a number with a fraction, is no long.
fn widened(result: Value, a: &Value, b: &Value) -> Value {
    let width = |value: &Value| match value {
        Value::Number(number) => number.width(),
        _ => Width::Least,
    };
    match (width(a).max(width(b)), result) {
        (width @ (Width::Long | Width::Literal), Value::Int(int)) => {
            Value::Number(Number::wide(&int.to_string(), width))
        }
        (width @ Width::Literal, Value::Number(number)) => {
            Value::Number(Number::wide(number.as_str(), width))
        }
        (_, result) => result,
    }
}

/// Makes a float whose bits are the same on every machine. IEEE 754 leaves the bits of a computed
/// NaN to the processor, but a fold must always give the same bytes.
fn float(value: f64) -> Value {
    Value::Float(if value.is_nan() { f64::from_bits(0x7FF8_0000_0000_0000) } else { value })
}

/// The number `digits / 10^scale`; the digits have no leading zeros.
struct Decimal {
    negative: bool,
    /// Digits as values 0..=9, the most significant first; zero has none.
    digits: Vec<u8>,
    scale: usize,
}

impl Decimal {
    fn of(value: &Value, digits_max: usize) -> Option<Self> {
        let text;
        let literal = match value {
            Value::Int(int) => {
                text = int.to_string();
                text.as_str()
            }
            Value::Number(number) => number.as_str(),
            _ => return None,
        };
        let literal = NumberLiteral::whole(literal.as_bytes())?;
        let len = literal.whole.len() + literal.fraction.len();
        let behind = literal.fraction.len() as i64 - literal.exponent;
        let zeros = usize::try_from(-behind.min(0)).ok()?;
        let scale = usize::try_from(behind.max(0)).ok()?;
        if len.saturating_add(zeros) > digits_max || scale > digits_max {
            return None;
        }
        let written = literal.whole.iter().chain(literal.fraction).map(|digit| digit - b'0');
        let digits = written.chain(std::iter::repeat_n(0, zeros));
        let digits = digits.skip_while(|digit| *digit == 0).collect();
        Some(Self { negative: literal.negative, digits, scale })
    }

    fn scaled_to(mut self, scale: usize) -> Self {
        if !self.digits.is_empty() {
            self.digits.resize(self.digits.len() + scale - self.scale, 0);
        }
        self.scale = scale;
        self
    }

    fn plus(self, other: Self) -> Self {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.scaled_to(scale), other.scaled_to(scale));
        if a.negative == b.negative {
            return Self { digits: added(&a.digits, &b.digits), ..a };
        }
        let order = a.digits.len().cmp(&b.digits.len()).then_with(|| a.digits.cmp(&b.digits));
        let (large, small) = if order.is_lt() { (b, a) } else { (a, b) };
        Self { digits: subtracted(&large.digits, &small.digits), ..large }
    }

    fn times(&self, other: &Self) -> Option<Self> {
        if self.digits.len() + other.digits.len() > DIGITS_MAX {
            return None;
        }
        // The least significant first.
        let mut sums = vec![0_u32; self.digits.len() + other.digits.len()];
        for (i, a) in self.digits.iter().rev().enumerate() {
            for (j, b) in other.digits.iter().rev().enumerate() {
                sums[i + j] += u32::from(*a) * u32::from(*b);
            }
        }
        let mut carry = 0;
        for sum in &mut sums {
            carry += *sum;
            *sum = carry % 10;
            carry /= 10;
        }
        let digits = sums.iter().rev().map(|digit| *digit as u8);
        let digits = digits.skip_while(|digit| *digit == 0).collect();
        let negative = self.negative != other.negative;
        Some(Self { negative, digits, scale: self.scale + other.scale })
    }

    fn into_value(self, digits_max: usize) -> Option<Value> {
        if self.digits.len().max(self.scale) > digits_max {
            return None;
        }
        let zeros = (self.scale + 1).saturating_sub(self.digits.len());
        let mut text = String::with_capacity(self.digits.len() + zeros + 2);
        if self.negative && !self.digits.is_empty() {
            text.push('-');
        }
        let digits = std::iter::repeat_n(0, zeros).chain(self.digits.iter().copied());
        let whole = zeros + self.digits.len() - self.scale;
        for (at, digit) in digits.enumerate() {
            if at == whole {
                text.push('.');
            }
            text.push(char::from(b'0' + digit));
        }
        Value::number(&text)
    }
}

fn added(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut sum = Vec::with_capacity(long.len() + 1);
    sum.push(0);
    sum.extend_from_slice(long);
    let mut carry = 0;
    for (at, place) in sum.iter_mut().rev().enumerate() {
        let other = short.len().checked_sub(at + 1).map_or(0, |from| short[from]);
        let value = *place + other + carry;
        *place = value % 10;
        carry = value / 10;
    }
    without_leading_zeros(sum)
}

/// Returns `large - small`; the caller ensures that the difference is not negative.
fn subtracted(large: &[u8], small: &[u8]) -> Vec<u8> {
    let mut rest = large.to_vec();
    let mut borrowed = 0;
    for (at, place) in rest.iter_mut().rev().enumerate() {
        let other = borrowed + small.len().checked_sub(at + 1).map_or(0, |from| small[from]);
        borrowed = u8::from(*place < other);
        *place = *place + 10 * borrowed - other;
    }
    without_leading_zeros(rest)
}

fn without_leading_zeros(mut digits: Vec<u8>) -> Vec<u8> {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Value {
        Value::number(text).unwrap()
    }

    fn check(op: fn(&Value, &Value) -> Option<Value>, a: &str, b: &str, expected: &str) {
        for (a, b) in [(a, b), (b, a)] {
            let found = op(&number(a), &number(b)).unwrap();
            assert_eq!(found.to_string(), expected, "{a} and {b}");
        }
    }

    #[test]
    fn sums_are_exact_and_keep_their_scale() {
        for (a, b, expected) in [
            ("1.10", "1", "2.10"),
            ("0.1", "0.2", "0.3"),
            ("-1.5", "1.5", "0.0"),
            ("1.05", "-2", "-0.95"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551616", "-18446744073709551617", "-1"),
            ("1e3", "1", "1001"),
            ("1e-3", "1", "1.001"),
            ("-0", "0", "0"),
            ("999.99", "0.01", "1000.00"),
            ("1000", "-0.001", "999.999"),
            ("0.00", "5", "5.00"),
        ] {
            check(sum, a, b, expected);
        }
        assert_eq!(sum(&number("1"), &number("2")), Some(Value::Int(3)));
        assert!(matches!(sum(&Value::Float(0.5), &number("1")), Some(Value::Float(1.5))));
        assert_eq!(sum(&number("1"), &Value::from("2")), None);
    }

    #[test]
    fn products_are_exact_and_keep_their_scale() {
        for (a, b, expected) in [
            ("1.10", "2", "2.20"),
            ("0.5", "0.5", "0.25"),
            ("-3", "7", "-21"),
            (
                "9223372036854775807",
                "9223372036854775807",
                "85070591730234615847396907784232501249",
            ),
            ("18446744073709551616", "1.0", "18446744073709551616.0"),
            ("-0.5", "0", "0.0"),
            ("1e2", "3", "300"),
        ] {
            check(product, a, b, expected);
        }
    }

    #[test]
    fn a_result_is_as_wide_as_the_widest_operand() {
        use crate::number::{Number, Width};
        let wide = |text: &str, width| Value::Number(Number::wide(text, width));
        let width = |value: Option<Value>| match value.unwrap() {
            Value::Number(number) => number.width(),
            _ => Width::Least,
        };
        let long = wide("5", Width::Long);
        assert_eq!(width(sum(&long, &1.into())), Width::Long);
        assert_eq!(sum(&long, &1.into()), Some(6.into()));
        assert_eq!(width(product(&(-2).into(), &long)), Width::Long);
        assert_eq!(width(sum(&long, &number("0.5"))), Width::Least);
        let exact = wide("1.50", Width::Literal);
        assert_eq!(width(sum(&long, &exact)), Width::Literal);
        assert_eq!(sum(&long, &exact).unwrap().to_string(), "6.50");
        assert_eq!(width(product(&exact, &number("2"))), Width::Literal);
        assert!(matches!(sum(&long, &Value::Float(0.5)), Some(Value::Float(5.5))));
        // Beyond 64 bits there is no long.
        let large = sum(&i64::MAX.into(), &long);
        assert_eq!(
            (width(large.clone()), large),
            (Width::Least, Some(number("9223372036854775812")))
        );
    }

    #[test]
    fn a_result_beyond_a_thousand_digits_is_none() {
        assert_eq!(sum(&number("1e1000000000"), &number("1")), None);
        assert_eq!(sum(&number("1e-1000000000"), &number("1")), None);
        assert_eq!(product(&number("1e600"), &number("1e600")), None);
        let large = sum(&number("1e999"), &number("1")).unwrap();
        assert_eq!(large.to_string().len(), 1000);
    }
}
