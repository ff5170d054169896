//! Asks on a terminal before much is removed or changed. Without a terminal, as in a script,
//! nothing is asked: the command is carried out. Who types is asked, wherever stderr goes.

use super::open;
use super::source::{Documents, Query};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, note};
use crate::units::{counted, grouped};
use std::fs::File;
use std::io::{self, IsTerminal, Write, stderr, stdin};

/// The terminal at which the answer is typed.
fn terminal() -> io::Result<File> {
    #[cfg(unix)]
    return std::os::fd::AsFd::as_fd(&stdin()).try_clone_to_owned().map(File::from);
    #[cfg(windows)]
    return File::options().write(true).open("CONOUT$");
}

/// Returns whether there is somebody to ask.
fn is_terminal() -> bool {
    stdin().is_terminal()
}

/// Asks whether a filter that matches all documents is meant, unless `yes` says so. `text` is the
/// filter.
pub(super) fn all(
    yes: bool,
    documents: &dyn Documents,
    text: &str,
    what: &str,
) -> Result<(), Failure> {
    if yes || !is_terminal() {
        return Ok(());
    }
    // The first document that does not match ends the search.
    let others = format!("{{\"$nor\":[{text}]}}");
    open::filter(&others)?;
    if documents.find(&Query { limit: Some(1), ..Query::of(&others) })?.advance()? {
        return Ok(());
    }
    let all = match documents.count(None)? {
        0 => return Ok(()),
        1 => "the only document".to_owned(),
        count => format!("all {} documents", grouped(count)),
    };
    ask(&format!("the filter matches {all} of {}: {what}?", documents.name()))
}

/// Asks whether a collection is meant to go, unless `yes` says so.
pub(super) fn drop_one(yes: bool, documents: &dyn Documents) -> Result<(), Failure> {
    if yes || !is_terminal() {
        return Ok(());
    }
    let about = counted(documents.about()?, "document");
    let indexes = match documents.index_names()?.len() as u64 {
        0 => String::new(),
        1 => " and its index".to_owned(),
        count => format!(" and its {} indexes", grouped(count)),
    };
    ask(&format!("drop {} with about {about}{indexes}?", documents.name()))
}

/// Asks a question. Everything but y and yes ends the command.
fn ask(question: &str) -> Result<(), Failure> {
    let question = format!("{question} [y/N] ");
    if stderr().is_terminal() {
        output::write_note(&question);
    } else {
        terminal().and_then(|mut at| at.write_all(question.as_bytes())).map_err(|error| {
            let text = format!("cannot ask: {error}; --yes does it without a question");
            Failure::Check(text)
        })?;
    }
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    read.map_err(|error| Failure::Io(format!("cannot read the answer: {error}")))?;
    interrupt::check()?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => {
            if !answer.ends_with('\n') {
                note("");
            }
            Err(Failure::Check("nothing was done; --yes does it without a question".to_owned()))
        }
    }
}
