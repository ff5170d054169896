//! Tests of single values, prepared for stored bytes.

use super::model::{Comparison, Operand, Test, TypeSet};
use super::pattern::Pattern;
use crate::number::Exact;
use crate::value::Value;
use crate::value_type::ValueType;
use crate::view::View;
use crate::view_order;
use flagstone_base::Malformed;
use memchr::memmem::Finder;
use std::cmp::Ordering;

/// A test of one value; an array is tested as a whole.
#[derive(Debug)]
pub(super) enum Probe {
    /// Compares with an integer of 64 bits: the most frequent operand, with text.
    Int(Comparison, i64, Operand),
    Text(Comparison, Box<[u8]>),
    Other {
        comparison: Comparison,
        operand: Operand,
        kind: ValueType,
    },
    /// Operands in ascending order, and whether null is among them.
    In {
        operands: Box<[Operand]>,
        has_null: bool,
    },
    Type(TypeSet),
    Prefix(Box<[u8]>),
    Contains(Box<Finder<'static>>),
    Matches(Pattern),
    Remainder {
        divisor: i64,
        remainder: i64,
    },
}

impl Probe {
    /// Prepares a test. A test that is not of single values holds for none.
    pub(super) fn of(test: &Test) -> Self {
        match test {
            Test::Compare(comparison, operand) => Self::comparison(*comparison, operand),
            Test::In(operands) => Self::one_of(operands),
            Test::Type(types) => Self::Type(*types),
            Test::Prefix(prefix) => Self::Prefix(prefix.as_bytes().into()),
            Test::Contains(part) => {
                Self::Contains(Box::new(Finder::new(part.as_bytes()).into_owned()))
            }
            Test::Matches(pattern) => Self::Matches(pattern.clone()),
            Test::Remainder { divisor, remainder } => {
                Self::Remainder { divisor: *divisor, remainder: *remainder }
            }
            Test::Exists | Test::Size(_) | Test::Element(_) => Self::Type(TypeSet::default()),
        }
    }

    /// Prepares a test for one of these values, which ascend and are distinct.
    pub(super) fn one_of(operands: &[Operand]) -> Self {
        let has_null = operands.iter().any(|operand| operand.value.is_null());
        Self::In { operands: operands.into(), has_null }
    }

    fn comparison(comparison: Comparison, operand: &Operand) -> Self {
        match &*operand.value {
            Value::Int(int) => Self::Int(comparison, *int, operand.clone()),
            Value::Text(text) => Self::Text(comparison, text.as_bytes().into()),
            other => Self::Other { comparison, operand: operand.clone(), kind: other.value_type() },
        }
    }

    /// Returns whether the test holds where a value is missing: null equals nothing, too.
    pub(super) fn takes_missing(&self) -> bool {
        match self {
            Self::Other { comparison, kind: ValueType::Null, .. } => comparison.takes_equal(),
            Self::In { has_null, .. } => *has_null,
            _ => false,
        }
    }

    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Type(_) => 1,
            Self::Int(..) | Self::Text(..) | Self::Prefix(_) => 2,
            Self::In { operands, .. } => 3 + operands.len().checked_ilog2().unwrap_or(0) as usize,
            Self::Remainder { .. } => 4,
            Self::Other { kind: ValueType::Array | ValueType::Map, .. } => 60,
            Self::Other { .. } => 5,
            Self::Contains(_) => 30,
            Self::Matches(_) => 90,
        }
    }

    #[inline]
    pub(super) fn holds(&self, value: &View<'_>) -> Result<bool, Malformed> {
        match self {
            Self::Int(comparison, int, operand) => Ok(match value.as_small_int() {
                Some(value) => comparison.takes(value.cmp(int)),
                None if value.is_number() => takes_numbers(*comparison, value, operand),
                None => false,
            }),
            Self::Text(comparison, text) => {
                let order = value.as_text_bytes().map(|value| value.cmp(text));
                Ok(order.is_some_and(|order| comparison.takes(order)))
            }
            Self::Other { comparison, operand, kind } => other(*comparison, operand, *kind, value),
            Self::In { operands, .. } => Ok(place_among(value, operands)?.is_some()),
            Self::Type(types) => Ok(types.has(value.value_type())),
            Self::Prefix(prefix) => {
                Ok(value.as_text_bytes().is_some_and(|text| text.starts_with(prefix)))
            }
            Self::Contains(finder) => {
                Ok(value.as_text_bytes().is_some_and(|text| finder.find(text).is_some()))
            }
            Self::Matches(pattern) => Ok(value.as_str().is_some_and(|text| pattern.matches(text))),
            Self::Remainder { divisor, remainder } => {
                Ok(self::remainder(value, *divisor) == Some(*remainder))
            }
        }
    }
}

/// Compares two numbers. A NaN equals a NaN, and is neither less nor greater than a number.
fn takes_numbers(comparison: Comparison, value: &View<'_>, operand: &Operand) -> bool {
    let is_nan = value.as_stored_float().is_some_and(f64::is_nan);
    if is_nan || operand.is_nan() {
        return is_nan && operand.is_nan() && comparison.takes_equal();
    }
    let order = view_order::cmp_scalars(value, &operand.view());
    order.is_some_and(|order| comparison.takes(order))
}

/// Compares with an operand that is neither a small integer nor text.
fn other(
    comparison: Comparison,
    operand: &Operand,
    kind: ValueType,
    value: &View<'_>,
) -> Result<bool, Malformed> {
    if value.value_type() != kind {
        return Ok(false);
    }
    let is_container = matches!(kind, ValueType::Array | ValueType::Map);
    match comparison {
        _ if kind == ValueType::Number => Ok(takes_numbers(comparison, value, operand)),
        Comparison::Equal if is_container => {
            view_order::same(value, &operand.view(), crate::DEPTH_MAX)
        }
        _ if is_container => Ok(comparison.takes(value.to_value()?.cmp(&operand.value))),
        _ => {
            let order = view_order::cmp_scalars(value, &operand.view());
            Ok(order.is_some_and(|order| comparison.takes(order)))
        }
    }
}

/// Returns which of the operands, which are in ascending order and distinct, a value equals.
pub(super) fn place_among(
    value: &View<'_>,
    operands: &[Operand],
) -> Result<Option<usize>, Malformed> {
    let (mut from, mut to) = (0, operands.len());
    while from < to {
        let middle = usize::midpoint(from, to);
        match view_order::cmp(value, &operands[middle].view())? {
            Ordering::Equal => return Ok(Some(middle)),
            Ordering::Less => to = middle,
            Ordering::Greater => from = middle + 1,
        }
    }
    Ok(None)
}

/// Returns the remainder of a number's integer part; `None` for other values and for floats that
/// are not finite.
fn remainder(value: &View<'_>, divisor: i64) -> Option<i64> {
    if let Some(int) = value.as_small_int() {
        return Some(int.wrapping_rem(divisor));
    }
    if !value.is_number() {
        return None;
    }
    let mut text = [0; 48];
    let exact = view_order::exact(value, &mut text).ok()?;
    let magnitude = remainder_of_magnitude(&exact, divisor.unsigned_abs().into());
    // The magnitude is less than that of the divisor, which is an i64.
    let magnitude = i64::try_from(magnitude).ok()?;
    Some(if exact.negative { -magnitude } else { magnitude })
}

/// Returns the remainder of the integer part, without its sign.
fn remainder_of_magnitude(exact: &Exact<'_>, divisor: u128) -> u128 {
    let places = usize::try_from(exact.exponent).unwrap_or(0);
    let digits = exact.digits().take(places);
    let rest = digits.fold(0, |rest, digit| (rest * 10 + u128::from(digit)) % divisor);
    let mut zeros = places.saturating_sub(exact.len());
    // Ten to the power of `zeros`, by squaring. The divisor has at most 64 bits.
    let (mut power, mut base) = (1 % divisor, 10 % divisor);
    while zeros > 0 {
        if zeros & 1 == 1 {
            power = power * base % divisor;
        }
        base = base * base % divisor;
        zeros >>= 1;
    }
    rest * power % divisor
}
