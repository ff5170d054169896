//! How a load can fail.

use flagstone::Error;
use std::fmt;
use std::path::Path;

/// Why a load could not be carried out, or ended before the end.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// What was given is wrong: a document, a file that cannot be used so. The text says where.
    Usage(String),
    /// A file could not be read or written, or a thread not be started.
    Io(String),
    /// The database refused.
    Engine(Error),
}

impl LoadError {
    /// The operating system refused `doing` on `path`.
    pub(crate) fn io(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::Io(format!("cannot {doing} {}: {error}", path.display()))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Io(text) => f.write_str(text),
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
