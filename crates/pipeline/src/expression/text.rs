//! Text.

use super::call::{Arg, Call, NULL, arg, found, is_nullish, text};
use super::convert::{as_text, without_text};
use super::kind::type_name;
use crate::date::{Zone, print};
use crate::error::Result;
use crate::memory::SLOT;
use crate::number::{Rounding, as_double, as_whole, round};
use flagstone::Value;
use flagstone::doc::DateTime;
use flagstone::internal::document::NumberType;

pub(super) fn concatenated(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    for arg in args {
        if is_nullish(arg) {
            return NULL;
        }
        text(arg).ok_or_else(|| call.mistyped(16702, "text", arg))?;
    }
    let len = args.iter().filter_map(text).map(str::len).sum();
    call.check_text(len)?;
    let _held = call.hold(len)?;
    let mut all = String::with_capacity(len);
    all.extend(args.iter().filter_map(text));
    found(all)
}

/// Returns the text of a value that has one; of null the empty text.
fn coerced(call: &Call<'_>, arg: &Arg<'_>) -> Result<String> {
    if is_nullish(arg) {
        return Ok(String::new());
    }
    let text = match arg.as_deref() {
        Some(Value::Text(text)) => Some(text.clone()),
        Some(value @ Value::DateTime(_)) => as_text(value),
        Some(value) => match NumberType::of(value) {
            Some(NumberType::Double) => Some(short_double(as_double(value))),
            Some(_) => as_text(value),
            None => text_of_form(value),
        },
        None => None,
    };
    text.ok_or_else(|| without_text(call, 16007, arg.as_deref().unwrap_or(&Value::Null)))
}

/// Returns the text of code, of a symbol, or of a timestamp: `Jan  1 00:00:01:5`.
fn text_of_form(value: &Value) -> Option<String> {
    let inner = |name: &str| value.get(name);
    match type_name(Some(value)) {
        "javascript" => inner("$code")?.as_str().map(str::to_owned),
        "symbol" => inner("$symbol")?.as_str().map(str::to_owned),
        "timestamp" => {
            let part = |name: &str| inner("$timestamp")?.get(name)?.as_i64();
            let time = DateTime::from_micros(part("t")?.checked_mul(1_000_000)?);
            let increment = part("i")?;
            let day = print(time, "%d", &Zone::UTC).ok()?;
            let day = day.strip_prefix('0').map_or_else(|| day.clone(), |day| format!(" {day}"));
            let [month, time] =
                ["%b", "%H:%M:%S"].map(|format| print(time, format, &Zone::UTC).ok());
            Some(format!("{} {day} {}:{increment}", month?, time?))
        }
        _ => None,
    }
}

/// Writes a double in at most 6 digits, as `%g` of C does.
fn short_double(double: f64) -> String {
    if !double.is_finite() {
        let sign = if double < 0.0 { "-" } else { "" };
        return format!("{sign}{}", if double.is_nan() { "nan" } else { "inf" });
    }
    let text = format!("{double:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let plain = |text: &str| {
        let is_fraction = text.contains('.');
        let text = if is_fraction { text.trim_end_matches('0') } else { text };
        text.trim_end_matches('.').to_owned()
    };
    if (-4..6).contains(&exponent) {
        let behind = usize::try_from(5 - exponent).unwrap_or_default();
        return plain(&format!("{double:.behind$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", plain(digits), exponent.abs())
}

pub(super) fn upper(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(coerced(call, arg(args, 0))?.to_ascii_uppercase())
}

pub(super) fn lower(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(coerced(call, arg(args, 0))?.to_ascii_lowercase())
}

pub(super) fn compared_without_case(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let upper = |index| {
        Ok::<_, crate::PipelineError>(coerced(call, arg(args, index))?.to_ascii_uppercase())
    };
    found(upper(0)?.cmp(&upper(1)?) as i32)
}

/// Returns the whole number of 64 bits that an argument becomes: a double loses its fraction, a
/// decimal goes to the nearest. A decimal beyond 64 bits becomes the least one.
fn whole(call: &Call<'_>, value: &Value) -> Result<i64> {
    let is_double = NumberType::of(value) == Some(NumberType::Double);
    let rounding = if is_double { Rounding::Zero } else { Rounding::Even };
    let whole = round(value, 0, rounding).as_ref().and_then(as_whole);
    if is_double && whole.is_none() {
        return Err(call.fail(31109, format!("expected a number of 64 bits, found {value}")));
    }
    Ok(whole.unwrap_or(i64::MIN))
}

/// Returns a number.
fn number<'a>(call: &Call<'_>, arg: &'a Arg<'_>, code: i32) -> Result<&'a Value> {
    let number = arg.as_deref().filter(|value| NumberType::of(value).is_some());
    number.ok_or_else(|| call.mistyped(code, "numbers behind the text", arg))
}

pub(super) fn part_by_bytes(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let text = coerced(call, arg(args, 0))?;
    let (start, len) = (number(call, arg(args, 1), 16034)?, number(call, arg(args, 2), 16035)?);
    let (start, len) = (whole(call, start)?, whole(call, len)?);
    let start = usize::try_from(start)
        .map_err(|_negative| call.fail(50752, "$substrBytes expected a start from 0 on"))?;
    let end = usize::try_from(len).map_or(text.len(), |len| start.saturating_add(len));
    let end = end.min(text.len());
    if start >= text.len() {
        return found("");
    }
    if !text.is_char_boundary(start) {
        return Err(
            call.fail(28656, "$substrBytes expected a start at the first byte of a character")
        );
    }
    let part = text.get(start..end).ok_or_else(|| {
        call.fail(28657, "$substrBytes expected an end at the last byte of a character")
    })?;
    found(part)
}

/// Returns an integer of 32 bits.
fn int(arg: &Arg<'_>) -> Option<i32> {
    arg.as_deref().and_then(as_whole).and_then(|whole| i32::try_from(whole).ok())
}

pub(super) fn part_by_chars(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let text = coerced(call, arg(args, 0))?;
    let given = |index, codes: (i32, i32)| {
        let given = arg(args, index);
        number(call, given, codes.0)?;
        int(given).ok_or_else(|| call.mistyped(codes.1, "whole numbers of 32 bits", given))
    };
    let (start, len) = (given(1, (34450, 34451))?, given(2, (34452, 34453))?);
    let from_0 = |whole: i32, code| {
        let text = format!("$substrCP expected numbers from 0 on, found {whole}");
        usize::try_from(whole).map_err(|_negative| call.fail(code, text))
    };
    let (len, start) = (from_0(len, 34454)?, from_0(start, 34455)?);
    found(text.chars().skip(start).take(len).collect::<String>())
}

pub(super) fn split(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if args.iter().any(is_nullish) {
        return NULL;
    }
    let (whole, by) = (arg(args, 0), arg(args, 1));
    let whole = text(whole).ok_or_else(|| call.mistyped(40085, "text first", whole))?;
    let by = text(by).ok_or_else(|| call.mistyped(10503900, "text as separator", by))?;
    if by.is_empty() {
        return Err(call.fail(40087, "$split expected a separator that is not empty"));
    }
    let _held = call.hold(whole.len() + (whole.matches(by).count() + 1) * SLOT)?;
    found(whole.split(by).map(Value::from).collect::<Vec<Value>>())
}

pub(super) fn length_in_chars(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let given = arg(args, 0);
    let text = text(given).ok_or_else(|| call.mistyped(34471, "text", given))?;
    found(text.chars().count())
}

pub(super) fn length_in_bytes(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let given = arg(args, 0);
    let text = text(given).ok_or_else(|| call.mistyped(34473, "text", given))?;
    found(text.len())
}

/// Returns the bounds of a search; `None` if nothing can be found.
fn bounds(call: &Call<'_>, args: &[Arg<'_>], len: usize) -> Result<Option<(usize, usize)>> {
    let bound = |index: usize, usual: usize| match args.get(index) {
        None => Ok(usual),
        Some(bound) => {
            let whole = int(bound);
            let whole = whole
                .ok_or_else(|| call.mistyped(40096, "a whole number of 32 bits as index", bound))?;
            usize::try_from(whole).map_err(|_negative| {
                call.fail(
                    40097,
                    format!("{} expected an index from 0 on, found {whole}", call.name()),
                )
            })
        }
    };
    let (start, end) = (bound(2, 0)?, bound(3, len)?.min(len));
    Ok((start <= end).then_some((start, end)))
}

/// The text to search and what to find; `None` if there is nothing to search. It fails with the
/// code `of_whole` or `of_part` if one is no text.
fn searched<'a>(
    call: &Call<'_>,
    args: &'a [Arg<'_>],
    of_whole: i32,
    of_part: i32,
) -> Result<Option<(&'a str, &'a str)>> {
    let (whole, part) = (arg(args, 0), arg(args, 1));
    if is_nullish(whole) {
        return Ok(None);
    }
    let whole = text(whole).ok_or_else(|| call.mistyped(of_whole, "text first", whole))?;
    let part = text(part).ok_or_else(|| call.mistyped(of_part, "text as second", part))?;
    Ok(Some((whole, part)))
}

pub(super) fn index_in_bytes(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((whole, part)) = searched(call, args, 40091, 40092)? else { return NULL };
    let Some((start, end)) = bounds(call, args, whole.len())? else { return found(-1) };
    let within = &whole.as_bytes()[start..end];
    let place = if part.is_empty() {
        Some(0)
    } else {
        within.windows(part.len()).position(|window| window == part.as_bytes())
    };
    found(place.map_or(-1, |place| (start + place) as i64))
}

pub(super) fn index_in_chars(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((whole, part)) = searched(call, args, 40093, 40094)? else { return NULL };
    let count = whole.chars().count();
    let Some((start, end)) = bounds(call, args, count)? else { return found(-1) };
    if whole.is_empty() && part.is_empty() {
        return found(if start == 0 { 0 } else { -1 });
    }
    let byte = whole.char_indices().nth(start).map_or(whole.len(), |(at, _)| at);
    let within = &whole[byte..];
    // A match begins before the end, and may extend past it.
    let place = within.find(part).map(|at| start + within[..at].chars().count());
    found(place.filter(|place| *place < end).map_or(-1, |place| place as i64))
}

/// The white space that trims remove if no characters are given.
const BLANKS: &[char] = &[
    '\0', '\t', '\n', '\u{b}', '\u{c}', '\r', ' ', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}',
];

/// Trims `input` by `chars`, the named arguments.
fn trimmed(
    call: &Call<'_>,
    args: &[Arg<'_>],
    trim: for<'t> fn(&'t str, &[char]) -> &'t str,
) -> Result<Option<Value>> {
    let (input, chars) = (arg(args, 0), args.get(1).filter(|chars| chars.is_some()));
    if is_nullish(input) {
        return NULL;
    }
    let input = text(input).ok_or_else(|| call.mistyped(50699, "text as input", input))?;
    if chars.is_some_and(is_nullish) {
        return NULL;
    }
    let given =
        chars.map(|chars| text(chars).ok_or_else(|| call.mistyped(50700, "text as chars", chars)));
    let given: Option<Vec<char>> = given.transpose()?.map(|chars| chars.chars().collect());
    let chars = given.as_deref().unwrap_or(BLANKS);
    found(trim(input, chars))
}

pub(super) fn trim(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    trimmed(call, args, |input, chars| input.trim_matches(chars))
}

pub(super) fn trim_start(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    trimmed(call, args, |input, chars| input.trim_start_matches(chars))
}

pub(super) fn trim_end(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    trimmed(call, args, |input, chars| input.trim_end_matches(chars))
}

/// Replaces `find` in `input` by `replacement`, the named arguments.
fn replaced(call: &Call<'_>, args: &[Arg<'_>], most: usize) -> Result<Option<Value>> {
    let mut texts = [""; 3];
    let mut has_null = false;
    for (index, (name, code)) in
        [("input", 10503904), ("find", 10503901), ("replacement", 10503902)].into_iter().enumerate()
    {
        let given = arg(args, index);
        match text(given) {
            Some(text) => texts[index] = text,
            None if is_nullish(given) => has_null = true,
            None => return Err(call.mistyped(code, &format!("text as {name}"), given)),
        }
    }
    if has_null {
        return NULL;
    }
    let [input, find, replacement] = texts;
    let count = input.matches(find).take(most).count();
    let len = input.len() - count * find.len();
    let len = len.saturating_add(count.saturating_mul(replacement.len()));
    call.check_text(len)?;
    let _held = call.hold(len)?;
    found(input.replacen(find, replacement, most))
}

pub(super) fn replace_one(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    replaced(call, args, 1)
}

pub(super) fn replace_all(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    replaced(call, args, usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::short_double;

    #[test]
    fn doubles_are_text_of_six_digits() {
        for (double, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (3.25, "3.25"),
            (123_456.789, "123457"),
            (999_999.0, "999999"),
            (999_999.5, "1e+06"),
            (100_000.0, "100000"),
            (1e20, "1e+20"),
            (0.0001, "0.0001"),
            (0.000_09, "9e-05"),
            (-1.5e-300, "-1.5e-300"),
            (5e-324, "4.94066e-324"),
            (f64::MAX, "1.79769e+308"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(short_double(double), expected);
        }
    }
}
