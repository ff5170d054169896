//! The output of commands, and their errors.
//!
//! Exit codes: 0 done, 1 a check failed, 2 used wrongly, 3 input, output or corruption.

use crate::engine::{EngineError, Outcome};
use flagstone::ErrorKind;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Turns a text about wrong arguments into an error.
pub(super) fn usage<T>(checked: Result<T, String>) -> Outcome<T> {
    checked.map_err(|text| flagstone::Error::invalid(text).into())
}

/// Says what the operating system refused to do with `path`.
pub(super) fn at(doing: &str, path: &Path, error: &io::Error) -> EngineError {
    io::Error::new(error.kind(), format!("cannot {doing} {}: {error}", path.display())).into()
}

/// Writes `text` to stdout at once. If the reader has closed its end, the command ends without a
/// message.
pub(super) fn print(text: &str) -> Outcome<()> {
    let mut stdout = io::stdout().lock();
    Ok(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())?)
}

/// Writes a line to stderr. Errors are ignored: a closed stderr does not end a benchmark.
pub(super) fn note(text: &str) {
    let _closed = writeln!(io::stderr(), "{text}");
}

/// Says why a command failed and returns its exit code.
pub(super) fn report(error: &EngineError) -> ExitCode {
    let io_kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let code = match error.downcast_ref::<flagstone::Error>().map(flagstone::Error::kind) {
        Some(ErrorKind::Conflict) => 1,
        Some(ErrorKind::InvalidInput) => 2,
        Some(_) => 3,
        None if io_kind == Some(io::ErrorKind::BrokenPipe) => return ExitCode::SUCCESS,
        None if io_kind.is_some() => 3,
        None => 1,
    };
    note(&format!("flagstone-bench: {error}"));
    ExitCode::from(code)
}
