//! `cargo xtask quick`: the checks that find most in a minute, of the crates that were changed,
//! but for the longest tests.

use crate::ci::{cargo, with_test_threads};
use crate::{shuttle, tidy};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Modules of tests that take two thirds of the time of all: each tries every place of a fault, or
/// thousands of random cases. `ci` runs them.
const LONG: [&str; 7] = [
    "matrix::",
    "crashes::",
    "faults::",
    "queries::sets::",
    "queries::random::",
    "invariants::anchors::",
    "indexes::edges::",
];

/// Returns true if formatting, tidy, clippy and the tests of the changed crates succeeded; if the
/// models of concurrency were changed, they are checked, too.
pub(crate) fn run(root: &Path) -> bool {
    let Some(changed) = changed(root) else {
        eprintln!("git cannot compare this checkout with branch main");
        return false;
    };
    let crates = packages(&changed);
    let flags: Vec<&str> = crates.iter().flat_map(|name| ["-p", name.as_str()]).collect();
    println!("changed: {}", if crates.is_empty() { "no crate".into() } else { shown(&crates) });
    let does = |words: &[&str], flags: &[&str], end: &[&str]| {
        let mut command = cargo(root);
        command.args(words).args(flags).args(end);
        with_test_threads(&mut command).status().is_ok_and(|status| status.success())
    };
    let skips: Vec<&str> = LONG.iter().flat_map(|module| ["--skip", module]).collect();
    let skips = [&["--"], &skips[..]].concat();
    let is_tidy = does(&["fmt", "--all"], &[], &["--", "--check"]) && tidy::run(root);
    let lint = ["clippy", "--locked", "-q", "--all-targets"];
    let test = ["test", "--locked", "-q", "--lib", "--bins", "--tests"];
    is_tidy
        && (crates.is_empty()
            || does(&lint, &flags, &["--", "-D", "warnings"]) && does(&test, &flags, &skips))
        && (!changed.lines().any(shuttle::may_break_models) || does(&shuttle::LINT, &[], &[]))
}

/// Returns the files that differ from the last common commit with main.
fn changed(root: &Path) -> Option<String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").current_dir(root).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let base =
        ["origin/main", "main"].iter().find_map(|main| git(&["merge-base", main, "HEAD"]))?;
    let known = git(&["diff", "--name-only", base.trim()])?;
    Some(known + &git(&["ls-files", "--others", "--exclude-standard"])?)
}

/// Returns the packages of the workspace that these files belong to.
fn packages(files: &str) -> BTreeSet<String> {
    let of_file = |file: &str| match file.split('/').collect::<Vec<_>>()[..] {
        ["crates", "flagstone", ..] => Some("flagstone".to_owned()),
        ["crates", name, ..] => Some(format!("flagstone-{name}")),
        ["xtask", ..] => Some("xtask".to_owned()),
        _ => None,
    };
    files.lines().filter_map(of_file).collect()
}

fn shown(crates: &BTreeSet<String>) -> String {
    crates.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_crates_lead_to_their_packages() {
        let files = "README.md\ncrates/env/src/a.rs\ncrates/flagstone/b.rs\nxtask/c.rs\n\
                     python/src/d.rs\ncrates/env/Cargo.toml";
        assert_eq!(shown(&packages(files)), "flagstone, flagstone-env, xtask");
    }
}
