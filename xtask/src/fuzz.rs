//! `cargo xtask fuzz`: builds the fuzzer, optimised, with all assertions and with a
//! counter at every edge of the code, and runs it.

use crate::ci::cargo;
use std::path::Path;
use std::process::Command;

/// Makes LLVM count each edge in a byte. A stable compiler passes these flags on.
const COUNTERS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters";

/// Runs the fuzzer with the options `words`. Returns true if it found nothing.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let own = ["run", "--quiet", "--profile", "fuzz", "--package", "flagstone-fuzz"];
    let mut command = cargo(root);
    command.args(own).args(["--bin", "fuzz", "--target-dir", "target/fuzzer"]);
    // With a target, build scripts and macros are compiled without these flags.
    match host() {
        Some(host) => {
            command.args(["--target", &host]).env("RUSTFLAGS", COUNTERS);
        }
        None => eprintln!("rustc names no host: fuzzing without coverage"),
    }
    match command.arg("--").args(words).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            false
        }
    }
}

/// Returns the target triple of this machine.
pub(crate) fn host() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
}
