//! Why an operation of a JSON Patch, or a JSON Merge Patch, is refused.

use flagstone_base::{Error, ErrorKind, Malformed};

/// The reason why an operation is refused.
pub(in crate::patch) enum Refusal {
    /// A `test` does not hold.
    Test,
    Place(&'static str),
    Malformed(Malformed),
    /// The value to be written is refused.
    Value(Error),
}

impl From<&'static str> for Refusal {
    fn from(why: &'static str) -> Self {
        Self::Place(why)
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Value(error)
    }
}

const DIFFERS: &str = "the value differs";
pub(in crate::patch) const TOO_LARGE: &str = "the document would be larger than its limit";
pub(in crate::patch) const TOO_MANY_STEPS: &str =
    "the operations up to here pass and move more than 2^28 elements: send fewer at a time";

impl Refusal {
    /// Returns the error that `describe` gives a text.
    pub(in crate::patch) fn error(self, describe: impl FnOnce(&str) -> String) -> Error {
        match self {
            Self::Test => Error::new(ErrorKind::ConditionFailed, describe(DIFFERS)),
            Self::Place(why) => Error::invalid(describe(why)),
            Self::Malformed(malformed) => malformed.in_file("a document", 0),
            Self::Value(error) => error.context(describe("the value to be written")),
        }
    }
}
