//! Why JSON text is refused.

use flagstone_base::Error;
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
