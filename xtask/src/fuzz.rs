//! `cargo xtask fuzz`: builds the fuzzer of the testkit, optimised, with all assertions and with counters at every edge of
//! the code, and runs it.

use crate::ci::cargo;
use std::path::Path;
use std::process::Command;

/// LLVM counts each edge in a byte; a stable compiler passes this on.
const COUNTERS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters";

/// Runs it with `words`; true when nothing was found.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let own = ["run", "--quiet", "--profile", "fuzz", "--package", "flagstone-testkit"];
    let mut command = cargo(root);
    command.args(own).args(["--bin", "fuzz", "--target-dir", "target/fuzzer"]);
    // With a target, programs that run while building are not compiled with these flags.
    match host() {
        Some(host) => {
            command.args(["--target", &host]).env("RUSTFLAGS", COUNTERS);
        }
        None => eprintln!("no host known of rustc: fuzzing without coverage"),
    }
    match command.arg("--").args(words).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            false
        }
    }
}

/// The target that this machine is.
fn host() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
}
