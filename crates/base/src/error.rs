//! The one public error: what the caller must do (`kind`), and what went wrong where (the text).
//!
//! One pointer wide, so that `Result<T>` stays small on the hot paths.

use std::fmt;
use std::path::Path;

/// The result of everything in flagstone that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller must do about an error; the text says what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call was wrong: mend the argument. Nothing was written.
    InvalidInput,
    /// Somebody else holds what is needed (a lock, memory): try again later.
    Busy,
    /// A condition of a batch did not hold: read again, then decide again. Nothing was written.
    Conflict,
    /// The operating system refused: the text names the file and its reason.
    Io,
    /// The disk is full: make room; writing resumes by itself.
    OutOfSpace,
    /// A sync failed or background work panicked, so what is on disk or in memory is unknown: reads go on, reopen to
    /// write again.
    Poisoned,
    /// Bytes on disk are not what was written: restore, or repair.
    Corruption,
    /// Made by a newer or differently built flagstone: open it with that one.
    Unsupported,
    /// The database was closed: open it again.
    Closed,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidInput => "invalid input",
            Self::Busy => "busy",
            Self::Conflict => "conflict",
            Self::Io => "input/output error",
            Self::OutOfSpace => "out of disk space",
            Self::Poisoned => "poisoned",
            Self::Corruption => "corruption",
            Self::Unsupported => "unsupported",
            Self::Closed => "closed",
        })
    }
}

/// The error of every flagstone call. Cheap to clone: a failed group answers all its members.
#[derive(Clone)]
pub struct Error(std::sync::Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    text: String,
    source: Option<std::io::Error>,
}

impl Error {
    /// An error of `kind` whose text says what happened.
    #[cold]
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self(std::sync::Arc::new(Inner { kind, text: text.into(), source: None }))
    }

    /// The caller passed something that can never work.
    #[cold]
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, text)
    }

    /// The operating system refused `doing` (say, "open") on `path`.
    #[cold]
    pub fn io(doing: &str, path: &Path, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::OutOfSpace
            }
            _ => ErrorKind::Io,
        };
        let text = format!("cannot {doing} {}: {source}", path.display());
        Self(std::sync::Arc::new(Inner { kind, text, source: Some(source) }))
    }

    /// `file` holds, at `offset`, something else than what was expected.
    #[cold]
    pub fn corruption(file: impl fmt::Display, offset: u64, found: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corruption, format!("{file}, offset {offset}: {found}"))
    }

    /// What the caller must do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operating system's error, if one stands behind this.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        self.0.source.as_ref()
    }

    /// Whether this is the operating system's "no such file".
    pub fn is_missing_file(&self) -> bool {
        self.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound)
    }

    /// The same error with `context` in front of its text: `context: text`.
    #[cold]
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Self {
        let source = self.0.source.as_ref().map(|e| match e.raw_os_error() {
            Some(code) => std::io::Error::from_raw_os_error(code),
            None => std::io::Error::from(e.kind()),
        });
        let text = format!("{context}: {}", self.0.text);
        Self(std::sync::Arc::new(Inner { kind: self.0.kind, text, source }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.text)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn a_full_disk_has_a_kind_of_its_own_and_keeps_it_in_context() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = Error::io("append to", Path::new("a/b.wal"), full).context("commit");
        assert_eq!(error.kind(), ErrorKind::OutOfSpace);
        assert!(error.to_string().starts_with("commit: cannot append to a/b.wal: "));
        assert!(error.io_error().is_some());
    }
}
