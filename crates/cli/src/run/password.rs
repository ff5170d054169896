//! Passwords: asked for at a terminal, without showing them, or read from stdin.

use super::open;
use crate::failure::Failure;
use console::Term;
use std::io::{BufRead, IsTerminal, Read};

/// More than a password may have.
const LINE_BYTES_MAX: u64 = 4096;
/// Where scripts put the password of a server, so that no list of processes shows it.
const VARIABLE: &str = "FLAGSTONE_PASSWORD";

fn failed(error: std::io::Error) -> Failure {
    Failure::Io(format!("cannot read the password: {error}"))
}

fn ask(text: &str) -> Result<String, Failure> {
    let terminal = Term::stderr();
    terminal.write_str(text).and_then(|()| terminal.read_secure_line()).map_err(failed)
}

/// Asks for the new password of a user: twice at a terminal.
pub(super) fn new_of(name: &str) -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        let password = ask(&format!("password of {name}: "))?;
        if ask("the same again: ")? != password {
            return Err(Failure::Usage("the passwords differ".to_owned()));
        }
        return Ok(password);
    }
    open::check_stdin("a password at a terminal")?;
    let mut line = String::new();
    std::io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line).map_err(failed)?;
    let len = line.trim_end_matches(['\r', '\n']).len();
    line.truncate(len);
    Ok(line)
}

/// Returns the password with which a user logs in: that of the environment, or of a terminal. Stdin
/// may be data.
pub(super) fn of(name: &str) -> Result<String, Failure> {
    if let Ok(password) = std::env::var(VARIABLE) {
        return Ok(password);
    }
    if std::io::stdin().is_terminal() {
        return ask(&format!("password of {name}: "));
    }
    Err(Failure::Usage(format!(
        "the URL has a user and no password: expected it in {VARIABLE}, or a terminal to ask at"
    )))
}
