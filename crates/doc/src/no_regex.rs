//! What a build without the feature `regex` has instead of the crate: every pattern is refused.

use std::fmt;

/// A compiled pattern: there is none.
#[derive(Clone, Debug)]
pub(crate) enum Regex {}

impl Regex {
    pub(crate) fn is_match(&self, _text: &str) -> bool {
        match *self {}
    }
}

/// The error of each pattern.
#[derive(Debug)]
pub(crate) enum Error {
    /// Never: a pattern is not even looked at.
    #[expect(dead_code, reason = "as in the crate")]
    CompiledTooBig(usize),
    /// The feature is missing.
    NotBuiltIn,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this program has regular expressions not built in")
    }
}

/// Takes the options of the crate's builder.
pub(crate) struct RegexBuilder;

impl RegexBuilder {
    pub(crate) fn new(_pattern: &str) -> Self {
        Self
    }

    pub(crate) fn case_insensitive(&mut self, _yes: bool) -> &mut Self {
        self
    }

    pub(crate) fn multi_line(&mut self, _yes: bool) -> &mut Self {
        self
    }

    pub(crate) fn dot_matches_new_line(&mut self, _yes: bool) -> &mut Self {
        self
    }

    pub(crate) fn ignore_whitespace(&mut self, _yes: bool) -> &mut Self {
        self
    }

    pub(crate) fn size_limit(&mut self, _bytes: usize) -> &mut Self {
        self
    }

    pub(crate) fn nest_limit(&mut self, _depth: u32) -> &mut Self {
        self
    }

    pub(crate) fn build(&self) -> Result<Regex, Error> {
        Err(Error::NotBuiltIn)
    }
}
