//! The log: a line an event, as text or JSON.

use flagstone::Value;
use flagstone::doc::DateTime;
use std::fmt::{self, Write as _};
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// `2026-11-29T09:00:00.123456Z info connection opened id=7 peer=127.0.0.1:53412`
    Text,
    /// `{"time":"2026-11-29T09:00:00.123456Z","level":"info","event":"ready"}`
    Json,
}

/// Writes a line for each event. A line that cannot be written is lost, and nothing else.
pub struct Log {
    form: LogForm,
    out: Mutex<Box<dyn Write + Send>>,
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Info,
    Warning,
}

impl Log {
    /// Creates a log that writes to `out`.
    pub fn new(form: LogForm, out: impl Write + Send + 'static) -> Self {
        Self { form, out: Mutex::new(Box::new(out)) }
    }

    /// Writes an event with its fields.
    ///
    /// ```
    /// use flagstone_server::net::{Log, LogForm};
    /// let log = Log::new(LogForm::Json, std::io::stderr());
    /// log.info("ready", &[("database", "shop.db".into()), ("users", 3.into())]);
    /// ```
    pub fn info(&self, event: &str, fields: &[(&str, Value)]) {
        self.write(Level::Info, event, fields);
    }

    /// Writes an event that somebody should look at.
    pub fn warn(&self, event: &str, fields: &[(&str, Value)]) {
        self.write(Level::Warning, event, fields);
    }

    pub(super) fn write(&self, level: Level, event: &str, fields: &[(&str, Value)]) {
        let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = DateTime::from_micros(i64::try_from(micros.as_micros()).unwrap_or(i64::MAX));
        let level = match level {
            Level::Info => "info",
            Level::Warning => "warning",
        };
        let mut line = String::new();
        // Writing to a string does not fail.
        let _always = match self.form {
            LogForm::Text => put_text(&mut line, time, level, event, fields),
            LogForm::Json => put_json(&mut line, time, level, event, fields),
        };
        line.push('\n');
        let _lost =
            self.out.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

fn put_text(
    line: &mut String,
    time: DateTime,
    level: &str,
    event: &str,
    fields: &[(&str, Value)],
) -> fmt::Result {
    write!(line, "{time} {level} {event}")?;
    for (name, value) in fields {
        match value {
            // What is no plain word is written as JSON, so that a line stays one.
            Value::Text(text) if !text.is_empty() && text.bytes().all(is_plain) => {
                write!(line, " {name}={text}")?;
            }
            value => write!(line, " {name}={value}")?,
        }
    }
    Ok(())
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\')
}

fn put_json(
    line: &mut String,
    time: DateTime,
    level: &str,
    event: &str,
    fields: &[(&str, Value)],
) -> fmt::Result {
    write!(line, r#"{{"time":"{time}","level":"{level}","event":{}"#, Value::from(event))?;
    for (name, value) in fields {
        write!(line, ",{}:{value}", Value::from(*name))?;
    }
    line.write_char('}')
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({:?})", self.form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_whatever_a_client_sends() {
        let fields =
            [("id", Value::from(7)), ("why", "a \"b\"\n{".into()), ("peer", "[::1]:9".into())];
        let (mut text, mut json) = (String::new(), String::new());
        let time = DateTime::from_micros(1);
        put_text(&mut text, time, "info", "closed", &fields).unwrap();
        assert_eq!(
            text,
            r#"1970-01-01T00:00:00.000001Z info closed id=7 why="a \"b\"\n{" peer=[::1]:9"#
        );
        put_json(&mut json, time, "info", "closed", &fields).unwrap();
        let document = flagstone::Document::from_json(&json).unwrap();
        assert_eq!(document.str("why"), Some("a \"b\"\n{"));
        assert_eq!((document.int("id"), document.str("event")), (Some(7), Some("closed")));
    }
}
