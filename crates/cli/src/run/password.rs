//! Passwords: asked for at a terminal, without showing them, or read from stdin.

use super::open;
use crate::failure::Failure;
#[cfg(unix)]
use crate::interrupt;
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
    let read = || terminal.write_str(text).and_then(|()| terminal.read_secure_line());
    restoring(read)?.map_err(failed)
}

/// Runs `ask`, which turns the echo of the terminal off. However it ends, the terminal is as it was
/// before: after a signal, too, and it cannot be suspended meanwhile.
#[cfg(unix)]
fn restoring<T>(ask: impl FnOnce() -> T) -> Result<T, Failure> {
    use rustix::termios::{OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
    /// No character.
    const DISABLED: u8 = if cfg!(target_os = "linux") { 0 } else { 0xFF };
    let Ok(before) = tcgetattr(std::io::stdin()) else { return Ok(ask()) };
    let mut meanwhile = before.clone();
    meanwhile.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
    let set = |how: &Termios| {
        // A terminal that is gone needs nothing.
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Now, how);
    };
    let undo = move || set(&before);
    interrupt::while_asking(undo, || {
        set(&meanwhile);
        ask()
    })
}

#[cfg(not(unix))]
fn restoring<T>(ask: impl FnOnce() -> T) -> Result<T, Failure> {
    Ok(ask())
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
