//! Writes of all documents that match a filter, in parts: Ctrl-C ends after one of them.

use super::source::{Documents, Written};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::units::{counted, grouped};
use flagstone::Value;
use flagstone::query::Changed;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// How many documents are one part.
const PART: u64 = 10_000;

/// Runs a write and says what it has done: `7 documents removed`.
pub(super) fn run(
    documents: &dyn Documents,
    written: &Written<'_>,
    done: &str,
) -> Result<(), Failure> {
    interrupt::listen()?;
    let spinner = spinner();
    let (sum, ended) = run_parts(documents, written, |sum| {
        if let Some(spinner) = &spinner {
            spinner.set_message(format!("{} {done}", counted(sum.modified, "document")));
        }
    });
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    let unchanged = match sum.matched - sum.modified - sum.refused {
        0 => String::new(),
        same => format!(", {} more match and stay as they are", grouped(same)),
    };
    let refused = match sum.refused {
        0 => String::new(),
        refused => format!(", to {} the change does not apply", counted(refused, "document")),
    };
    let why = sum.first_refusal.as_ref().map_or_else(String::new, |why| format!("; first: {why}"));
    let inserted = match &ended {
        Ok(Some(key)) => format!("; 1 inserted, with the key {key}"),
        _ => String::new(),
    };
    // What is wrong from the start is not a result.
    if sum.matched > 0 || ended.is_ok() {
        let changed = counted(sum.modified, "document");
        note(&format!("{changed} {done}{unchanged}{refused}{why}{inserted}"));
    }
    ended.map(drop)
}

/// Returns what was done, and the key of a document that was inserted, or why it ended early.
fn run_parts(
    documents: &dyn Documents,
    written: &Written<'_>,
    watch: impl Fn(&Changed),
) -> (Changed, Result<Option<Value>, Failure>) {
    let mut sum = Changed::default();
    loop {
        let part = documents.write_some(written, PART, &mut sum);
        watch(&sum);
        if part.is_err() || sum.next.is_none() {
            return (sum, part);
        }
        if let Err(stopped) = interrupt::check() {
            return (sum, Err(stopped));
        }
    }
}

/// A spinner, if stderr is a terminal.
fn spinner() -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let spinner = ProgressBar::new_spinner();
        spinner.enable_steady_tick(Duration::from_millis(100));
        let style = ProgressStyle::with_template("{spinner} {msg}");
        style.into_iter().fold(spinner, ProgressBar::with_style)
    })
}
