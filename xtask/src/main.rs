//! `cargo xtask COMMAND`: everything a developer or a continuous-integration job runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a tool for developers: what it prints is its result, and a panic is a report"
)]

mod ci;
mod deny;
mod examples;
mod fuzz;
mod peers;
mod programs;
mod shuttle;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  ci              everything that must hold before a change is merged, stopping at the
                  first failure: fmt, also of peers/, the lock file of peers/, deny (where it is
                  installed), tidy, clippy, tests, examples, shuttle (30 seconds), smoke (every
                  workload of flagstone-bench for a moment), sim (60 s), docs
  deny            licences, sources, advisories and double versions of outside crates, as
                  deny.toml allows them; needs cargo-deny, and says so where it is missing
  examples        runs each program of crates/flagstone/examples
  tidy [--long]   the rules of the house that the compiler does not check. Files of one
                  crate that need each other in a circle are refused, with a way around it;
                  old circles may not grow. --long lists what the files in old circles need
                  of each other, and the long files and functions; else they are only counted
  peers [--quick] [--without-rocksdb] [OPTIONS]
                  the workloads over flagstone, RocksDB, fjall, LMDB, redb and SQLite,
                  and their tables into docs/bench/peers.md and README.md; --quick: in
                  minutes; that, and a run of chosen cells or engines, prints only, unless
                  --write is given; OPTIONS as docs/bench/peers.md has them
  peers --lint    clippy over that program, without RocksDB
  shuttle [--seconds N] [--seed N] [--model NAME]
                  the models of concurrency (crates/flagstone/tests/models) under random
                  schedules, N seconds in all (60); a failing one prints how to repeat it
  sim [--seconds N | --hours N] [--seed S] [--threads N] [--only] [--trace]
                  the simulator: histories drawn from seeds on a disk in memory, with faults
                  and crashes, compared with what was promised; 60 s and a seed by chance
                  unless told; --only: the history of that seed alone; --trace: each step of
                  it. A failure prints its seed and the fewest steps that show it
  stress [--seconds N | --hours N] [--ends N] [--seed S] [--dir DIR]
                  a process works on a real database, is killed at some moment, and what is
                  left is compared with what it was told; again, for 60 s or so many kills
  powercut [--seconds N | --hours N] [--ends N] [--seed S] [--dir DIR]
                  the same on an ext4 in a file, which is shut down without flushing its log,
                  and at times runs full; needs root, and says so where it may not mount
  soak [--minutes N] [--ops N] [--live MIB] [--memory MIB] [--threads N] [--every SECONDS]
       [--dir DIR] [--csv FILE] [--seed S]
                  a process works on one database for 10 or N minutes, with reopens, and what is
                  alive keeps its size; a row a minute of what it takes: memory, threads,
                  descriptors, bytes on disk. Fails when the last third of the time took more
                  than the middle third, or more room than Options allow; --ops: a second
  memory [--case NAME] [--scale FACTOR] [--dir DIR]
                  databases with a budget of 64 MiB under loads that are hard on memory, each in a
                  process of its own: peaks against budget x 1.15 + 100 MiB. All cases take half
                  an hour and 30 GB of disk; --scale 0.1: a tenth of the data
  fuzz TARGET [--seconds N] [--seed S] | TARGET --replay FILE
                  hostile bytes for the reader of one format; without a target: the list
                  of them, and all options
  help            this text

Exit code: 0 all is well, 1 something is not, 2 the command is unknown.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match perform(&root(), &words) {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            eprintln!("unknown command: {}\n\n{HELP}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

/// Runs a command; `None` when there is none of that name, else whether all is well.
fn perform(root: &Path, words: &[&str]) -> Option<bool> {
    Some(match *words {
        ["ci"] => ci::run(root),
        ["tidy"] => tidy::run(root, false),
        ["tidy", "--long"] => tidy::run(root, true),
        ["deny"] => deny::run(root),
        ["examples"] => examples::run(root),
        ["shuttle", ref options @ ..] => shuttle::run(root, options),
        ["sim", ref options @ ..] => programs::run(root, &["simulate"], options),
        ["stress", ref options @ ..] => programs::run(root, &["stress", "kill"], options),
        ["powercut", ref options @ ..] => programs::run(root, &["stress", "power"], options),
        ["soak", ref options @ ..] => programs::run(root, &["stress", "soak"], options),
        ["memory", ref options @ ..] => programs::run(root, &["memory"], options),
        ["peers", ref options @ ..] => peers::run(root, options),
        ["fuzz", ref options @ ..] => fuzz::run(root, options),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            true
        }
        _ => return None,
    })
}

/// The folder of the workspace: the parent of this package's.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
