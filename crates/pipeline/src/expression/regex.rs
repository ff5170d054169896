//! Regular expressions, in the syntax of the crate `regex`.

use super::call::{Arg, Call, NULL, arg, found, is_nullish, text};
use crate::error::Result;
use crate::memory::{SLOT, weight};
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::interrupt_check;
use regex::{Captures, Regex, RegexBuilder};

/// The longest pattern, and the most memory that a compiled one takes.
const PATTERN_MAX: usize = 16_384;
const COMPILED_MAX: usize = 1 << 20;

/// Returns pattern and options of a regular expression of a driver.
fn pattern(value: Option<&Value>) -> Option<(&str, &str)> {
    match value? {
        Value::Text(pattern) => Some((pattern, "")),
        value => {
            let inner = value.get("$regularExpression")?;
            let options = inner.get("options").and_then(Value::as_str).unwrap_or_default();
            Some((inner.get("pattern")?.as_str()?, options))
        }
    }
}

/// Returns the text and the pattern of the arguments input, regex, options; `None` if one of the
/// first two is missing or null.
fn given<'a>(call: &Call<'_>, args: &'a [Arg<'_>]) -> Result<Option<(&'a str, Regex)>> {
    let (input, regex, options) = (arg(args, 0), arg(args, 1), arg(args, 2));
    let pattern =
        if is_nullish(regex) {
            None
        } else {
            let known = pattern(regex.as_deref());
            Some(known.ok_or_else(|| {
                call.mistyped(51105, "text or a regular expression as regex", regex)
            })?)
        };
    let more = match options.as_deref() {
        _ if is_nullish(options) => None,
        Some(Value::Text(more)) => Some(more.as_str()),
        _ => return Err(call.mistyped(51106, "text as options", options)),
    };
    let regex = match pattern {
        None => None,
        Some((_, own)) if !own.is_empty() && more.is_some() => {
            let text = "options either in the regular expression or beside it, not both";
            return Err(call.fail(51107, text));
        }
        Some((pattern, own)) => {
            let flags = if own.is_empty() { more.unwrap_or_default() } else { own };
            for (text, code) in [(pattern, 51109), (flags, 51110)] {
                if text.contains('\0') {
                    let expected = "expected a regular expression without a zero byte";
                    return Err(call.fail(code, expected));
                }
            }
            let known = format!("{flags}/{pattern}");
            Some(call.context.pattern(&known, || compiled(call, pattern, flags))?)
        }
    };
    if !is_nullish(input) && text(input).is_none() {
        return Err(call.mistyped(51104, "text as input", input));
    }
    Ok(text(input).zip(regex))
}

fn compiled(call: &Call<'_>, pattern: &str, flags: &str) -> Result<Regex> {
    if pattern.len() > PATTERN_MAX {
        return Err(call.fail(51111, format!("expected a pattern of at most {PATTERN_MAX} bytes")));
    }
    let mut builder = RegexBuilder::new(pattern);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            'u' => &mut builder,
            other => {
                let text = format!("expected options among i, m, s, x, found {other:?}");
                return Err(call.fail(51108, text));
            }
        };
    }
    let built = builder.size_limit(COMPILED_MAX).build();
    built.map_err(|error| {
        let error = error.to_string();
        let last = error.lines().next_back().unwrap_or_default().trim().to_owned();
        call.fail(51111, format!("expected a regular expression, found {pattern:?}: {last}"))
    })
}

pub(super) fn is_match(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((input, regex)) = given(call, args)? else { return found(false) };
    found(regex.is_match(input))
}

/// What was found: the text, where it begins in characters, and its groups.
fn shown(captures: &Captures<'_>, chars: usize) -> Value {
    let group =
        |group: Option<regex::Match<'_>>| group.map_or(Value::Null, |group| group.as_str().into());
    let groups: Vec<Value> = captures.iter().skip(1).map(group).collect();
    let whole = captures.get(0).map_or("", |whole| whole.as_str());
    let pairs: [(&str, Value); 3] =
        [("match", whole.into()), ("idx", chars.into()), ("captures", groups.into())];
    Value::Map(pairs.into_iter().collect::<Map>())
}

pub(super) fn first(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((input, regex)) = given(call, args)? else { return NULL };
    let Some(captures) = regex.captures(input) else { return NULL };
    let start = captures.get(0).map_or(0, |whole| whole.start());
    found(shown(&captures, input[..start].chars().count()))
}

pub(super) fn all(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((input, regex)) = given(call, args)? else { return found(Vec::<Value>::new()) };
    let (mut hold, mut list) = (call.hold(0)?, Vec::new());
    let (mut chars, mut last, mut from) = (0, 0, 0);
    while let Some(captures) = regex.captures_at(input, from) {
        interrupt_check()?;
        let (start, end) = captures.get(0).map_or((0, 0), |whole| (whole.start(), whole.end()));
        chars += input[last..start].chars().count();
        last = start;
        let one = shown(&captures, chars);
        hold.add(weight(&one) + SLOT, call.place)?;
        list.push(one);
        // Behind an empty match the search goes on at the next character.
        let next = input[end..].chars().next().map_or(1, char::len_utf8);
        from = if end > start { end } else { end + next };
        if from >= input.len() {
            break;
        }
    }
    found(list)
}
