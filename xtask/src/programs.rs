//! Runs the programs of the testkit for `cargo xtask sim`, `stress`, `soak`, `memory` and
//! `fixtures`.

use crate::ci::cargo;
use std::path::Path;

/// Builds a program, optimised and with assertions, and runs it with `options`. `program` is its
/// name and the arguments before the options. Returns true if it succeeded.
pub(crate) fn run(root: &Path, program: &[&str], options: &[&str]) -> bool {
    let Some((name, first)) = program.split_first() else { return false };
    let mut command = cargo(root);
    command.args(words(name)).arg("--").args(first).args(options);
    command.status().is_ok_and(|status| status.success())
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
