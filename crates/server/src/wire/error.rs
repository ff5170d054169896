//! What is wrong with a message.

use std::borrow::Cow;
use std::fmt;

/// Why a message was refused: the offset in it, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The offset in the message.
    pub offset: usize,
    /// What was expected there.
    pub expected: Cow<'static, str>,
}

impl WireError {
    pub(super) fn new(offset: usize, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { offset, expected: expected.into() }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message, byte {}: expected {}", self.offset, self.expected)
    }
}

impl std::error::Error for WireError {}
