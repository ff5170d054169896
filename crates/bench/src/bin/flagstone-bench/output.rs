//! Stdout and stderr; a reader that went away ends the command quietly.

use crate::failure::Failure;
use std::io::{ErrorKind, Write};

/// Writes `text` to stdout at once.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Io(format!("cannot write to stdout: {error}")),
    })
}

/// Writes a line to stderr. Errors are ignored: a closed stderr does not end a benchmark.
pub(crate) fn note(text: &str) {
    let _closed = writeln!(std::io::stderr(), "{text}");
}
