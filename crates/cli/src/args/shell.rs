//! Arguments of shell, and of the commands that help shells: completions, man.

use clap::{Args, ValueHint};
use flagstone::admin::parse_bytes;
use std::path::PathBuf;

/// Print a script by which a shell completes commands, options and files
///
/// bash: flagstone completions bash > ~/.local/share/bash-completion/completions/flagstone
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Run commands on one database, which stays open between them
///
/// Commands are those of the tool, without the name of the database. On a terminal there is a
/// history (in flagstone/history of $XDG_STATE_HOME or ~/.local/state), completion of commands,
/// options, collections and paths, lines that go on while a quote or a bracket is open, and the
/// time of each command; find prints 20 documents, and it the next ones. Commands on stdin end at
/// the first that fails, with its exit code.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("that of a command on stdin"))]
pub(crate) struct ShellArgs {
    /// The directory of the database, which must exist
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// Open for reading only: others may read at the same time
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The memory budget, as in 512MiB [default: a quarter of the machine's, 64 MiB to 4 GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
}

/// Print the manual page, or write the pages of all commands
///
/// To read it: flagstone man | man -l -
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct ManArgs {
    /// The directory for flagstone.1, flagstone-load.1 and so on; created if it is missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}
