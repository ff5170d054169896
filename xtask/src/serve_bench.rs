//! `cargo xtask serve-bench`: builds the tool, the loader in `peers/serve` and FerretDB, installs
//! nx-27017 and pymongo into a virtual environment, and runs `peers/serve/serve.py`, which measures
//! the servers in turn. A run of everything as documented is written into `docs/bench/server.md`.
//! What cannot be built or installed is named in the result.

use crate::python::{commit, system_python};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The page that gets the tables.
const PAGE: &str = "docs/bench/server.md";
const SCRIPT: &str = "peers/serve/serve.py";
const PACKAGES: &str = "peers/serve/requirements.txt";
/// Below the folder of the workspace, and removed with the build of the peers.
const ENVIRONMENT: &str = "peers/target/serve-venv";
const PROGRAMS: &str = "peers/target/serve-programs";
/// The program that is FerretDB, of the last version whose store is SQLite.
const FERRETDB: &str = "peers/serve/ferretdb";

/// The words after which a run measures what the page describes.
const SAME: [&str; 3] = ["--rounds", "--dir", "--mongo-tools"];

/// Builds, installs and measures. Returns true if all of it ran. `--quick` measures each row for a
/// second; other words go to the script.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let (Some(tool), Some(load)) = (tool(root), loader(root)) else { return false };
    let Some(system) = system_python() else {
        eprintln!("Python 3.10 or newer, with its modules venv and pip, runs the servers in turn");
        return false;
    };
    let environment = root.join(ENVIRONMENT);
    let python = environment.join("bin/python");
    let is_installed = python.exists() && installs(root, &python) || {
        let made = Command::new(&system).args(["-m", "venv", "--clear"]).arg(&environment).status();
        made.is_ok_and(|status| status.success()) && installs(root, &python)
    };
    if !is_installed {
        println!("pymongo and nx-27017 cannot be installed: see above");
    }
    let mut measure = Command::new(if is_installed { python } else { system.into() });
    measure.current_dir(root).arg(SCRIPT).arg("--tool").arg(tool).arg("--load").arg(load);
    if is_installed {
        measure.arg("--nx").arg(environment.join("bin/nx-27017"));
    }
    if let Some(ferretdb) = ferretdb(root) {
        measure.arg("--ferretdb").arg(ferretdb);
    }
    if let Some(commit) = commit(root) {
        measure.args(["--commit", &commit]);
    }
    if words.contains(&"--quick") {
        measure.args(["--rounds", "1", "--seconds", "1", "--documents", "5000", "--idle", "500"]);
    }
    measure.args(words.iter().filter(|word| !["--quick", "--write"].contains(word)));
    if is_written(words) {
        measure.arg("--page").arg(PAGE);
    }
    measure.status().is_ok_and(|status| status.success())
}

/// Returns whether the result is written into the page: after a run of everything as documented, or
/// if asked to.
fn is_written(words: &[&str]) -> bool {
    let mut options = words.iter().filter(|word| word.starts_with("--"));
    words.contains(&"--write") || options.all(|word| SAME.contains(word))
}

/// Builds the tool and returns its path.
fn tool(root: &Path) -> Option<PathBuf> {
    println!("the tool");
    let mut build = crate::ci::cargo(root);
    build.args(["build", "--quiet", "--release", "--locked", "-p", "flagstone-cli"]);
    built(&mut build).then(|| target(root).join("release/flagstone"))
}

/// Builds what loads the servers and returns its path.
fn loader(root: &Path) -> Option<PathBuf> {
    println!("the loader");
    let mut build = crate::ci::cargo(root);
    build.args([
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--manifest-path",
        "peers/Cargo.toml",
    ]);
    // In the folder of the tool: what both need is compiled once.
    build.args(["-p", "flagstone-peers-serve"]).env("CARGO_TARGET_DIR", target(root));
    built(&mut build).then(|| target(root).join("release/flagstone-peers-serve"))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |target| root.join(target))
}

/// Returns the path of FerretDB: that which the environment names, or one that Go builds.
fn ferretdb(root: &Path) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FERRETDB") {
        return Some(named.into());
    }
    println!("FerretDB, which takes Go some minutes at first");
    let program = root.join(PROGRAMS).join("ferretdb");
    let mut build = Command::new("go");
    build.current_dir(root.join(FERRETDB)).args(["build", "-o"]).arg(&program).arg(".");
    built(&mut build).then_some(program)
}

fn installs(root: &Path, python: &Path) -> bool {
    let mut install = Command::new(python);
    install.current_dir(root);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
        PACKAGES,
    ]);
    built(&mut install)
}

fn built(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot run {}: {error}", command.get_program().display());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_a_few_rows_or_of_other_sizes_is_written_only_when_asked() {
        assert!(is_written(&[]) && is_written(&["--rounds", "5"]));
        for words in [
            &["--quick"][..],
            &["--rows", "find"],
            &["--engines", "flagstone"],
            &["--rounds", "5", "--seconds", "2"],
            &["--documents", "10"],
        ] {
            assert!(!is_written(words), "{words:?}");
            assert!(is_written(&[words, &["--write"]].concat()), "{words:?}");
        }
    }

    #[test]
    fn the_page_has_a_place_for_the_tables() {
        let page = std::fs::read_to_string(crate::root().join(PAGE)).expect("a page");
        assert!(page.contains("<!-- results: begin -->") && page.contains("<!-- results: end -->"));
    }
}
