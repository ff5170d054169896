//! The error type of all crates. Its kind says what the caller must do; its text says what went
//! wrong, and where.
//!
//! An error is one pointer wide, so that `Result<T>` stays small on the hot paths.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The result of a call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an error, which decides what the caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument was wrong: correct it. Nothing was written.
    InvalidInput,
    /// A lock or memory that the call needs is in use: try again later.
    Busy,
    /// A condition of a batch did not hold: read again, and decide again. Nothing was written.
    Conflict,
    /// A condition of a patch does not hold for the document. Nothing was written, and the same
    /// call returns the same until somebody changes the document.
    ConditionFailed,
    /// Another document has the value of a unique index: use another value. Nothing was written.
    Duplicate,
    /// The changes that were asked for are not kept any more: read everything again, and continue
    /// with the changes after that.
    TooOld,
    /// The operating system reported an error: the text names the file and the system's reason.
    Io,
    /// The disk is full: free some space. Writing then resumes by itself.
    OutOfSpace,
    /// A sync failed or background work panicked, so the state on disk or in memory is unknown; or
    /// the directory was moved or replaced. Reads still work; reopen the database to write again.
    Poisoned,
    /// Bytes on disk are not what was written: restore a backup, or repair.
    Corruption,
    /// The file needs a newer or differently built flagstone: open it with that one. Or a cluster
    /// cannot do what was asked: the text says what to use instead.
    Unsupported,
    /// The cluster cannot be reached, or too few of its nodes: try again later. Nothing was
    /// written.
    Unavailable,
    /// A write to a cluster was not answered, and reading did not tell whether it happened: it may
    /// still. Read the document again before you decide.
    Unknown,
    /// The database was closed: open it again.
    Closed,
    /// This process was forked while its parent had a database open, and can use none: fork before
    /// the first open, or start a new program.
    Forked,
    /// The caller's [`interruptible`](crate::interrupt::interruptible) has ended the call.
    Interrupted,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidInput => "invalid input",
            Self::Busy => "busy",
            Self::Conflict => "conflict",
            Self::ConditionFailed => "condition failed",
            Self::Duplicate => "duplicate",
            Self::TooOld => "too old",
            Self::Io => "input/output error",
            Self::OutOfSpace => "out of disk space",
            Self::Poisoned => "poisoned",
            Self::Corruption => "corruption",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown outcome",
            Self::Closed => "closed",
            Self::Forked => "forked",
            Self::Interrupted => "interrupted",
        })
    }
}

/// The error of every flagstone call. A clone copies a pointer: one error is returned to all
/// members of a failed commit group.
///
/// ```
/// use flagstone_base::{Error, ErrorKind};
/// use std::path::Path;
/// fn size(path: &Path) -> flagstone_base::Result<u64> {
///     let found = std::fs::metadata(path).map_err(|error| Error::io("read", path, error));
///     found.map(|found| found.len()).map_err(|error| error.context("import"))
/// }
/// let error = size(Path::new("no/such.file")).unwrap_err();
/// assert_eq!((error.kind(), error.is_missing_file()), (ErrorKind::Io, true));
/// assert!(error.io_error().is_some());                        // the context keeps the cause
/// assert!(error.to_string().starts_with("import: cannot read no/such.file: "));
///
/// let damaged = Error::corruption("000007.sst", 4096, "expected an index");
/// assert_eq!(damaged.kind(), ErrorKind::Corruption);
/// assert_eq!(damaged.to_string(), "000007.sst, offset 4096: expected an index");
/// assert_eq!(Error::invalid("-1 items").kind(), Error::new(ErrorKind::InvalidInput, "").kind());
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    text: String,
    source: Option<std::io::Error>,
    detail: Option<Arc<dyn Any + Send + Sync>>,
}

impl Error {
    /// An error of `kind`. `text` says what happened, where, and what was expected.
    #[cold]
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self::of(kind, text.into(), None)
    }

    /// An InvalidInput error: the caller passed an argument that can never work.
    #[cold]
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, text)
    }

    /// The error `source` of the operating system when it was asked to do `doing` (for instance
    /// "open") on `path`: OutOfSpace for a full disk or quota, else Io.
    #[cold]
    pub fn io(doing: &str, path: &Path, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::OutOfSpace
            }
            _ => ErrorKind::Io,
        };
        let text = format!("cannot {doing} {}: {source}", path.display());
        Self::of(kind, text, Some(source))
    }

    /// A Corruption error: `file` does not hold at `offset` what was expected there.
    #[cold]
    pub fn corruption(file: impl fmt::Display, offset: u64, found: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corruption, format!("{file}, offset {offset}: {found}"))
    }

    /// The class of the error, which decides what the caller must do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The error of the operating system that caused this one, if any.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        self.0.source.as_ref()
    }

    /// Returns whether the cause is the operating system's "no such file".
    pub fn is_missing_file(&self) -> bool {
        self.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound)
    }

    /// The same error with the text `context: text`.
    #[cold]
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Self {
        let source = self.0.source.as_ref().map(copy_of);
        let text = format!("{context}: {}", self.0.text);
        let detail = self.0.detail.clone();
        Self(Arc::new(Inner { kind: self.0.kind, text, source, detail }))
    }

    /// The same error with what programs read of it, instead of its text.
    #[cold]
    #[doc(hidden)]
    #[must_use]
    pub fn with_detail<T: Any + Send + Sync>(self, detail: T) -> Self {
        let Inner { kind, text, source, .. } = Arc::unwrap_or_clone(self.0);
        Self(Arc::new(Inner { kind, text, source, detail: Some(Arc::new(detail)) }))
    }

    /// What [`Error::with_detail`] has added, if it is of this type.
    #[doc(hidden)]
    pub fn detail<T: Any>(&self) -> Option<&T> {
        self.0.detail.as_ref()?.downcast_ref()
    }

    #[cold]
    fn of(kind: ErrorKind, text: String, source: Option<std::io::Error>) -> Self {
        Self(Arc::new(Inner { kind, text, source, detail: None }))
    }
}

impl Clone for Inner {
    fn clone(&self) -> Self {
        let Self { kind, text, source, detail } = self;
        let (text, source) = (text.clone(), source.as_ref().map(copy_of));
        Self { kind: *kind, text, source, detail: detail.clone() }
    }
}

fn copy_of(error: &std::io::Error) -> std::io::Error {
    match error.raw_os_error() {
        Some(code) => std::io::Error::from_raw_os_error(code),
        None => std::io::Error::from(error.kind()),
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

    #[test]
    fn a_detail_stays_in_context_and_is_of_its_type() {
        let error = Error::new(ErrorKind::Duplicate, "taken").with_detail(7_u8).context("commit");
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Duplicate, "commit: taken")
        );
        assert_eq!((error.detail::<u8>(), error.detail::<u16>()), (Some(&7), None));
        assert_eq!(Error::invalid("x").detail::<u8>(), None);
    }
}
