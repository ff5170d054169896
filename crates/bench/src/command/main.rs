//! The program: arguments in, an exit code out.

use super::args::Arguments;
use super::failure::report;
use clap::Parser;
use std::process::ExitCode;

/// Runs the command that the arguments of the process name.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    allow_many_files();
    arguments.command.run().map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}

/// Raises the soft limit of open files to the hard limit: a database keeps its tables open.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _unchanged =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
