//! Errors of JSON: why text is refused, and why a document has no JSON form.

use flagstone_base::{Error, ErrorKind, Malformed};
use std::fmt;

/// An error in JSON text: its position, what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The offset in bytes, from 0.
    pub offset: usize,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What the parser expected at this position.
    pub expected: &'static str,
    /// The character found; `None` at the end of the text and for bytes that are not UTF-8.
    pub found: Option<char>,
}

impl JsonError {
    #[cold]
    pub(super) fn at(json: &[u8], offset: usize, expected: &'static str) -> Self {
        let offset = offset.min(json.len());
        let (before, behind) = json.split_at(offset);
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        let in_line = &before[line_start..];
        // Count all bytes except the continuation bytes of UTF-8, which begin with the bits 10.
        let characters = in_line.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        let found = (1..=4).find_map(|len| std::str::from_utf8(behind.get(..len)?).ok());
        Self {
            offset,
            line: 1 + memchr::memchr_iter(b'\n', before).count(),
            column: 1 + characters,
            expected,
            found: found.and_then(|text| text.chars().next()),
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, line, column, expected, found } = self;
        write!(f, "JSON, line {line}, column {column} (byte {offset}): expected {expected}")?;
        match found {
            Some(found) => write!(f, ", found {found:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for JsonError {}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Self {
        Self::invalid(error.to_string())
    }
}

/// The reason why a document has no JSON form. The path names the value concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoJson {
    /// A map has a key that is not text.
    KeyIsNotText {
        /// The dotted path of the map; empty for the root.
        path: String,
    },
    /// A float is NaN or infinite.
    NotFinite {
        /// The dotted path of the float; empty for the root.
        path: String,
    },
    /// A datetime is outside the years 0 to 9999.
    NoDate {
        /// The dotted path of the datetime; empty for the root.
        path: String,
    },
    /// The bytes are not a valid document.
    Malformed(Malformed),
}

impl NoJson {
    /// Prepends a step to the path.
    #[cold]
    pub(super) fn below(mut self, step: &dyn fmt::Display) -> Self {
        match &mut self {
            Self::KeyIsNotText { path } | Self::NotFinite { path } | Self::NoDate { path } => {
                *path = if path.is_empty() { step.to_string() } else { format!("{step}.{path}") };
            }
            Self::Malformed(_) => {}
        }
        self
    }
}

impl From<Malformed> for NoJson {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

fn place(path: &str) -> impl fmt::Display + '_ {
    if path.is_empty() { "the document" } else { path }
}

impl fmt::Display for NoJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyIsNotText { path } => {
                write!(f, "{} is a map with a key that is not text: no JSON form", place(path))
            }
            Self::NotFinite { path } => {
                write!(f, "{} is a number that is not finite: no JSON form", place(path))
            }
            Self::NoDate { path } => {
                write!(f, "{} is a datetime outside the years 0 to 9999: no JSON form", place(path))
            }
            Self::Malformed(malformed) => write!(f, "a document, {malformed}"),
        }
    }
}

impl std::error::Error for NoJson {}

impl From<NoJson> for Error {
    fn from(error: NoJson) -> Self {
        match error {
            NoJson::Malformed(malformed) => malformed.in_file("a document", 0),
            _ => Self::new(ErrorKind::InvalidInput, error.to_string()),
        }
    }
}
