//! The progress of a load: a bar on stderr, or one line of JSON a second on stdout.

use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::units::{grouped, per_second, show_bytes};
use flagstone_load::{Count, Watcher};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::IsTerminal;
use std::time::Duration;

/// Shows the progress of a load.
pub(crate) enum Progress {
    /// Shows nothing.
    None,
    /// A bar, created when the load starts.
    Bar(Option<ProgressBar>),
    /// Lines of JSON.
    Json {
        /// The bytes of all inputs, if known.
        input_bytes_total: Option<u64>,
        /// When the next line is due.
        next: Duration,
    },
}

const SECOND: Duration = Duration::from_secs(1);
const WITH_END: &str =
    "{bar:30} {percent:>3}%  {decimal_bytes} of {decimal_total_bytes}  {msg}  ETA {eta}";
const WITHOUT_END: &str = "{spinner} {decimal_bytes}  {msg}";

impl Progress {
    /// Lines of JSON.
    pub(crate) const fn json() -> Self {
        Self::Json { input_bytes_total: None, next: SECOND }
    }

    /// A bar if stderr is a terminal.
    pub(crate) fn on_terminal() -> Self {
        if std::io::stderr().is_terminal() { Self::Bar(None) } else { Self::None }
    }

    fn line(&mut self, took: Duration, count: Count, is_done: bool) {
        let Self::Json { input_bytes_total, .. } = self else { return };
        let line = json!({
            "seconds": (took.as_secs_f64() * 1000.0).round() / 1000.0,
            "documents": count.documents,
            "bad_documents": count.bad,
            "existing_documents": count.existing,
            "json_bytes": count.json_bytes,
            "input_bytes": count.input_bytes,
            "input_bytes_total": input_bytes_total,
            "documents_per_second": per_second(count.documents, took),
            "json_bytes_per_second": per_second(count.json_bytes, took),
            "done": is_done,
        });
        if let Err(failure) = output::write_all(format!("{line}\n").as_bytes()) {
            // Progress that cannot be written does not end the load.
            if let Failure::Io(why) = failure {
                output::note(&format!("progress ends: {why}"));
            }
            *self = Self::None;
        }
    }
}

impl Watcher for Progress {
    fn start(&mut self, input_bytes: Option<u64>) {
        match self {
            Self::None => {}
            Self::Json { input_bytes_total, .. } => *input_bytes_total = input_bytes,
            Self::Bar(bar) => {
                let new = input_bytes.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
                let template = if input_bytes.is_some() { WITH_END } else { WITHOUT_END };
                let style = ProgressStyle::with_template(template);
                *bar = Some(style.into_iter().fold(new, ProgressBar::with_style));
            }
        }
    }

    fn tick(&mut self, took: Duration, count: Count) {
        match self {
            Self::None | Self::Bar(None) => {}
            Self::Bar(Some(bar)) => {
                bar.set_message(rates(took, count));
                bar.set_position(count.input_bytes);
            }
            Self::Json { next, .. } if took < *next => {}
            Self::Json { next, .. } => {
                *next += SECOND;
                let is_done = false;
                self.line(took, count, is_done);
            }
        }
    }

    fn end(&mut self, took: Duration, count: Count) {
        match self {
            Self::Bar(Some(bar)) => bar.finish_and_clear(),
            Self::Json { .. } => {
                let is_done = true;
                self.line(took, count, is_done);
            }
            _ => {}
        }
    }

    fn stops(&self) -> bool {
        interrupt::is_asked()
    }
}

/// `123,456 documents/s, 156 MB/s`. The bytes are those of JSON.
pub(crate) fn rates(took: Duration, count: Count) -> String {
    let documents = grouped(per_second(count.documents, took));
    if count.json_bytes == 0 {
        return format!("{documents} documents/s");
    }
    let bytes = show_bytes(per_second(count.json_bytes, took));
    format!("{documents} documents/s, {bytes}/s")
}
