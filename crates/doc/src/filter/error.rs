//! The error of a filter, a projection or a sort that is not well-formed.

use flagstone_base::Error;
use std::borrow::Cow;
use std::fmt;

/// An error in a filter, a projection or a sort: where it is, what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// What is not well-formed: `filter`, `projection` or `sort`.
    pub what: &'static str,
    /// The offset in the text, in bytes from 0; `None` if there is no text.
    pub offset: Option<usize>,
    /// The place inside of the filter: `$or[1].score.$gte`. Empty for all of it.
    pub place: String,
    /// What was expected there.
    pub expected: Cow<'static, str>,
    /// What was found instead; empty if the place says it.
    pub found: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, offset, place, expected, found } = self;
        f.write_str(what)?;
        if let Some(offset) = offset {
            write!(f, ", byte {offset}")?;
        }
        if !place.is_empty() {
            write!(f, ", at {place}")?;
        }
        write!(f, ": expected {expected}")?;
        if !found.is_empty() {
            write!(f, ", found {found}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FilterError {}

impl From<FilterError> for Error {
    fn from(error: FilterError) -> Self {
        Self::invalid(error.to_string())
    }
}
