//! The command-line tool of flagstone: data on stdout, everything else on stderr.
//!
//! Modules are listed from the ground up. Exit codes: see [`failure`].

#![allow(clippy::print_stdout, reason = "a command-line tool prints")]

mod failure;
mod interrupt;
mod output;
mod units;

mod progress;

mod args;
mod run;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse();
    allow_many_files();
    match run::run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Raises the soft limit of open files to the hard limit: a database keeps its tables open.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _as_it_was =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
