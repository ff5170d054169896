//! Arithmetic with numbers and dates.

use super::call::{Arg, Call, NULL, arg, found, is_nullish};
use crate::error::{Result, code};
use crate::number::{
    Rounding, absolute, add as sum, as_decimal, as_double, as_whole, divide as quotient,
    exponential as exponential_of, logarithm as logarithm_of, logarithm_of_ten as logarithm_to_ten,
    multiply as product, negate, power as raised, remainder, round as rounded, square_root,
    subtract as rest,
};
use flagstone::Value;
use flagstone::doc::DateTime;
use flagstone::internal::document::{NumberType, decimal, long};

fn is_number(arg: &Arg<'_>) -> bool {
    arg.as_deref().is_some_and(|value| NumberType::of(value).is_some())
}

/// Returns whether an argument is missing or null.
fn has_null(args: &[Arg<'_>]) -> bool {
    args.iter().any(is_nullish)
}

/// Returns the point in time that is a number of milliseconds later.
fn later(call: &Call<'_>, time: DateTime, millis: &Value) -> Result<Option<Value>> {
    // A half of a double goes away from zero.
    let millis = match NumberType::of(millis) {
        Some(NumberType::Double) => as_whole(&Value::Float(as_double(millis).round())),
        _ => rounded(millis, 0, Rounding::Even).as_ref().and_then(as_whole),
    };
    let micros = millis.and_then(|millis| millis.checked_mul(1_000));
    match micros.and_then(|micros| time.as_micros().checked_add(micros)) {
        Some(micros) => found(DateTime::from_micros(micros)),
        None => Err(call.fail(code::OVERFLOW, "expected a date that can be represented")),
    }
}

pub(super) fn add(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if has_null(args) {
        return NULL;
    }
    let (mut total, mut date) = (Value::Int(0), None);
    for arg in args {
        match arg.as_deref() {
            Some(Value::DateTime(_)) if date.is_some() => {
                return Err(call.fail(16612, "$add expected at most one date"));
            }
            Some(Value::DateTime(time)) => date = Some(*time),
            Some(value) => {
                let added = sum(&total, value);
                total = added
                    .ok_or_else(|| call.mistyped(code::TYPE_MISMATCH, "numbers or a date", arg))?;
            }
            None => {}
        }
    }
    match date {
        Some(date) => later(call, date, &total),
        None => found(total),
    }
}

pub(super) fn subtract(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if has_null(args) {
        return NULL;
    }
    match (arg(args, 0).as_deref(), arg(args, 1).as_deref()) {
        (Some(Value::DateTime(a)), Some(Value::DateTime(b))) => {
            let millis = |time: &DateTime| time.as_micros().div_euclid(1_000);
            found(long(millis(a) - millis(b)))
        }
        (Some(Value::DateTime(time)), Some(number)) if is_number(arg(args, 1)) => {
            later(call, *time, &negate(number))
        }
        (Some(a), Some(b)) => match rest(a, b) {
            Some(rest) => found(rest),
            None => {
                let at = usize::from(is_number(arg(args, 0)));
                Err(call.mistyped(
                    code::TYPE_MISMATCH,
                    "two numbers, or a date first",
                    arg(args, at),
                ))
            }
        },
        _ => NULL,
    }
}

pub(super) fn multiply(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if has_null(args) {
        return NULL;
    }
    let mut total = Value::Int(1);
    for arg in args {
        let value = arg.as_deref().unwrap_or(&Value::Null);
        total = product(&total, value)
            .ok_or_else(|| call.mistyped(code::TYPE_MISMATCH, "numbers", arg))?;
    }
    found(total)
}

/// Returns two numbers; `None` if one is missing or null.
pub(super) fn pair<'a>(
    call: &Call<'_>,
    args: &'a [Arg<'_>],
    codes: [i32; 2],
) -> Result<Option<(&'a Value, &'a Value)>> {
    if has_null(args) {
        return Ok(None);
    }
    for (at, code) in codes.into_iter().enumerate() {
        if !is_number(arg(args, at)) {
            return Err(call.mistyped(code, "two numbers", arg(args, at)));
        }
    }
    Ok(arg(args, 0).as_deref().zip(arg(args, 1).as_deref()))
}

fn is_zero(value: &Value) -> bool {
    *value == Value::Int(0)
}

pub(super) fn divide(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((a, b)) = pair(call, args, [code::TYPE_MISMATCH; 2])? else { return NULL };
    if is_zero(b) {
        return Err(call.fail(code::BAD_VALUE, "$divide expected a divisor that is not zero"));
    }
    Ok(quotient(a, b))
}

pub(super) fn modulo(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((a, b)) = pair(call, args, [16611; 2])? else { return NULL };
    if is_zero(b) {
        let has_decimal = [a, b].map(NumberType::of).contains(&Some(NumberType::Decimal));
        let code = if has_decimal { 5733415 } else { 16610 };
        return Err(call.fail(code, "$mod expected a divisor that is not zero"));
    }
    Ok(remainder(a, b))
}

pub(super) fn power(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((base, exponent)) = pair(call, args, [28762, 28763])? else { return NULL };
    if is_zero(base) && *exponent < Value::Int(0) && !as_double(exponent).is_nan() {
        return Err(call.fail(28764, "$pow expected no negative exponent of zero"));
    }
    Ok(raised(base, exponent))
}

/// Returns the only argument; `None` if it is missing or null.
pub(super) fn one<'a>(
    call: &Call<'_>,
    args: &'a [Arg<'_>],
    code: i32,
) -> Result<Option<&'a Value>> {
    let arg = arg(args, 0);
    match arg.as_deref() {
        _ if is_nullish(arg) => Ok(None),
        Some(value) if is_number(arg) => Ok(Some(value)),
        _ => Err(call.mistyped(code, "a number", arg)),
    }
}

pub(super) fn magnitude(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some(value) = one(call, args, 28765)? else { return NULL };
    if *value == Value::Int(i64::MIN) && NumberType::of(value) <= Some(NumberType::Long) {
        return Err(call.fail(28680, "$abs expected a long above -9223372036854775808"));
    }
    Ok(absolute(value))
}

pub(super) fn ceil(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some(value) = one(call, args, 28765)? else { return NULL };
    Ok(rounded(value, 0, Rounding::Up))
}

pub(super) fn floor(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some(value) = one(call, args, 28765)? else { return NULL };
    Ok(rounded(value, 0, Rounding::Down))
}

fn to_place(call: &Call<'_>, args: &[Arg<'_>], rounding: Rounding) -> Result<Option<Value>> {
    let Some(value) = one(call, args, 51081)? else { return NULL };
    let places = match args.get(1) {
        None => 0,
        Some(places) if is_nullish(places) => return NULL,
        Some(places) => {
            let whole = places.as_deref().and_then(as_whole);
            let whole = whole.ok_or_else(|| {
                let code = match places.as_deref() {
                    Some(Value::Float(float)) if !float.is_finite() => 31109,
                    _ if is_number(places) => 51082,
                    _ => 16004,
                };
                call.mistyped(code, "a whole number of places", places)
            })?;
            if !(-20..=100).contains(&whole) {
                let text =
                    format!("{} expected from -20 to 100 places, found {whole}", call.name());
                return Err(call.fail(51083, text));
            }
            whole
        }
    };
    let found = rounded(value, places, rounding);
    let is_beyond = NumberType::of(value) <= Some(NumberType::Long)
        && found.as_ref().and_then(NumberType::of) == Some(NumberType::Double);
    if is_beyond {
        let text = format!("{} expected a result that fits a long", call.name());
        return Err(call.fail(51080, text));
    }
    Ok(found)
}

pub(super) fn round(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    to_place(call, args, Rounding::Even)
}

pub(super) fn truncate(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    to_place(call, args, Rounding::Zero)
}

pub(super) fn root(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some(value) = one(call, args, 28765)? else { return NULL };
    if *value < Value::Int(0) && !as_double(value).is_nan() {
        return Err(call.fail(28714, "$sqrt expected a number that is not negative"));
    }
    Ok(square_root(value))
}

pub(super) fn exponential(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some(value) = one(call, args, 28765)? else { return NULL };
    Ok(exponential_of(value))
}

/// Returns the only argument, which is positive.
fn positive<'a>(call: &Call<'_>, args: &'a [Arg<'_>], code: i32) -> Result<Option<&'a Value>> {
    let Some(value) = one(call, args, 28765)? else { return Ok(None) };
    if *value <= Value::Int(0) && !as_double(value).is_nan() {
        return Err(call.fail(code, format!("{} expected a positive number", call.name())));
    }
    Ok(Some(value))
}

pub(super) fn natural_logarithm(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some(value) = positive(call, args, 28766)? else { return NULL };
    Ok(logarithm_of(value))
}

pub(super) fn logarithm_of_ten(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some(value) = positive(call, args, 28761)? else { return NULL };
    Ok(logarithm_to_ten(value))
}

pub(super) fn logarithm(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((value, base)) = pair(call, args, [28756, 28757])? else { return NULL };
    let is_positive = |value: &Value| *value > Value::Int(0) || as_double(value).is_nan();
    if !is_positive(value) {
        return Err(call.fail(28758, "$log expected a positive number"));
    }
    if !is_positive(base) || *base == Value::Int(1) {
        return Err(call.fail(28759, "$log expected a positive base other than 1"));
    }
    let has_decimal = [value, base].map(NumberType::of).contains(&Some(NumberType::Decimal));
    if has_decimal && let (Some(value), Some(base)) = (as_decimal(value), as_decimal(base)) {
        let both = logarithm_of(&value).zip(logarithm_of(&base));
        return Ok(both.and_then(|(value, base)| quotient(&value, &base)));
    }
    found(as_double(value).ln() / as_double(base).ln())
}

/// Returns a double as a decimal if one of the operands is one.
pub(super) fn in_type(operands: &[&Value], result: f64) -> Value {
    let is_decimal =
        operands.iter().any(|value| NumberType::of(value) == Some(NumberType::Decimal));
    let exact = if is_decimal { decimal(&format!("{result:e}")) } else { None };
    exact.unwrap_or(Value::Float(result))
}
