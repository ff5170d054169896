//! Stdout, buffered; a reader that went away ends the command quietly.

use crate::failure::Failure;
use flagstone::doc::{JsonMode, json};
use flagstone::{Value, View};
use std::cell::RefCell;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Set when nobody waits any more for the command that this thread runs.
    static SILENCE: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Lets this thread print nothing once `flag` is set.
pub(crate) fn silence_with(flag: Arc<AtomicBool>) {
    SILENCE.set(Some(flag));
}

/// Returns whether this thread must print nothing, because its command was given up.
pub(crate) fn is_silent() -> bool {
    let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Acquire);
    SILENCE.with_borrow(|flag| flag.as_ref().is_some_and(is_set))
}

/// The buffer of stdout.
pub(crate) struct Output {
    buffer: Vec<u8>,
    mode: JsonMode,
}

/// The size at which the buffer is written out.
const BUFFER_BYTES: usize = 64 << 10;

impl Output {
    pub(crate) const fn new() -> Self {
        Self::in_mode(JsonMode::Plain)
    }

    /// Returns one that writes documents and keys in this mode.
    pub(crate) const fn in_mode(mode: JsonMode) -> Self {
        Self { buffer: Vec::new(), mode }
    }

    /// Writes a line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.buffer.extend_from_slice(text.as_bytes());
        self.end_line()
    }

    /// Writes a view of a document as a line of JSON.
    pub(crate) fn view(&mut self, document: &View<'_>) -> Result<(), Failure> {
        self.put_view(document)?;
        self.end_line()
    }

    /// Writes a document and its key as a line of JSON: `{"key":..,"document":..}`.
    pub(crate) fn entry(&mut self, key: &Value, document: &View<'_>) -> Result<(), Failure> {
        self.buffer.extend_from_slice(b"{\"key\":");
        self.put_value(key);
        self.buffer.extend_from_slice(b",\"document\":");
        self.put_view(document)?;
        self.buffer.push(b'}');
        self.end_line()
    }

    /// Writes whole lines that `append` appends.
    pub(crate) fn append(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        append(&mut self.buffer)?;
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes a line of JSON that `append` appends.
    pub(crate) fn json(
        &mut self,
        append: impl FnOnce(JsonMode, &mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        append(self.mode, &mut self.buffer)?;
        self.end_line()
    }

    /// Writes a key on a line: text as plain text, other keys as JSON; with `json` all keys as
    /// JSON.
    pub(crate) fn key(&mut self, key: &Value, json: bool) -> Result<(), Failure> {
        match key.as_str() {
            Some(text) if !json => self.line(text),
            _ => self.value(key),
        }
    }

    /// Writes a value on a line, as JSON.
    pub(crate) fn value(&mut self, value: &Value) -> Result<(), Failure> {
        self.put_value(value);
        self.end_line()
    }

    fn put_view(&mut self, document: &View<'_>) -> Result<(), Failure> {
        Ok(json::append_json_as(document, self.mode, &mut self.buffer)?)
    }

    fn put_value(&mut self, value: &Value) {
        json::append_value_json_as(value, self.mode, &mut self.buffer);
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        self.buffer.push(b'\n');
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes out the buffer.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let written = write_all(&self.buffer);
        self.buffer.clear();
        written
    }
}

/// Writes out whole lines, also of a command that failed.
impl Drop for Output {
    fn drop(&mut self) {
        let whole = self.buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole > 0 {
            let _closed = write_all(&self.buffer[..whole]);
        }
    }
}

/// Writes `bytes` to stdout at once.
pub(crate) fn write_all(bytes: &[u8]) -> Result<(), Failure> {
    if is_silent() {
        return Err(Failure::Interrupted("stopped before the end".to_owned()));
    }
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| stdout_failed(&error))
}

/// Writes what the parser of arguments says: an error to stderr, or help to stdout. Returns the
/// exit code.
pub(crate) fn explain(answer: &clap::Error) -> ExitCode {
    let written = answer.print().and_then(|()| std::io::stdout().flush());
    match written {
        Err(error) if !answer.use_stderr() => stdout_failed(&error).report(),
        _ => ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2)),
    }
}

/// Returns the failure of writing to stdout.
fn stdout_failed(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Io(format!("cannot write to stdout: {error}")),
    }
}

/// Writes a line to stderr. Errors are ignored.
pub(crate) fn note(text: &str) {
    write_note(&format!("{text}\n"));
}

/// Writes text to stderr. Errors are ignored.
pub(crate) fn write_note(text: &str) {
    if is_silent() {
        return;
    }
    let mut stderr = std::io::stderr();
    let _closed = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
