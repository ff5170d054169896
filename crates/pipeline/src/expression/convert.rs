//! Types, and conversions between them.

use super::call::{Arg, Call, NULL, arg, found, is_nullish};
use super::kind::{is_true, type_name};
use crate::date::read;
use crate::error::{Result, code};
use crate::number::{Rounding, as_double, as_whole, round};
use flagstone::Value;
use flagstone::doc::{DateTime, ObjectId};
use flagstone::internal::document::{NumberType, decimal, long, put_base64};

pub(super) fn type_of(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(type_name(arg(args, 0).as_deref()))
}

pub(super) fn is_number(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(arg(args, 0).as_deref().is_some_and(|value| NumberType::of(value).is_some()))
}

/// Returns the text of a value that has one.
pub(super) fn as_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Text(text) => text.clone(),
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => double_text(*float),
        Value::Number(number) => match NumberType::of(value) {
            Some(NumberType::Double) => double_text(as_double(value)),
            // The exponent that only marks a decimal.
            _ => number.as_str().strip_suffix("E+0").unwrap_or(number.as_str()).to_owned(),
        },
        Value::ObjectId(id) => id.to_string(),
        Value::DateTime(time) => {
            let format = "%Y-%m-%dT%H:%M:%S.%LZ";
            crate::date::print(*time, format, crate::date::Zone::UTC)
                .unwrap_or_else(|_year| time.to_string())
        }
        Value::Bytes(bytes) => {
            let mut text = Vec::new();
            put_base64(bytes, &mut text);
            String::from_utf8(text).ok()?
        }
        Value::Uuid(_) => flagstone::Document::from_value(value)
            .ok()
            .and_then(|uuid| uuid.to_json().ok())
            .map(|json| json.trim_matches('"').to_owned())?,
        _ => return None,
    })
}

/// Writes a double in as few digits as read back as it, with an exponent of at least two digits if
/// it is far from 1.
fn double_text(double: f64) -> String {
    if !double.is_finite() {
        let text = if double > 0.0 { "Infinity" } else { "-Infinity" };
        return if double.is_nan() { "NaN" } else { text }.to_owned();
    }
    if double == 0.0 || (1e-4..1e16).contains(&double.abs()) {
        return format!("{double}");
    }
    let text = format!("{double:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

/// A type to convert to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Double,
    Text,
    ObjectId,
    Bool,
    Date,
    Int,
    Long,
    Decimal,
}

impl Target {
    const ALL: [(&'static str, i64, Self); 8] = [
        ("double", 1, Self::Double),
        ("string", 2, Self::Text),
        ("objectId", 7, Self::ObjectId),
        ("bool", 8, Self::Bool),
        ("date", 9, Self::Date),
        ("int", 16, Self::Int),
        ("long", 18, Self::Long),
        ("decimal", 19, Self::Decimal),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, kind)| *kind == self).map_or("", |(name, ..)| name)
    }
}

/// Converts a value that is not null. The error says what was expected.
fn converted(value: &Value, target: Target) -> Result<Value, String> {
    let kind = type_name(Some(value));
    let refuse = || format!("a value that converts to {}, found {kind}", target.name());
    let out_of_range = || format!("a number in the range of {}, found {value}", target.name());
    match target {
        Target::Bool => Ok(is_true(Some(value)).into()),
        Target::Text => as_text(value).map(Value::Text).ok_or_else(refuse),
        Target::ObjectId => match value {
            Value::ObjectId(_) => Ok(value.clone()),
            Value::Text(text) => {
                let id = text.parse::<ObjectId>().map(Value::ObjectId);
                id.map_err(|_wrong| format!("24 hexadecimal digits, found {text:?}"))
            }
            _ => Err(refuse()),
        },
        Target::Date => match value {
            Value::DateTime(_) => Ok(value.clone()),
            Value::ObjectId(id) => Ok(id.timestamp().into()),
            Value::Text(text) => read(text, None).map(Value::from),
            _ if ["long", "double", "decimal"].contains(&kind) => {
                let millis = round(value, 0, Rounding::Zero).as_ref().and_then(as_whole);
                let micros = millis.and_then(|millis| millis.checked_mul(1_000));
                micros.map(|micros| DateTime::from_micros(micros).into()).ok_or_else(out_of_range)
            }
            _ => Err(refuse()),
        },
        Target::Int | Target::Long => {
            let whole =
                match value {
                    Value::Bool(bool) => Some(i64::from(*bool)),
                    Value::Text(text) => {
                        let parsed =
                            text.parse().ok().filter(|_| !text.starts_with('+') || text.len() > 1);
                        Some(parsed.ok_or_else(|| {
                            format!("the digits of a whole number, found {text:?}")
                        })?)
                    }
                    Value::DateTime(time) if target == Target::Long => {
                        Some(time.as_micros().div_euclid(1_000))
                    }
                    _ if NumberType::of(value).is_some() => {
                        round(value, 0, Rounding::Zero).as_ref().and_then(as_whole)
                    }
                    _ => return Err(refuse()),
                };
            let whole = whole.ok_or_else(out_of_range)?;
            match target {
                Target::Long => Ok(long(whole)),
                _ => i32::try_from(whole).map(Value::from).map_err(|_large| out_of_range()),
            }
        }
        Target::Double => match value {
            Value::Bool(bool) => Ok(Value::Float((*bool).into())),
            Value::Text(text) => {
                float(text).map(Value::Float).ok_or_else(|| format!("a number, found {text:?}"))
            }
            Value::DateTime(time) => Ok(Value::Float(time.as_micros().div_euclid(1_000) as f64)),
            _ if NumberType::of(value).is_some() => {
                let double = as_double(value);
                let is_kept = double.is_finite() || matches!(value, Value::Float(_));
                is_kept.then_some(Value::Float(double)).ok_or_else(out_of_range)
            }
            _ => Err(refuse()),
        },
        Target::Decimal => match value {
            Value::Bool(bool) => decimal(if *bool { "1" } else { "0" }).ok_or_else(refuse),
            Value::Text(text) => {
                let literal = json_number(text);
                let special = float(text).filter(|float| !float.is_finite()).map(Value::Float);
                decimal(&literal).or(special).ok_or_else(|| format!("a number, found {text:?}"))
            }
            Value::DateTime(time) => {
                let millis = time.as_micros().div_euclid(1_000);
                decimal(&millis.to_string()).ok_or_else(refuse)
            }
            Value::Float(float) if !float.is_finite() => Ok(value.clone()),
            Value::Float(float) => decimal(&format!("{float}")).ok_or_else(out_of_range),
            _ if NumberType::of(value).is_some() => decimal(&value.to_string()).ok_or_else(refuse),
            _ => Err(refuse()),
        },
    }
}

/// Writes a number by the grammar of JSON: without a plus and leading zeros, with a digit before
/// the point.
fn json_number(text: &str) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if !rest.starts_with(|first: char| first.is_ascii_digit() || first == '.') || rest == "." {
        return text.to_owned();
    }
    let digits = rest.trim_start_matches('0');
    let zero = if digits.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "0" };
    format!("{sign}{zero}{}", digits.strip_suffix('.').unwrap_or(digits))
}

/// Parses a float as drivers write one.
fn float(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "+Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => {
            let is_plain =
                text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            text.parse().ok().filter(|_| is_plain)
        }
    }
}

fn convert_to(call: &Call<'_>, value: &Arg<'_>, target: Target) -> Result<Option<Value>> {
    match value.as_deref() {
        Some(given) if !is_nullish(value) => {
            converted(given, target).map(Some).map_err(|expected| {
                call.fail(code::CONVERSION_FAILURE, format!("{} expected {expected}", call.name()))
            })
        }
        _ => NULL,
    }
}

/// `$convert`: input, to, onNull. An error is turned to `onError` by the caller.
pub(super) fn convert(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (input, to, on_null) = (arg(args, 0), arg(args, 1), args.get(2));
    let target = match to.as_deref() {
        _ if is_nullish(to) => None,
        Some(Value::Text(name)) => {
            let known = Target::ALL.iter().find(|(known, ..)| known == name);
            let unknown = || {
                call.fail(
                    code::BAD_VALUE,
                    format!("$convert expected the name of a type, found {name:?}"),
                )
            };
            Some(known.ok_or_else(unknown)?.2)
        }
        Some(number) => {
            let known = as_whole(number)
                .and_then(|number| Target::ALL.iter().find(|(_, code, _)| *code == number));
            let unknown = || call.mistyped(code::FAILED_TO_PARSE, "a type to convert to", to);
            Some(known.ok_or_else(unknown)?.2)
        }
        None => None,
    };
    if is_nullish(input) {
        return Ok(on_null.map_or(Some(Value::Null), |value| value.as_deref().cloned()));
    }
    let Some(target) = target else { return NULL };
    convert_to(call, input, target)
}

macro_rules! conversions {
    ($($name:ident $target:ident;)*) => {$(
        pub(super) fn $name(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
            convert_to(call, arg(args, 0), Target::$target)
        }
    )*};
}
conversions! {
    to_double Double;
    to_text Text;
    to_object_id ObjectId;
    to_bool Bool;
    to_date Date;
    to_int Int;
    to_long Long;
    to_decimal Decimal;
}
