//! The command-line tool of flagstone: data on stdout, everything else on stderr.
//!
//! Modules are listed from the ground up. Exit codes: see [`failure`].

#![allow(clippy::print_stdout, reason = "a command-line tool prints")]

mod failure;
mod output;
mod pretty;
mod units;

mod grid;
mod interrupt;

mod progress;

mod args;
mod run;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(answer) => return output::explain(&answer),
    };
    flagstone::internal::env::os::allow_many_files();
    match run::run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
