//! The error of a JSONPath or a JSON Pointer that does not have the form it should.

use flagstone_base::Error;
use std::convert::Infallible;
use std::fmt;

/// An error in the text of a JSONPath or a JSON Pointer: its position, what was expected and what
/// was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// What the text should be: `JSONPath` or `JSON Pointer`.
    pub what: &'static str,
    /// The position in characters, from 1.
    pub position: usize,
    /// What the parser expected at this position.
    pub expected: &'static str,
    /// The character found; `None` at the end of the text.
    pub found: Option<char>,
}

impl PathError {
    /// Makes the error at byte `at` of `text`.
    #[cold]
    pub(crate) fn at(what: &'static str, text: &str, at: usize, expected: &'static str) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let found = text.get(at..).and_then(|rest| rest.chars().next());
        Self { what, position: 1 + before.chars().count(), expected, found }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, position, expected, found } = self;
        write!(f, "{what}, character {position}: expected {expected}, found ")?;
        match found {
            Some(found) => write!(f, "{found:?}"),
            None => f.write_str("the end"),
        }
    }
}

impl std::error::Error for PathError {}

/// What is a path already cannot fail to be one.
impl From<Infallible> for PathError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::invalid(error.to_string())
    }
}
