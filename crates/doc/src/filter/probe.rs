//! Tests of single values, prepared for stored bytes.

use super::model::{Comparison, Operand, Test};
use super::value_test::ValueTest;
use crate::value::Value;
use crate::value_type::ValueType;
use crate::view::View;
use crate::view_order;
use flagstone_base::Malformed;
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
    Value(ValueTest),
}

impl Probe {
    /// Prepares a test. A test that is not of single values holds for none.
    pub(super) fn of(test: &Test) -> Self {
        match test {
            Test::Compare(comparison, operand) => Self::comparison(*comparison, operand),
            Test::In(operands) => Self::one_of(operands),
            Test::Value(test) => Self::Value(test.clone()),
            Test::Exists | Test::Size(_) | Test::Element(_) => Self::one_of(&[]),
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
            Self::Int(..) | Self::Text(..) => 2,
            Self::In { operands, .. } => 3 + operands.len().checked_ilog2().unwrap_or(0) as usize,
            Self::Other { kind: ValueType::Array | ValueType::Map, .. } => 60,
            Self::Other { .. } => 5,
            Self::Value(test) => test.operator().cost(),
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
            Self::Value(test) => test.holds(value),
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
