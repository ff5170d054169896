//! The errors of a load.

use flagstone::Error;
use std::fmt;
use std::path::Path;

/// Why a load could not start, or ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The input or the arguments are wrong: a bad document, or a file that cannot be used. The
    /// text says where.
    Usage(String),
    /// The key of a document, or its value in a unique index, exists, and the load was to stop
    /// there. The text says where.
    Exists(String),
    /// A file could not be read or written, or a thread could not be started.
    Io(String),
    /// The database returned an error.
    Engine(Error),
}

impl LoadError {
    /// Returns the error of a thread whose work nobody waits for any more.
    pub(crate) fn gone() -> Self {
        Self::Io("another thread has ended".to_owned())
    }

    /// Returns the error of an operation `doing` on `path` that the system refused.
    pub(crate) fn io(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::Io(format!("cannot {doing} {}: {error}", path.display()))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Exists(text) | Self::Io(text) => f.write_str(text),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}
