//! Regular expressions of filters.

#[cfg(not(feature = "regex"))]
use crate::no_regex as regex;
use regex::{Regex, RegexBuilder};
use std::fmt;

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4096;
/// The most memory that a compiled pattern may take, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The deepest nesting of a syntax tree.
const NESTING_MAX: u32 = 200;

/// A compiled regular expression, matched in time linear in the text.
#[derive(Clone)]
pub(super) struct Pattern {
    regex: Regex,
    text: Box<str>,
    /// Some of the letters `imsx`, in this order.
    options: Box<str>,
}

impl Pattern {
    /// Compiles a pattern. The error is what was expected of it.
    pub(super) fn new(text: &str, options: &str) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern of at most {PATTERN_BYTES_MAX} bytes"));
        }
        // Patterns are of Unicode anyway, as the option u of some drivers says.
        if let Some(unknown) = options.chars().find(|option| !"imsxu".contains(*option)) {
            return Err(format!("options among i, m, s and x, not {unknown:?}"));
        }
        let has = |option| options.contains(option);
        let regex = RegexBuilder::new(text)
            .case_insensitive(has('i'))
            .multi_line(has('m'))
            .dot_matches_new_line(has('s'))
            .ignore_whitespace(has('x'))
            .size_limit(COMPILED_BYTES_MAX)
            .nest_limit(NESTING_MAX)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    "a pattern that takes at most 1 MiB when compiled".to_owned()
                }
                // The crate's message draws the pattern on lines of its own; the last one says why.
                error => {
                    let text = error.to_string();
                    let reason = text.lines().last().unwrap_or_default();
                    format!("a regular expression ({})", reason.trim_start_matches("error: "))
                }
            })?;
        let options = "imsx".chars().filter(|option| has(*option)).collect::<String>();
        Ok(Self { regex, text: text.into(), options: options.into() })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    pub(super) const fn text(&self) -> &str {
        &self.text
    }

    pub(super) const fn options(&self) -> &str {
        &self.options
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.options) == (&other.text, &other.options)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/{}", self.text, self.options)
    }
}
