//! `shell`: commands on one database, which stays open between them.

mod line;

mod complete;

mod prompt;

mod session;

use super::open;
use crate::args::{Command, MemoryArgs, ShellArgs};
use crate::failure::Failure;
use crate::{interrupt, output};
use std::io::{BufRead, IsTerminal};

/// Runs the shell. `run` runs a command of the tool.
pub(super) fn run(
    args: &ShellArgs,
    run: fn(Command) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let database = if args.read_only {
        open::to_read(&args.database, MemoryArgs { memory: args.memory })?
    } else {
        open::to_write(&args.database, args.memory)?
    };
    open::hold(&args.database, &database);
    interrupt::listen()?;
    let is_terminal = std::io::stdin().is_terminal();
    let is_prompt = is_terminal && std::io::stdout().is_terminal();
    let session = session::Session::new(&args.database, &database, run, is_prompt);
    let ended = if is_terminal { prompt::run(&session) } else { script(&session) };
    // Closed in any case, so that the next command has nothing to replay.
    let closed = database.close();
    ended.and(Ok(closed?))
}

/// Runs the commands on stdin. The first that fails ends the script.
fn script(session: &session::Session) -> Result<(), Failure> {
    let mut text = String::new();
    let mut lines = std::io::stdin().lock().lines();
    for number in 0.. {
        let Some(line) = session.waited(|| lines.next())? else { break };
        let line = line.map_err(|error| Failure::Io(format!("cannot read stdin: {error}")))?;
        // Some editors begin a file with a byte order mark.
        let mark = if number == 0 { "\u{feff}" } else { "" };
        text.push_str(line.strip_prefix(mark).unwrap_or(&line));
        text.push('\n');
        let Some(words) = line::words(&text) else { continue };
        text.clear();
        if !session.run(&words)? {
            return Ok(());
        }
    }
    if text.trim().is_empty() {
        return Ok(());
    }
    output::note(text.trim_end());
    Err(Failure::Usage("expected the end of this command: a quote or a bracket is open".into()))
}
