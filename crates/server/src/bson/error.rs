//! What is wrong with BSON, or with a document that cannot become BSON.

use std::borrow::Cow;
use std::fmt;

/// Why BSON was not read or written: the offset, the field, and what was expected there.
///
/// ```
/// use flagstone_server::bson::BsonReader;
/// let bson = b"\x0c\0\0\0\x08done\0\x07\0";
/// let error = BsonReader::new().read(bson, None, &mut Vec::new()).unwrap_err();
/// assert_eq!(error.to_string(), "BSON, byte 10, at done: expected 0 or 1 as a boolean");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BsonError {
    /// The offset in the BSON that was read, or in that written so far.
    pub offset: usize,
    /// The path of the field, such as `a.b[2]`; empty for the document itself.
    pub path: String,
    /// What was expected there.
    pub expected: Cow<'static, str>,
}

impl BsonError {
    pub(super) fn new(offset: usize, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { offset, path: String::new(), expected: expected.into() }
    }

    /// Returns the error of a part that has this name.
    pub(super) fn inside(mut self, name: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path.insert_str(0, dot);
        self.path.insert_str(0, name);
        self
    }
}

impl fmt::Display for BsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BSON, byte {}", self.offset)?;
        if !self.path.is_empty() {
            write!(f, ", at {}", self.path)?;
        }
        write!(f, ": expected {}", self.expected)
    }
}

impl std::error::Error for BsonError {}

impl From<BsonError> for flagstone::Error {
    fn from(error: BsonError) -> Self {
        Self::invalid(error.to_string())
    }
}
