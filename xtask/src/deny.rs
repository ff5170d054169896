//! `cargo xtask deny`: checks outside crates by `cargo-deny` and the rules in `deny.toml`.

use crate::ci::cargo;
use std::path::Path;
use std::process::Stdio;

/// The workspaces. Each has a lock file of its own.
const MANIFESTS: [&str; 3] = ["./Cargo.toml", "./peers/Cargo.toml", "./python/Cargo.toml"];

/// The checks that depend on the lock files alone.
const STEADY: [&str; 3] = ["licenses", "bans", "sources"];

/// The message when `cargo-deny` is not installed.
pub(crate) const ABSENT: &str = "not checked: cargo-deny is not installed";
const INSTALL: &str = "to install it: cargo install --locked cargo-deny";

/// Runs all checks, also that of advisories, which downloads them. Returns true if nothing is
/// refused. A missing tool is a failure: the developer asked for this check.
pub(crate) fn run(root: &Path) -> bool {
    if !is_installed(root) {
        println!("{ABSENT}; {INSTALL}");
        return false;
    }
    check(root, &[])
}

/// Runs the checks that belong to ci. Advisories do not: a change must not fail because an advisory
/// was published meanwhile. A missing tool is reported and is no failure.
pub(crate) fn step(root: &Path) -> (bool, String) {
    if !is_installed(root) {
        println!("{ABSENT}; {INSTALL}");
        return (true, ABSENT.to_owned());
    }
    (check(root, &STEADY), String::new())
}

fn is_installed(root: &Path) -> bool {
    let probe = cargo(root).args(["deny", "--version"]).stdin(Stdio::null()).output();
    probe.is_ok_and(|output| output.status.success())
}

fn check(root: &Path, checks: &[&str]) -> bool {
    MANIFESTS.iter().all(|manifest| {
        println!("{manifest}");
        let status = cargo(root).args(words(manifest, checks)).status();
        status.is_ok_and(|status| status.success())
    })
}

/// Returns the arguments with which cargo checks the workspace of `manifest`.
fn words<'a>(manifest: &'a str, checks: &[&'a str]) -> Vec<&'a str> {
    let first = ["deny", "--locked", "--manifest-path", manifest, "--config", "deny.toml", "check"];
    [&first, checks].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workspaces_are_checked_by_the_same_rules_and_locked() {
        let root = crate::root();
        for manifest in MANIFESTS {
            assert!(root.join(manifest).is_file(), "{manifest}");
            let words = words(manifest, &STEADY).join(" ");
            assert!(words.starts_with("deny --locked "), "{words}");
            assert!(words.ends_with("--config deny.toml check licenses bans sources"), "{words}");
        }
        assert!(root.join("deny.toml").is_file());
    }
}
