//! Runs the programs of the testkit for `cargo xtask sim`, `stress`, `soak`, `memory` and
//! `fixtures`.

use crate::ci::cargo;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the programs as `cargo test --workspace` does: integration tests need those of their
/// crate.
pub(crate) const TEST_BUILD: [&str; 7] =
    ["test", "--locked", "--quiet", "--workspace", "--no-run", "--test", "it"];

/// Builds a program, optimised and with assertions, and runs it with `options`. `program` is its
/// name and the arguments before the options. Returns true if it succeeded.
pub(crate) fn run(root: &Path, program: &[&str], options: &[&str]) -> bool {
    let Some((name, first)) = program.split_first() else { return false };
    let mut command = cargo(root);
    command.args(words(name)).arg("--").args(first).args(options);
    command.status().is_ok_and(|status| status.success())
}

/// Runs the simulator. With `--test-build` among the options it is the one that the tests have
/// built: so `cargo xtask ci` need not compile everything once more.
pub(crate) fn simulate(root: &Path, options: &[&str]) -> bool {
    let own: Vec<&str> =
        options.iter().copied().filter(|option| *option != "--test-build").collect();
    if own.len() == options.len() {
        return run(root, &["simulate"], options);
    }
    if !cargo(root).args(TEST_BUILD).status().is_ok_and(|status| status.success()) {
        return false;
    }
    let program = match built("simulate") {
        Ok(program) => program,
        Err(error) => {
            println!("cannot find the folder of built programs: {error}");
            return false;
        }
    };
    match Command::new(&program).current_dir(root).args(own).status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cannot run {}: {error}", program.display());
            false
        }
    }
}

/// Returns the path of what a build for tests has made of this name. This program is built with the
/// same profile into the same folder.
pub(crate) fn built(name: &str) -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

/// Adds fixtures of today's format: those of these names, and those that are not there yet. Takes
/// the build of the tests, since they are small.
pub(crate) fn add_fixtures(root: &Path, names: &[&str]) -> bool {
    let words = ["run", "--locked", "-q", "-p", "flagstone-testkit", "--bin", "fixtures", "--"];
    let mut command = cargo(root);
    command.args(words).arg(root.join("fixtures")).args(names);
    command.status().is_ok_and(|status| status.success())
}

/// Returns the arguments with which cargo runs `program`.
pub(crate) fn words(program: &str) -> [&str; 9] {
    [
        "run",
        "--locked",
        "--quiet",
        "--profile",
        "sim",
        "--package",
        "flagstone-testkit",
        "--bin",
        program,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_with_assertions() {
        assert_eq!(words("simulate")[3..5], ["--profile", "sim"]);
        assert_eq!(words("simulate")[8], "simulate");
    }
}
