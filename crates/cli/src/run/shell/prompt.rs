//! The shell on a terminal: history, completion, lines that go on, the time of each command.

use super::complete;
use super::line;
use super::session::Session;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::path::PathBuf;
use std::time::Instant;

/// What the editor asks while a line is typed.
struct Prompt<'a>(&'a Session);

/// Reads and runs commands until Ctrl-D or `exit`. A command that fails does not end the shell.
pub(super) fn run(session: &Session) -> Result<(), Failure> {
    let failed = |error: ReadlineError| Failure::Io(format!("cannot read the terminal: {error}"));
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor: Editor<Prompt<'_>, FileHistory> =
        Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(Prompt(session)));
    let mut history = history_file();
    if let Some(history) = &history {
        // There is none before the first time.
        let _missing = editor.load_history(history);
        let _refused = history.parent().map(std::fs::create_dir_all);
    }
    output::note("help lists the commands, Ctrl-D ends");
    loop {
        let line = match session.waited(|| editor.readline("flagstone> "))? {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        let _kept = editor.add_history_entry(&line);
        if let Some(file) = &history
            && let Err(error) = editor.append_history(file)
        {
            output::note(&format!("the history is not kept: {error}"));
            history = None;
        }
        let Some(words) = line::words(&line) else { continue };
        let started = Instant::now();
        let ran = session.run(&words);
        interrupt::reset();
        match ran {
            Ok(false) => break,
            Ok(true) if words.is_empty() => {}
            Ok(true) => output::note(&format!("{:.1} ms", started.elapsed().as_secs_f64() * 1e3)),
            Err(failure) => drop(failure.report()),
        }
    }
    Ok(())
}

/// The file of the history: `flagstone/history` in the user's directory of states.
fn history_file() -> Option<PathBuf> {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let states = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(states.join("flagstone/history"))
}

impl Completer for Prompt<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _history: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete::candidates(line.get(..pos).unwrap_or(line), self.0))
    }
}

impl Validator for Prompt<'_> {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match line::words(typed.input()) {
            Some(_) => ValidationResult::Valid(None),
            None => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for Prompt<'_> {
    type Hint = String;
}

impl Highlighter for Prompt<'_> {}

impl Helper for Prompt<'_> {}
