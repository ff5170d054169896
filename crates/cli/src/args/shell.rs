//! Arguments of the commands that help a shell: completions, man.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Print a script by which a shell completes commands, options and files
///
/// bash: flagstone completions bash > ~/.local/share/bash-completion/completions/flagstone
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write the pages of all commands
///
/// To read it: flagstone man | man -l -
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The directory for flagstone.1, flagstone-load.1 and so on; created if it is missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}
