//! Trigonometry, and `$sigmoid`.

use super::arithmetic::{in_type, one, pair};
use super::call::{Arg, Call, NULL, found};
use crate::error::{Result, code};
use crate::number::{add, as_double, divide, exponential, negate};
use flagstone::Value;
use flagstone::internal::document::{NumberType, decimal};
use std::ops::RangeInclusive;

const ALL: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;
const FINITE: RangeInclusive<f64> = f64::MIN..=f64::MAX;

/// Returns a function of the argument, which is to be in a domain.
fn of(
    call: &Call<'_>,
    args: &[Arg<'_>],
    domain: &RangeInclusive<f64>,
    function: fn(f64) -> f64,
) -> Result<Option<Value>> {
    let Some(value) = one(call, args, 28765)? else { return NULL };
    let double = as_double(value);
    if !double.is_nan() && !domain.contains(&double) {
        let text = format!(
            "{} expected a number from {} to {}, found {double}",
            call.name(),
            domain.start(),
            domain.end()
        );
        return Err(call.fail(50989, text));
    }
    found(in_type(&[value], function(double)))
}

macro_rules! functions {
    ($($name:ident $domain:expr, $function:expr;)*) => {$(
        pub(super) fn $name(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
            of(call, args, &$domain, $function)
        }
    )*};
}
functions! {
    sine FINITE, f64::sin;
    cosine FINITE, f64::cos;
    tangent FINITE, f64::tan;
    arc_sine -1.0..=1.0, f64::asin;
    arc_cosine -1.0..=1.0, f64::acos;
    arc_tangent ALL, f64::atan;
    hyperbolic_sine ALL, f64::sinh;
    hyperbolic_cosine ALL, f64::cosh;
    hyperbolic_tangent ALL, f64::tanh;
    area_sine ALL, f64::asinh;
    area_cosine 1.0..=f64::INFINITY, f64::acosh;
    area_tangent -1.0..=1.0, f64::atanh;
    to_radians ALL, f64::to_radians;
    to_degrees ALL, f64::to_degrees;
}

pub(super) fn sigmoid(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some(value) = one(call, args, code::TYPE_MISMATCH)? else { return NULL };
    let double = as_double(value);
    if NumberType::of(value) != Some(NumberType::Decimal) {
        return found(1.0 / (1.0 + (-double).exp()));
    }
    let one = Value::Int(1);
    let sum = exponential(&negate(value)).and_then(|power| add(&one, &power));
    Ok(match sum {
        // The sum is beyond all decimals.
        Some(Value::Float(_)) => decimal("0E-6176"),
        sum => sum.and_then(|sum| divide(&one, &sum)),
    })
}

pub(super) fn arc_tangent_of_two(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((y, x)) = pair(call, args, [51044, 51045])? else { return NULL };
    found(in_type(&[y, x], as_double(y).atan2(as_double(x))))
}
