//! Dates.

use super::call::{Arg, Call, NULL, arg, found, is_nullish, text};
use super::kind::type_name;
use crate::date::{
    Civil, Unit, Weekday, Zone, days_before_iso, difference, parse_with, print, read, stepped,
    truncated,
};
use crate::error::{Result, code};
use crate::number::as_whole;
use flagstone::Value;
use flagstone::doc::{DateTime, Map, ObjectId};
use flagstone::internal::document::{NumberType, long};

/// Returns the time of an ObjectId. Its seconds count as signed here.
pub(super) fn of_id(id: &ObjectId) -> DateTime {
    let seconds = id.timestamp().as_micros() / 1_000_000;
    DateTime::from_micros(i64::from(seconds as u32 as i32) * 1_000_000)
}

/// Returns the point in time of an argument; `None` if it is null.
fn time(call: &Call<'_>, arg: &Arg<'_>, code: i32) -> Result<Option<DateTime>> {
    match arg.as_deref() {
        Some(Value::DateTime(time)) => Ok(Some(*time)),
        Some(Value::ObjectId(id)) => Ok(Some(of_id(id))),
        Some(value) if type_name(Some(value)) == "timestamp" => {
            let seconds = value.get("$timestamp").and_then(|inner| inner.get("t")?.as_i64());
            let micros = seconds.and_then(|seconds| seconds.checked_mul(1_000_000));
            Ok(micros.map(DateTime::from_micros))
        }
        _ if is_nullish(arg) => Ok(None),
        _ => Err(call.mistyped(code, "a date", arg)),
    }
}

/// Returns the zone of an argument: UTC if there is none, `None` if it is null.
fn zone(call: &Call<'_>, zone: Option<&Arg<'_>>) -> Result<Option<Zone>> {
    let Some(zone) = zone else { return Ok(Some(Zone::UTC)) };
    match zone.as_deref() {
        _ if is_nullish(zone) => Ok(None),
        Some(Value::Text(text)) => Zone::parse(text).map(Some).ok_or_else(|| {
            let text = format!(
                "{} expected a time zone such as UTC, +02:00 or Europe/Berlin, found {text:?}",
                call.name()
            );
            call.fail(40485, text)
        }),
        _ => Err(call.mistyped(40517, "text as timezone", zone)),
    }
}

/// The part of a date: date, timezone.
fn part(
    call: &Call<'_>,
    args: &[Arg<'_>],
    part: impl Fn(&Civil) -> Value,
) -> Result<Option<Value>> {
    let zone = named_zone(call, args, 1)?;
    let time = time(call, arg(args, 0), 16006)?;
    let civil = zone.zip(time).map(|(zone, time)| zone.civil(time));
    Ok(Some(civil.map_or(Value::Null, |civil| part(&civil))))
}

macro_rules! parts {
    ($($name:ident |$civil:ident| $part:expr;)*) => {$(
        pub(super) fn $name(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
            part(call, args, |$civil| Value::from($part))
        }
    )*};
}
parts! {
    year |civil| civil.year;
    month |civil| civil.month;
    day |civil| civil.day;
    day_of_week |civil| civil.iso_weekday() % 7 + 1;
    day_of_year |civil| civil.day_of_year();
    hour |civil| civil.hour();
    minute |civil| civil.minute();
    second |civil| civil.second();
    millisecond |civil| civil.millisecond();
    week |civil| civil.week();
    iso_week |civil| civil.iso_week().1;
    iso_year |civil| long(civil.iso_week().0);
    iso_weekday |civil| civil.iso_weekday();
}

/// Returns the unit of an argument; `None` if it is null.
fn unit(call: &Call<'_>, arg: &Arg<'_>) -> Result<Option<Unit>> {
    if is_nullish(arg) {
        return Ok(None);
    }
    let unit = text(arg).ok_or_else(|| call.mistyped(5439013, "text as unit", arg))?;
    let unknown = || {
        let text =
            format!("{} expected a unit from year to millisecond, found {unit:?}", call.name());
        call.fail(code::FAILED_TO_PARSE, text)
    };
    Unit::parse(unit).map(Some).ok_or_else(unknown)
}

/// Returns the first day of weeks: Sunday if it is not given, `None` if it is null.
fn first_day(call: &Call<'_>, day: &Arg<'_>, unit: Unit) -> Result<Option<Weekday>> {
    match day.as_deref() {
        Some(Value::Text(text)) if unit == Unit::Week => {
            Weekday::parse(text).map(Some).ok_or_else(|| {
                let text = format!(
                    "{} expected the name of a day as startOfWeek, found {text:?}",
                    call.name()
                );
                call.fail(5439016, text)
            })
        }
        Some(Value::Null) if unit == Unit::Week => Ok(None),
        Some(Value::Null | Value::Text(_)) | None => Ok(Some(Weekday::SUNDAY)),
        _ => Err(call.mistyped(5439015, "text as startOfWeek", day)),
    }
}

/// Returns a whole number; `None` if it is null.
fn whole(call: &Call<'_>, arg: &Arg<'_>, name: &str, code: i32) -> Result<Option<i64>> {
    if is_nullish(arg) {
        return Ok(None);
    }
    let is_number = arg.as_deref().is_some_and(|value| NumberType::of(value).is_some());
    let whole = arg.as_deref().filter(|_| is_number).and_then(as_whole);
    whole.map(Some).ok_or_else(|| call.mistyped(code, &format!("a whole number as {name}"), arg))
}

/// Returns the zone of a named argument: UTC if it is missing, `None` if it is null.
fn named_zone(call: &Call<'_>, args: &[Arg<'_>], index: usize) -> Result<Option<Zone>> {
    zone(call, args.get(index).filter(|zone| zone.is_some()))
}

fn beyond(call: &Call<'_>) -> crate::PipelineError {
    call.fail(5976500, format!("{} expected a date that can be represented", call.name()))
}

/// `$dateAdd` and `$dateSubtract`: startDate, unit, amount, timezone.
fn moved(call: &Call<'_>, args: &[Arg<'_>], sign: i64) -> Result<Option<Value>> {
    let unit = unit(call, arg(args, 1))?;
    let amount = whole(call, arg(args, 2), "amount", 5166405)?;
    let zone = named_zone(call, args, 3)?;
    let start = time(call, arg(args, 0), 5166403)?;
    let (Some(unit), Some(amount), Some(zone), Some(start)) = (unit, amount, zone, start) else {
        return NULL;
    };
    let amount = amount.checked_mul(sign);
    let moved = amount.and_then(|amount| stepped(start, unit, amount, &zone));
    moved.map(|moved| Some(moved.into())).ok_or_else(|| beyond(call))
}

pub(super) fn add(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    moved(call, args, 1)
}

pub(super) fn subtract(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    moved(call, args, -1)
}

/// `$dateDiff`: startDate, endDate, unit, timezone, startOfWeek.
pub(super) fn between(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let unit = unit(call, arg(args, 2))?;
    let zone = named_zone(call, args, 3)?;
    let start = time(call, arg(args, 0), 5166307)?;
    let end = time(call, arg(args, 1), 5166307)?;
    let (Some(unit), Some(zone), Some(start), Some(end)) = (unit, zone, start, end) else {
        return NULL;
    };
    let Some(first) = first_day(call, arg(args, 4), unit)? else { return NULL };
    found(long(difference(start, end, unit, &zone, first)))
}

/// `$dateTrunc`: date, unit, binSize, timezone, startOfWeek.
pub(super) fn truncate(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let unit = unit(call, arg(args, 1))?;
    let size = match args.get(2).filter(|size| size.is_some()) {
        Some(size) => whole(call, size, "binSize", 5439017)?,
        None => Some(1),
    };
    if size.is_some_and(|size| size < 1) {
        return Err(call.fail(5439018, "$dateTrunc expected a binSize from 1 on"));
    }
    let zone = named_zone(call, args, 3)?;
    let date = time(call, arg(args, 0), 5166307)?;
    let (Some(unit), Some(size), Some(zone), Some(date)) = (unit, size, zone, date) else {
        return NULL;
    };
    let Some(first) = first_day(call, arg(args, 4), unit)? else { return NULL };
    let longest = match unit {
        Unit::Year | Unit::Quarter | Unit::Month => Some((100_000_000_000, 5439006)),
        Unit::Hour => Some((i64::MAX / 3_600_000, 5439002)),
        _ => None,
    };
    if let Some((longest, code)) = longest
        && size > longest
    {
        let text = format!("$dateTrunc expected a binSize up to {longest}, found {size}");
        return Err(call.fail(code, text));
    }
    let begin = truncated(date, unit, size, &zone, first);
    begin.map(|begin| Some(begin.into())).ok_or_else(|| beyond(call))
}

/// `$dateToString`: date, format, timezone, onNull.
pub(super) fn to_text(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let zone = named_zone(call, args, 2)?;
    let format = match args.get(1).filter(|format| format.is_some()) {
        None => "%Y-%m-%dT%H:%M:%S.%LZ",
        Some(format) if is_nullish(format) => return NULL,
        Some(format) => {
            text(format).ok_or_else(|| call.mistyped(18533, "text as format", format))?
        }
    };
    let usual = args.get(1).is_none_or(Option::is_none);
    let format = match &zone {
        Some(zone) if usual && *zone != Zone::UTC => "%Y-%m-%dT%H:%M:%S.%L",
        _ => format,
    };
    let Some(time) = time(call, arg(args, 0), 16006)? else {
        let on_null = args.get(3).and_then(Option::as_deref).cloned();
        return Ok(Some(on_null.unwrap_or_default()));
    };
    let Some(zone) = zone else { return NULL };
    let text = print(time, format, &zone);
    text.map(|text| Some(text.into())).map_err(|expected| {
        call.fail(
            if expected.starts_with("a year") { 18537 } else { 18536 },
            format!("$dateToString expected {expected}"),
        )
    })
}

/// `$dateFromString`: dateString, format, timezone, onNull. An error of the text is turned to
/// `onError` by the caller.
pub(super) fn from_text(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let zone = match args.get(2).filter(|zone| zone.is_some()) {
        None => None,
        Some(given) => match zone(call, Some(given))? {
            Some(zone) => Some(zone),
            None => return NULL,
        },
    };
    let format = match args.get(1).filter(|format| format.is_some()) {
        None => None,
        Some(format) if is_nullish(format) => return NULL,
        Some(format) => {
            Some(text(format).ok_or_else(|| call.mistyped(40684, "text as format", format))?)
        }
    };
    let given = arg(args, 0);
    if is_nullish(given) {
        return Ok(Some(args.get(3).and_then(Option::as_deref).cloned().unwrap_or_default()));
    }
    let wrong = || call.mistyped(code::CONVERSION_FAILURE, "text as dateString", given);
    let given = text(given).ok_or_else(wrong)?;
    let time = match format {
        Some(format) => parse_with(given, format, zone.as_ref()),
        None => read(given, zone.as_ref()),
    };
    time.map(|time| Some(time.into())).map_err(|expected| {
        let is_of_format = expected.starts_with("one of %");
        let code = if is_of_format { 18536 } else { code::CONVERSION_FAILURE };
        call.fail(code, format!("$dateFromString expected {expected}"))
    })
}

/// `$dateToParts`: date, timezone, iso8601.
pub(super) fn to_parts(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let zone = named_zone(call, args, 1)?;
    let is_iso = match arg(args, 2).as_deref() {
        None => Some(false),
        Some(Value::Bool(is_iso)) => Some(*is_iso),
        _ if is_nullish(arg(args, 2)) => None,
        _ => return Err(call.mistyped(40521, "true or false as iso8601", arg(args, 2))),
    };
    let time = time(call, arg(args, 0), 16006)?;
    let (Some(zone), Some(is_iso), Some(time)) = (zone, is_iso, time) else { return NULL };
    let civil = zone.civil(time);
    let day = if is_iso {
        let (year, week) = civil.iso_week();
        [("isoWeekYear", year), ("isoWeek", week), ("isoDayOfWeek", civil.iso_weekday())]
    } else {
        [("year", civil.year), ("month", civil.month), ("day", civil.day)]
    };
    let of_day = [
        ("hour", civil.hour()),
        ("minute", civil.minute()),
        ("second", civil.second()),
        ("millisecond", civil.millisecond()),
    ];
    found(day.into_iter().chain(of_day).collect::<Map>())
}

/// The parts of a date, in the order of the arguments of `$dateFromParts`: name and what counts if
/// it is not given.
const PARTS: [(&str, i64); 10] = [
    ("year", 1),
    ("month", 1),
    ("day", 1),
    ("isoWeekYear", 1),
    ("isoWeek", 1),
    ("isoDayOfWeek", 1),
    ("hour", 0),
    ("minute", 0),
    ("second", 0),
    ("millisecond", 0),
];
/// The largest magnitude of a part.
const PART_MAX: i64 = 1 << 32;

/// The microseconds of a day.
const DAY: i128 = 86_400_000_000;

/// `$dateFromParts`: the parts, timezone.
pub(super) fn from_parts(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let is_given = |index: usize| arg(args, index).is_some();
    let is_iso = is_given(3);
    if !is_iso && !is_given(0) {
        return Err(call.fail(40516, "$dateFromParts expected year or isoWeekYear"));
    }
    if is_given(0) && (3..6).any(is_given) {
        return Err(call.fail(40489, "$dateFromParts expected a year of one calendar, not of both"));
    }
    if is_iso && (1..3).any(is_given) {
        return Err(call.fail(40525, "$dateFromParts expected parts of a week beside isoWeekYear"));
    }
    let mut parts = [0; PARTS.len()];
    for (index, (name, usual)) in PARTS.iter().enumerate() {
        parts[index] = match arg(args, index) {
            None => *usual,
            given => match whole(call, given, name, 40515)? {
                Some(part) if part.abs() <= PART_MAX => part,
                Some(_) => return Err(beyond(call)),
                None => return NULL,
            },
        };
    }
    let Some(zone) = named_zone(call, args, PARTS.len())? else { return NULL };
    let [year, month, day, iso_year, week, weekday, hour, minute, second, millis] = parts;
    let given_year = if is_iso { iso_year } else { year };
    if !(1..=9_999).contains(&given_year) {
        let text = format!("$dateFromParts expected a year from 1 to 9999, found {given_year}");
        return Err(call.fail(40523, text));
    }
    let mut civil = Civil { year, month, day, time: 0 };
    if is_iso {
        let day = days_before_iso(iso_year, week, weekday) + 1;
        civil = Civil { year: 1970, month: 1, day, time: 0 };
    }
    let seconds = i128::from((hour * 60 + minute) * 60 + second);
    let micros = (seconds * 1_000 + i128::from(millis)) * 1_000;
    civil.day += micros.div_euclid(DAY) as i64;
    civil.time = micros.rem_euclid(DAY) as i64;
    let point = zone.point(&civil);
    point.map(|point| Some(point.into())).ok_or_else(|| beyond(call))
}
