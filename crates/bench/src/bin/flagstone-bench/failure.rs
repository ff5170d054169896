//! How a benchmark can fail, and the exit code of each: 0 done, 1 a check failed, 2 used wrongly, 3 input,
//! output or corruption.

use flagstone::{Error, ErrorKind};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A check found something wrong.
    Check(String),
    /// The arguments or the data given are wrong.
    Usage(String),
    /// A file of the user could not be read or written.
    Io(String),
    /// The database refused.
    Engine(Error),
    /// Nobody reads the output any more: as `flagstone-bench .. | head` does.
    OutputClosed,
}

impl Failure {
    /// The operating system refused `doing` on `path`.
    pub(crate) fn io(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::Io(format!("cannot {doing} {}: {error}", path.display()))
    }

    /// Says what happened on stderr and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (code, text) = match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::Check(text) => (1, text),
            Self::Usage(text) => (2, text),
            Self::Io(text) => (3, text),
            Self::Engine(error) => match error.kind() {
                ErrorKind::Conflict => (1, error.to_string()),
                ErrorKind::InvalidInput => (2, error.to_string()),
                kind => (3, format!("{kind}: {error}")),
            },
        };
        // A closed stderr leaves nobody to tell.
        let _closed = writeln!(std::io::stderr(), "flagstone-bench: {text}");
        ExitCode::from(code)
    }
}
