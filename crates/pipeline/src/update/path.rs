//! The paths of updates: `a.b`, `a.0`, `a.$`, `a.$[]`, `a.$[x]`.

use crate::error::{PipelineError, Result, code};
use flagstone::internal::document::DEPTH_MAX;
use std::cmp::Ordering;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Name(Name),
    /// `$`: the element that the filter of the update matched.
    Matched,
    /// `$[]`: all elements of an array.
    All,
    /// `$[x]`: the elements that the array filter `x` matches.
    Filtered(Box<str>),
}

/// The name of a field; of digits, it is also a position in an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: Box<str>,
    pub(super) index: Option<usize>,
}

impl Name {
    pub(super) fn new(text: &str) -> Self {
        let is_shortest = text == "0" || !text.starts_with('0');
        let is_index = is_shortest && text.bytes().all(|byte| byte.is_ascii_digit());
        let index = if is_index { text.parse().ok() } else { None };
        Self { text: text.into(), index }
    }
}

impl Ord for Name {
    /// Positions come first, in the order of numbers.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.index, other.index) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.text.cmp(&other.text),
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Makes the error of an operator at a path.
#[cold]
pub(super) fn refusal(
    code: i32,
    operator: &str,
    path: &str,
    text: impl Into<String>,
) -> PipelineError {
    // The place in the update. A path may be as long as a message.
    let shown: String = path.chars().take(200).collect();
    PipelineError::new(code, format_args!("update.{operator}.{shown}"), text)
}

/// The code of a zero in a path.
const NUL_IN_PATH: i32 = 9_867_600;

/// Parses the path of `operator`. Below the document itself a name may begin with a dollar sign.
pub(super) fn parse(operator: &str, text: &str) -> Result<Vec<Step>> {
    let refuse =
        |code, expected: &str| Err(refusal(code, operator, text, format!("expected {expected}")));
    let mut steps = Vec::new();
    for part in text.split('.') {
        if steps.len() == DEPTH_MAX {
            return refuse(code::BAD_VALUE, &format!("a path of at most {DEPTH_MAX} steps"));
        }
        let step = match part {
            "" => return refuse(code::EMPTY_FIELD_NAME, "a path without empty names"),
            _ if part.contains('\0') => return refuse(NUL_IN_PATH, "a path without zeros"),
            "$" if steps.contains(&Step::Matched) => {
                return refuse(code::BAD_VALUE, "one positional operator $ at most");
            }
            "$" => Step::Matched,
            "$[]" => Step::All,
            _ => match part.strip_prefix("$[").and_then(|part| part.strip_suffix(']')) {
                Some(identifier) => Step::Filtered(identifier.into()),
                None if part.starts_with('$') && (steps.is_empty() || part.starts_with("$[")) => {
                    let expected = format!("no name that begins with $, such as {part:?}");
                    return refuse(code::DOLLAR_PREFIXED_FIELD_NAME, &expected);
                }
                None => Step::Name(Name::new(part)),
            },
        };
        if steps.is_empty() && !matches!(step, Step::Name(_)) {
            return refuse(code::BAD_VALUE, "the name of a field before a position in an array");
        }
        steps.push(step);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_first_and_in_the_order_of_numbers() {
        let mut names: Vec<Name> =
            ["b", "10", "9", "a", "1a", "0", "00"].map(Name::new).into_iter().collect();
        names.sort();
        let texts: Vec<&str> = names.iter().map(|name| &*name.text).collect();
        assert_eq!(texts, ["0", "9", "10", "00", "1a", "a", "b"]);
    }

    #[test]
    fn a_path_has_steps_of_all_kinds() {
        let steps = parse("$set", "a.0.$.$[].$[x].$id").unwrap();
        let name = |text| Step::Name(Name::new(text));
        let filtered = Step::Filtered("x".into());
        let expected = [name("a"), name("0"), Step::Matched, Step::All, filtered, name("$id")];
        assert_eq!(steps, expected);
        for (path, code) in [
            ("", 56),
            ("a..b", 56),
            ("a.", 56),
            ("$", 2),
            ("$[]", 2),
            ("a.$.$", 2),
            ("a.b\0", 9_867_600),
            ("$b", 52),
            ("a.$[b", 52),
        ] {
            let fault = parse("$set", path).unwrap_err();
            assert_eq!((fault.code(), path), (code, path), "{fault}");
        }
        assert!(parse("$set", &"a.".repeat(10_000_000)).is_err());
    }
}
