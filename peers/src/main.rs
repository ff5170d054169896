//! Runs the workloads of flagstone over other engines; see `flagstone-peers help`.

mod args;
mod cells;
mod child;
mod engines;
mod plan;
mod report;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = match args::parse(&words) {
        Ok(command) => command,
        Err(wrong) => {
            eprintln!("{wrong}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    let done = match command {
        args::Command::Help => {
            println!("{}", args::HELP);
            Ok(true)
        }
        args::Command::List => {
            args::list();
            Ok(true)
        }
        args::Command::Run(options) => plan::run(&options),
        args::Command::Child(options) => child::run(&options).map(|()| true),
        args::Command::Table(dir) => report::print(&dir).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("flagstone-peers: {error}");
            ExitCode::FAILURE
        }
    }
}
