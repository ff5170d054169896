//! The programs of the test kit: `cargo xtask sim` and the like build them and pass their options on.

use crate::ci::cargo;
use std::path::Path;

/// Builds a program with its assertions, optimised, and runs it with its first words and `options`; true when it
/// found nothing wrong.
pub(crate) fn run(root: &Path, program: &[&str], options: &[&str]) -> bool {
    let Some((name, first)) = program.split_first() else { return false };
    let mut command = cargo(root);
    command.args(words(name)).arg("--").args(first).args(options);
    command.status().is_ok_and(|status| status.success())
}

/// What cargo is told to run `program`.
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
