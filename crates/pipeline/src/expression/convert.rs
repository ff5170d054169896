//! Types, and conversions between them.

use super::binary::{self, Format};
use super::call::{Arg, Call, NULL, arg, found, is_nullish, text};
use super::kind::{as_object, is_true, type_name};
use crate::date::{Zone, print, read};
use crate::error::{PipelineError, Result, code};
use crate::number::{Rounding, as_decimal, as_double, as_whole, decimal_of_text, round};
use flagstone::Value;
use flagstone::doc::{DateTime, ObjectId};
use flagstone::internal::document::{NumberType, decimal, long};
use std::borrow::Cow;

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
        Value::DateTime(time) => text_of_date(*time)?,
        _ => {
            let (bytes, subtype) = binary::parts(value)?;
            binary::print(&bytes, Format::Auto, subtype).ok()?
        }
    })
}

/// Returns the text of a date; `None` if its year has not four digits.
fn text_of_date(time: DateTime) -> Option<String> {
    print(time, "%Y-%m-%dT%H:%M:%S.%LZ", &Zone::UTC).ok()
}

/// The error of a value that has no text.
pub(super) fn without_text(call: &Call<'_>, code: i32, value: &Value) -> PipelineError {
    if let Value::DateTime(_) = value {
        let text = format!("{} expected a date of the years from 0 to 9999", call.name());
        return call.fail(18537, text);
    }
    let expected = "a value that has text: text, a number, a date, a timestamp or code";
    call.mistyped(code, expected, &Some(Cow::Borrowed(value)))
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
    Binary(u8),
    /// A type that nothing converts to.
    Other(&'static str),
}

impl Target {
    const ALL: [(&'static str, i64, Self); 22] = [
        ("double", 1, Self::Double),
        ("string", 2, Self::Text),
        ("objectId", 7, Self::ObjectId),
        ("bool", 8, Self::Bool),
        ("date", 9, Self::Date),
        ("int", 16, Self::Int),
        ("long", 18, Self::Long),
        ("decimal", 19, Self::Decimal),
        ("binData", 5, Self::Binary(0)),
        ("missing", 0, Self::Other("missing")),
        ("object", 3, Self::Other("object")),
        ("array", 4, Self::Other("array")),
        ("undefined", 6, Self::Other("undefined")),
        ("null", 10, Self::Other("null")),
        ("regex", 11, Self::Other("regex")),
        ("dbPointer", 12, Self::Other("dbPointer")),
        ("javascript", 13, Self::Other("javascript")),
        ("symbol", 14, Self::Other("symbol")),
        ("javascriptWithScope", 15, Self::Other("javascriptWithScope")),
        ("timestamp", 17, Self::Other("timestamp")),
        ("minKey", -1, Self::Other("minKey")),
        ("maxKey", 127, Self::Other("maxKey")),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Other(name) => name,
            Self::Binary(_) => "binData",
            _ => Self::ALL.iter().find(|(_, _, kind)| *kind == self).map_or("", |(name, ..)| name),
        }
    }
}

/// How binary data is read and written.
#[derive(Clone, Copy)]
struct Manner {
    /// `None` if it was not given.
    format: Option<Format>,
    is_big: bool,
}

const PLAIN: Manner = Manner { format: Some(Format::Auto), is_big: false };

/// Converts a value that is not null. The error says what was expected.
fn converted(value: &Value, target: Target, manner: Manner) -> Result<Value, String> {
    let kind = type_name(Some(value));
    if let Some((bytes, subtype)) = binary::parts(value) {
        return of_binary(value, &bytes, subtype, target, manner);
    }
    let refuse = || format!("a value that converts to {}, found {kind}", target.name());
    let out_of_range = || format!("a number in the range of {}, found {value}", target.name());
    match target {
        Target::Other(_) => Err(refuse()),
        Target::Binary(subtype) => match value {
            Value::Text(text) => {
                let bytes = binary::read(text, manner.format.unwrap_or(Format::Auto), subtype)?;
                Ok(binary::of(bytes, subtype))
            }
            _ => {
                let bytes = binary::of_number(value, manner.is_big).ok_or_else(refuse)?;
                Ok(binary::of(bytes, subtype))
            }
        },
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
            Value::ObjectId(id) => Ok(super::dates::of_id(id).into()),
            Value::Text(text) => read(text, None).map(Value::from),
            _ if kind == "timestamp" => {
                let seconds = value.get("$timestamp").and_then(|inner| inner.get("t")?.as_i64());
                let micros = seconds.and_then(|seconds| seconds.checked_mul(1_000_000));
                micros.map(|micros| DateTime::from_micros(micros).into()).ok_or_else(out_of_range)
            }
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
                let special = not_finite(text).map(Value::Float);
                let found = special.or_else(|| decimal_of_text(&json_number(text)));
                found.ok_or_else(|| format!("a number in the range of decimal, found {text:?}"))
            }
            Value::DateTime(time) => {
                let millis = time.as_micros().div_euclid(1_000);
                decimal(&millis.to_string()).ok_or_else(refuse)
            }
            Value::Float(float) if !float.is_finite() => Ok(value.clone()),
            _ if NumberType::of(value).is_some() => as_decimal(value).ok_or_else(refuse),
            _ => Err(refuse()),
        },
    }
}

/// Converts binary data.
fn of_binary(
    value: &Value,
    bytes: &[u8],
    subtype: u8,
    target: Target,
    manner: Manner,
) -> Result<Value, String> {
    let refuse = || {
        let (name, len) = (target.name(), bytes.len());
        format!("binData of a length that converts to {name}, found {len} bytes")
    };
    match target {
        Target::Bool => Ok(true.into()),
        Target::Text => {
            let format = manner.format.unwrap_or(Format::Auto);
            binary::print(bytes, format, subtype).map(Value::Text)
        }
        Target::Binary(wanted) if wanted == subtype => Ok(value.clone()),
        Target::Binary(wanted) => {
            Err(format!("binData of the subtype {wanted}, found the subtype {subtype}"))
        }
        Target::Int => {
            let short = Some(bytes).filter(|bytes| bytes.len() <= 4);
            let whole = short.and_then(|bytes| binary::integer(bytes, manner.is_big));
            let whole = whole.ok_or_else(refuse)?;
            i32::try_from(whole).map(Value::from).map_err(|_large| refuse())
        }
        Target::Long => binary::integer(bytes, manner.is_big).map(long).ok_or_else(refuse),
        Target::Double => binary::double(bytes, manner.is_big).ok_or_else(refuse),
        _ => Err(format!("a value that converts to {}, found binData", target.name())),
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

/// Parses what is not finite, in letters of any case.
fn not_finite(text: &str) -> Option<f64> {
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let is = |name: &str| rest.eq_ignore_ascii_case(name);
    let found = match rest.len() {
        3 if is("nan") => f64::NAN,
        3 if is("inf") => f64::INFINITY,
        8 if is("infinity") => f64::INFINITY,
        _ => return None,
    };
    Some(if is_negative { -found } else { found })
}

/// Parses a double as C does: in decimal digits, in hexadecimal ones behind `0x`, or not finite.
/// `None` also of a number beyond all doubles, and of one that is so small that nothing is left.
fn float(text: &str) -> Option<f64> {
    if let Some(found) = not_finite(text) {
        return Some(found);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let found = hexadecimal(digits)?;
        return Some(if text.starts_with('-') { -found } else { found });
    }
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let found: f64 = text.parse().ok().filter(|_| is_plain)?;
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = digits.bytes().all(|byte| !(b'1'..=b'9').contains(&byte));
    Some(found).filter(|found| found.is_finite() && (is_zero || *found != 0.0))
}

/// Parses hexadecimal digits with a point, and an exponent of two behind `p`.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // 64 bits, whose last one marks what is behind them.
    let (mut bits, mut shift) = (0_u64, 0_i64);
    for (at, char) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(char.to_digit(16)?);
        let is_behind = at >= whole.len();
        if bits >> 60 == 0 {
            bits = bits << 4 | digit;
            shift -= if is_behind { 4 } else { 0 };
        } else {
            bits |= u64::from(digit != 0);
            shift += if is_behind { 0 } else { 4 };
        }
    }
    let power = exponent.saturating_add(shift).clamp(-3_000, 3_000) as i32;
    // In two steps, because the power alone may be beyond all doubles.
    let found = bits as f64 * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2);
    Some(found).filter(|found| found.is_finite() && (bits == 0 || *found != 0.0))
}

fn convert_to(
    call: &Call<'_>,
    value: &Arg<'_>,
    target: Target,
    manner: Manner,
) -> Result<Option<Value>> {
    match value.as_deref() {
        Some(given) if !is_nullish(value) => {
            // Hexadecimal digits take twice as much as their bytes.
            let len = match given {
                Value::Text(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                Value::Map(_) => binary::parts(given).map_or(0, |(bytes, _)| bytes.len()),
                _ => 0,
            };
            let _held = call.hold(len.saturating_mul(2))?;
            if let (Target::Text, Value::DateTime(_), None) = (target, given, as_text(given)) {
                return Err(without_text(call, code::CONVERSION_FAILURE, given));
            }
            converted(given, target, manner).map(Some).map_err(|expected| {
                call.fail(code::CONVERSION_FAILURE, format!("{} expected {expected}", call.name()))
            })
        }
        _ => NULL,
    }
}

/// Returns the type of an argument, by its name or its number; `None` if it is null.
fn target(call: &Call<'_>, to: &Arg<'_>) -> Result<Option<Target>> {
    let known = |found: Option<&(&str, i64, Target)>, code| {
        let unknown = || call.mistyped(code, "a type to convert to", to);
        found.map(|(.., target)| Some(*target)).ok_or_else(unknown)
    };
    match to.as_deref() {
        _ if is_nullish(to) => Ok(None),
        Some(Value::Text(name)) => {
            known(Target::ALL.iter().find(|(known, ..)| known == name), code::BAD_VALUE)
        }
        Some(number) if NumberType::of(number).is_some() => {
            let whole = as_whole(number);
            let found = Target::ALL.iter().find(|(_, code, _)| Some(*code) == whole);
            known(found, code::FAILED_TO_PARSE)
        }
        _ => known(None, code::FAILED_TO_PARSE),
    }
}

/// Returns the subtype of binary data.
fn subtype(call: &Call<'_>, value: &Value) -> Result<u8> {
    if NumberType::of(value).is_none() {
        return Err(call.fail(4341108, "$convert expected a number as subtype"));
    }
    let whole = as_whole(value)
        .ok_or_else(|| call.fail(4341106, "$convert expected a whole number as subtype"))?;
    let subtype = u8::try_from(whole).ok().filter(|subtype| *subtype <= 9 || *subtype >= 128);
    subtype.ok_or_else(|| {
        call.fail(4341107, format!("$convert expected a subtype that exists, found {whole}"))
    })
}

/// `$convert`: input, to, onNull, format, byteOrder, base. An error is turned to `onError` by the
/// caller.
pub(super) fn convert(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (input, to) = (arg(args, 0), arg(args, 1));
    if is_nullish(input) {
        // Of the other arguments only the type is looked at.
        if to.as_deref().and_then(as_object).is_none() {
            target(call, to)?;
        }
        return Ok(Some(arg(args, 2).as_deref().cloned().unwrap_or_default()));
    }
    let target = match to.as_deref().and_then(as_object) {
        None => target(call, to)?,
        Some(map) => {
            let kind = map.get("type").map(Cow::Borrowed).filter(|kind| !kind.is_null());
            if kind.is_none() {
                let text = "$convert expected a type in to";
                return Err(call.fail(code::FAILED_TO_PARSE, text));
            }
            let found = target(call, &kind)?;
            let wanted = map.get("subtype").map(|value| subtype(call, value)).transpose()?;
            match (found, wanted) {
                (Some(Target::Binary(_)), Some(wanted)) => Some(Target::Binary(wanted)),
                _ => found,
            }
        }
    };
    let Some(target) = target else { return NULL };
    let given = |index: usize| arg(args, index).as_deref().filter(|value| !value.is_null());
    let format = match given(3) {
        None => None,
        Some(Value::Text(text)) => {
            let unknown =
                || call.fail(4341125, format!("$convert expected a format, found {text:?}"));
            Some(Format::parse(text).ok_or_else(unknown)?)
        }
        Some(_) => return Err(call.mistyped(4341114, "text as format", arg(args, 3))),
    };
    let is_big = match given(4) {
        None => false,
        Some(Value::Text(text)) if text == "little" || text == "big" => text == "big",
        Some(Value::Text(text)) => {
            let text = format!("$convert expected the byteOrder little or big, found {text:?}");
            return Err(call.fail(9130002, text));
        }
        Some(_) => return Err(call.mistyped(9130001, "text as byteOrder", arg(args, 4))),
    };
    if given(5).is_some_and(|base| as_whole(base) != Some(10)) {
        return Err(call.fail(code::NOT_SUPPORTED, "$convert with a base other than 10"));
    }
    let is_text = text(input).is_some();
    let is_binary = type_name(input.as_deref()) == "binData";
    let needs_format =
        is_text && matches!(target, Target::Binary(_)) || is_binary && target == Target::Text;
    if needs_format && format.is_none() {
        return Err(call.fail(4341115, "$convert expected a format for binary data"));
    }
    convert_to(call, input, target, Manner { format, is_big })
}

/// `$toUUID`: binary data of the subtype 4 of text.
pub(super) fn to_uuid(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let manner = Manner { format: Some(Format::Uuid), is_big: false };
    convert_to(call, arg(args, 0), Target::Binary(binary::UUID), manner)
}

macro_rules! conversions {
    ($($name:ident $target:ident;)*) => {$(
        pub(super) fn $name(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
            convert_to(call, arg(args, 0), Target::$target, PLAIN)
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

#[cfg(test)]
mod tests {
    use super::float;

    #[test]
    fn doubles_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("-0", Some(-0.0)),
            ("0e-999", Some(0.0)),
            ("+0x1p0", Some(1.0)),
            ("-0x1.8P1", Some(-3.0)),
            ("0Xff", Some(255.0)),
            ("0x.8", Some(0.5)),
            ("0x1p-1074", Some(5e-324)),
            ("0x1fffffffffffff8", Some(144_115_188_075_855_864.0)),
            ("0x20000000000000000000p-60", Some(131_072.0)),
            ("InF", Some(f64::INFINITY)),
            ("-infinity", Some(f64::NEG_INFINITY)),
            ("1e309", None),
            ("1e-400", None),
            ("0x1p2000", None),
            ("0x1p-2000", None),
            ("0x", None),
            ("0x.p0", None),
            ("0x1p", None),
            ("0xg", None),
            ("1 ", None),
            ("", None),
            ("infinit", None),
        ] {
            assert_eq!(float(text), expected, "{text}");
        }
        assert!(float("-NaN").unwrap().is_nan());
    }
}
