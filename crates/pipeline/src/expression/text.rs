//! Text.

use super::call::{Arg, Call, NULL, arg, found, is_nullish, text};
use super::convert::as_text;
use crate::error::{Result, code};
use crate::memory::SLOT;
use crate::number::{Rounding, as_whole, round};
use flagstone::Value;
use flagstone::internal::document::NumberType;

pub(super) fn concatenated(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    for arg in args {
        if is_nullish(arg) {
            return NULL;
        }
        text(arg).ok_or_else(|| call.mistyped(16702, "text", arg))?;
    }
    let len = args.iter().filter_map(text).map(str::len).sum();
    let _held = call.hold(len)?;
    let mut all = String::with_capacity(len);
    all.extend(args.iter().filter_map(text));
    found(all)
}

/// Returns the text of a number, a date or text; of null the empty text.
fn coerced(call: &Call<'_>, arg: &Arg<'_>) -> Result<String> {
    if is_nullish(arg) {
        return Ok(String::new());
    }
    match arg.as_deref() {
        Some(Value::Text(text)) => Ok(text.clone()),
        Some(value @ (Value::Int(_) | Value::Number(_) | Value::Float(_) | Value::DateTime(_))) => {
            Ok(as_text(value).unwrap_or_default())
        }
        _ => Err(call.mistyped(16007, "text, a number or a date", arg)),
    }
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

/// Returns a number without its fraction.
fn whole(call: &Call<'_>, arg: &Arg<'_>, code: i32) -> Result<i64> {
    let cut = arg.as_deref().filter(|value| NumberType::of(value).is_some());
    let cut = cut.and_then(|value| round(value, 0, Rounding::Zero));
    let whole = cut.as_ref().and_then(as_whole);
    whole.ok_or_else(|| call.mistyped(code, "numbers behind the text", arg))
}

pub(super) fn part_by_bytes(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let text = coerced(call, arg(args, 0))?;
    let (start, len) = (whole(call, arg(args, 1), 16034)?, whole(call, arg(args, 2), 16035)?);
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

pub(super) fn part_by_chars(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let text = coerced(call, arg(args, 0))?;
    let count = |index, codes: (i32, i32)| {
        let given = arg(args, index);
        let whole = given.as_deref().filter(|value| NumberType::of(value).is_some());
        let whole =
            whole.ok_or_else(|| call.mistyped(codes.0, "numbers behind the text", given))?;
        let whole = as_whole(whole).and_then(|whole| usize::try_from(whole).ok());
        whole.ok_or_else(|| call.mistyped(codes.1, "whole numbers from 0 on", given))
    };
    let (start, len) = (count(1, (34450, 34451))?, count(2, (34452, 34453))?);
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
            let whole = bound.as_deref().and_then(as_whole);
            let whole =
                whole.ok_or_else(|| call.mistyped(40096, "a whole number as index", bound))?;
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

/// The text to search and what to find; `None` if there is nothing to search.
fn searched<'a>(
    call: &Call<'_>,
    args: &'a [Arg<'_>],
    codes: (i32, i32),
) -> Result<Option<(&'a str, &'a str)>> {
    let (whole, part) = (arg(args, 0), arg(args, 1));
    if is_nullish(whole) {
        return Ok(None);
    }
    let whole = text(whole).ok_or_else(|| call.mistyped(codes.0, "text first", whole))?;
    let part = text(part).ok_or_else(|| call.mistyped(codes.1, "text as second", part))?;
    Ok(Some((whole, part)))
}

pub(super) fn index_in_bytes(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((whole, part)) = searched(call, args, (40091, 40092))? else { return NULL };
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
    let Some((whole, part)) = searched(call, args, (40093, 40094))? else { return NULL };
    let count = whole.chars().count();
    let Some((start, end)) = bounds(call, args, count)? else { return found(-1) };
    let byte = |char: usize| whole.char_indices().nth(char).map_or(whole.len(), |(at, _)| at);
    let within = &whole[byte(start)..byte(end)];
    let place = within.find(part).map(|at| start + within[..at].chars().count());
    found(place.map_or(-1, |place| place as i64))
}

/// The white space that trims remove if no characters are given.
const BLANKS: &[char] = &[
    '\0', '\t', '\n', '\u{b}', '\u{c}', '\r', ' ', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}',
];

/// Trims `input` by `chars`, the named arguments.
fn trimmed(call: &Call<'_>, args: &[Arg<'_>], sides: (bool, bool)) -> Result<Option<Value>> {
    let (input, chars) = (arg(args, 0), args.get(1).filter(|chars| chars.is_some()));
    if is_nullish(input) || chars.is_some_and(is_nullish) {
        return NULL;
    }
    let input = text(input).ok_or_else(|| call.mistyped(50699, "text as input", input))?;
    let given =
        chars.map(|chars| text(chars).ok_or_else(|| call.mistyped(50700, "text as chars", chars)));
    let given: Option<Vec<char>> = given.transpose()?.map(|chars| chars.chars().collect());
    let chars = given.as_deref().unwrap_or(BLANKS);
    let input = if sides.0 { input.trim_start_matches(chars) } else { input };
    found(if sides.1 { input.trim_end_matches(chars) } else { input })
}

pub(super) fn trim(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    trimmed(call, args, (true, true))
}

pub(super) fn trim_start(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    trimmed(call, args, (true, false))
}

pub(super) fn trim_end(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    trimmed(call, args, (false, true))
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
    let _held = call.hold(input.len().saturating_add(count.saturating_mul(replacement.len())))?;
    found(input.replacen(find, replacement, most))
}

pub(super) fn replace_one(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    replaced(call, args, 1)
}

pub(super) fn replace_all(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if text(arg(args, 1)) == Some("") {
        return Err(
            call.fail(code::BAD_VALUE, "$replaceAll expected a text to find that is not empty")
        );
    }
    replaced(call, args, usize::MAX)
}
