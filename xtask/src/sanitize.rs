//! `cargo xtask miri` and `cargo xtask sanitize`: tests under the checkers of nightly compilers.
//!
//! Miri interprets, a hundred times slower, and nothing in C: it runs unit tests of unsafe code.
//! AddressSanitizer and ThreadSanitizer are compiled in, and run everything.

use std::path::Path;
use std::process::Command;

/// The packages with unsafe code that can be interpreted, and the unit tests of it.
const INTERPRETED: [(&str, &[&str]); 5] = [
    ("flagstone-doc", &["utf8::", "print::"]),
    ("flagstone-env", &["memory::heap", "memory::pages", "owned::", "sync::"]),
    ("flagstone-tree", &["arena::", "memtable::"]),
    ("flagstone-engine", &["partition::layout::"]),
    ("flagstone-arrow", &["hostile::", "import::", "interface::"]),
];

/// The packages of the tests that run under sanitizers. The threads of the last five share memory.
const PACKAGES: [&str; 9] = [
    "flagstone-doc",
    "flagstone-sst",
    "flagstone-load",
    "flagstone-testkit",
    "flagstone-env",
    "flagstone-wal",
    "flagstone-tree",
    "flagstone-engine",
    "flagstone",
];

/// Runs Miri over one package, or all. Returns true if it found nothing.
pub(crate) fn interpret(root: &Path, packages: &[&str]) -> bool {
    let is_asked = |name: &str| packages.is_empty() || packages.contains(&name);
    let mut asked = INTERPRETED.iter().filter(|(name, _)| is_asked(name)).peekable();
    asked.peek().is_some()
        && asked.all(|(name, tests)| {
            println!("miri {name}");
            let mut command = nightly(root);
            command.args(["miri", "test", "--locked", "--lib", "-p", name]);
            // Files and clocks of this machine.
            command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
            succeeds(command.arg("--").args(*tests))
        })
}

/// Runs the tests of the engine under a sanitizer; `words` are its name and arguments for cargo.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let (Some((kind @ ("address" | "thread"), words)), Some(host)) =
        (words.split_first().map(|(kind, words)| (*kind, words)), crate::fuzz::host())
    else {
        eprintln!("expected address or thread, and a rustc that names its host");
        return false;
    };
    let mut command = nightly(root);
    command.args(["test", "--locked", "--lib", "--tests", "--target", &host, "--target-dir"]);
    command.arg(format!("target/{kind}")).env("RUSTFLAGS", format!("-Zsanitizer={kind}"));
    // Of the standard library every access must be seen, or its locks order nothing.
    command.args((kind == "thread").then_some("-Zbuild-std"));
    let packages = if kind == "thread" { &PACKAGES[4..] } else { &PACKAGES };
    command.args(packages.iter().flat_map(|name| ["-p", name]));
    succeeds(command.args(words))
}

fn nightly(root: &Path) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).current_dir(root);
    command
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
