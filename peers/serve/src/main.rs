//! Loads a server for MongoDB drivers over many connections, and prints what it took as one line of
//! JSON. `cargo xtask serve-bench` runs it.

mod args;
mod bodies;
mod clock;
mod connection;
mod idle;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = match args::parse(&words) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    let done = match options.work {
        args::Work::Idle => idle::run(&options),
        args::Work::Commands(work) => run::run(&options, work),
    };
    match done {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flagstone-peers-serve: {error}");
            ExitCode::FAILURE
        }
    }
}
