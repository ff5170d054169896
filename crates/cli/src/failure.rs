//! How a command can fail, and the exit code of each: 0 done, 1 not found or not as required, 2
//! used wrongly, 3 input or output failed, 4 damaged data, 130 interrupted.

use flagstone::doc::Malformed;
use flagstone::{Error, ErrorKind, Value};
use flagstone_load::LoadError;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A document, collection or index does not exist. A missing database is an error of opening.
    NotFound(String),
    /// Something is not as the command requires, or as its user confirms.
    Check(String),
    /// Bytes of a database or a backup are not what was written.
    Damage(String),
    /// The arguments or the data given are wrong.
    Usage(String),
    /// A file of the user could not be read or written.
    Io(String),
    /// The server that has the database open is gone.
    #[cfg(all(feature = "server", unix))]
    Lost(String),
    /// The database refused.
    Engine(Error),
    /// Ctrl-C; the text says how far the command came.
    Interrupted(String),
    /// The reader of stdout is gone, as with `flagstone scan .. | head`.
    OutputClosed,
}

impl Failure {
    /// The operating system refused `doing` on `path`.
    pub(crate) fn io(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::Io(format!("cannot {doing} {}: {error}", path.display()))
    }

    /// Names the document whose reading or writing failed.
    pub(crate) fn of_document(self, key: &Value) -> Self {
        let named = |text: String| format!("document {key}: {text}");
        match self {
            Self::Check(text) => Self::Check(named(text)),
            Self::Usage(text) => Self::Usage(named(text)),
            Self::Engine(error) => Self::Engine(error.context(format!("document {key}"))),
            other => other,
        }
    }

    /// Prints what happened to stderr and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (code, text) = self.parts();
        if text.is_empty() {
            return ExitCode::SUCCESS;
        }
        // A closed stderr is ignored.
        let _closed = writeln!(std::io::stderr(), "flagstone: {text}");
        ExitCode::from(code)
    }

    /// Returns the exit code and the text, which is empty if the reader of stdout is gone.
    pub(crate) fn parts(self) -> (u8, String) {
        match self {
            Self::OutputClosed => (0, String::new()),
            Self::NotFound(text) | Self::Check(text) => (1, text),
            Self::Usage(text) => (2, text),
            Self::Io(text) => (3, text),
            #[cfg(all(feature = "server", unix))]
            Self::Lost(text) => (3, text),
            Self::Damage(text) => (4, text),
            Self::Interrupted(text) => (130, text),
            Self::Engine(error) => match error.kind() {
                ErrorKind::Conflict
                | ErrorKind::ConditionFailed
                | ErrorKind::Duplicate
                | ErrorKind::TooOld => (1, error.to_string()),
                ErrorKind::InvalidInput => (2, error.to_string()),
                ErrorKind::Corruption => (4, format!("corruption: {error}")),
                ErrorKind::Interrupted => (130, "stopped before the end".to_owned()),
                kind => (3, format!("{kind}: {error}")),
            },
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Usage(text) => Self::Usage(text),
            LoadError::Exists(text) => Self::Check(text),
            LoadError::Engine(error) => Self::Engine(error),
            other => Self::Io(other.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        let text = format!("a document that was read: {malformed}");
        Self::Engine(Error::new(ErrorKind::Corruption, text))
    }
}
