//! Errors of conversions between Rust values and documents, with the path where they occur.

use flagstone_base::{Error, ErrorKind, Malformed};
use serde::{de, ser};
use std::fmt::{self, Display, Write};

/// The longest text of an error. Serde quotes refused values, which may be of any length.
const TEXT_BYTES_MAX: usize = 300;
/// The longest name in the path of an error, in bytes.
const STEP_BYTES_MAX: usize = 80;

/// An error and its path; one word wide, so that results stay small.
#[derive(Debug)]
pub(super) struct FailureAtPath(Box<Inner>);

#[derive(Debug)]
struct Inner {
    reason: Reason,
    text: String,
    /// The dotted path; empty at the root.
    path: String,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The Rust type does not fit the document.
    Mismatch,
    /// The bytes are not a valid document.
    Malformed,
    /// A key is an array or a map: [`FailureAtPath::is_compound`].
    Compound,
}

impl FailureAtPath {
    #[cold]
    fn of(reason: Reason, text: &dyn Display) -> Self {
        let mut cut = Cut { text: String::new(), left: TEXT_BYTES_MAX };
        // `Cut` refuses text only when it cuts it.
        let _is_cut = write!(cut, "{text}");
        Self(Box::new(Inner { reason, text: cut.text, path: String::new() }))
    }

    /// Reports that the type does not fit the document.
    pub(super) fn mismatch(text: impl Display) -> Self {
        Self::of(Reason::Mismatch, &text)
    }

    /// Reports that a key is an array or a map.
    pub(super) fn compound() -> Self {
        Self::of(Reason::Compound, &"a key that is no scalar")
    }

    pub(super) fn is_compound(&self) -> bool {
        self.0.reason == Reason::Compound
    }

    /// Returns the same failure with `step` prepended to its path.
    #[cold]
    pub(super) fn within(mut self, step: impl Display) -> Self {
        let mut path = Cut { text: String::new(), left: STEP_BYTES_MAX };
        let _is_cut = write!(path, "{step}");
        if !self.0.path.is_empty() {
            path.text.push('.');
            path.text.push_str(&self.0.path);
        }
        self.0.path = path.text;
        self
    }

    /// Converts to the public error: Corruption for malformed bytes, otherwise InvalidInput.
    pub(super) fn into_error(self) -> Error {
        let kind = match self.0.reason {
            Reason::Malformed => ErrorKind::Corruption,
            _ => ErrorKind::InvalidInput,
        };
        Error::new(kind, self.to_string())
    }
}

/// Text cut to a number of bytes; two dots at its end mark a cut.
struct Cut {
    text: String,
    left: usize,
}

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut fits = text.len().min(self.left);
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        self.text.push_str(&text[..fits]);
        self.left -= fits;
        if fits == text.len() {
            return Ok(());
        }
        self.text.push_str("..");
        self.left = 0;
        Err(fmt::Error)
    }
}

impl From<Malformed> for FailureAtPath {
    #[cold]
    fn from(malformed: Malformed) -> Self {
        Self::of(Reason::Malformed, &malformed)
    }
}

impl Display for FailureAtPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "{}: ", self.0.path)?;
        }
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for FailureAtPath {}

impl de::Error for FailureAtPath {
    fn custom<T: Display>(text: T) -> Self {
        Self::mismatch(text)
    }
}

impl ser::Error for FailureAtPath {
    fn custom<T: Display>(text: T) -> Self {
        Self::mismatch(text)
    }
}
