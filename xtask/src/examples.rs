//! `cargo xtask examples`: runs each program of `crates/flagstone/examples`, which users copy, and
//! the guides of the server.

use crate::ci::cargo;
use crate::guides;
use crate::programs::built;
use std::io;
use std::path::Path;
use std::process::Command;

/// The folder of the examples. Every file in it is run, so none is forgotten.
const FOLDER: &str = "crates/flagstone/examples";

/// The package of a program that stores bytes alone.
const MANIFEST: &str = r#"[package]
name = "bytes"
edition = "2024"

[workspace]

[[bin]]
name = "bytes"
path = PROGRAM

[profile.dev]
opt-level = 1
debug = false

[dependencies]
tempfile = "3"
flagstone = { path = FLAGSTONE, default-features = false }
"#;

/// Builds the examples of all crates as `cargo test --workspace` does, and not of one crate: that
/// would build most crates again, with fewer features.
const BUILD: [&str; 5] = ["build", "--locked", "-q", "--workspace", "--examples"];

/// Runs all examples without arguments, and then the guides, up to the first that fails. Returns
/// whether all succeeded, and a note that names what could not be run.
pub(crate) fn step(root: &Path) -> (bool, String) {
    if !run_programs(root) {
        return (false, String::new());
    }
    let (ok, missing) = guides::run(root);
    for what in &missing {
        println!("---- not run: {what}");
    }
    let note =
        if missing.is_empty() { String::new() } else { format!("not run: {}", missing.join("; ")) };
    (ok, note)
}

fn run_programs(root: &Path) -> bool {
    let (names, folder) = match names(root).and_then(|names| Ok((names, built("examples")?))) {
        Ok(found) => found,
        Err(error) => {
            println!("cannot list {FOLDER}: {error}");
            return false;
        }
    };
    if !cargo(root).args(BUILD).status().is_ok_and(|status| status.success()) {
        return false;
    }
    let all_ok = names.iter().all(|name| {
        println!("---- cargo run -p flagstone --example {name}");
        let program = Command::new(folder.join(name)).current_dir(root).status();
        let ok = program.is_ok_and(|status| status.success());
        if !ok {
            println!("---- the example {name} failed");
        }
        ok
    });
    all_ok && run_with_bytes_alone(root, &folder.join("documents"))
}

/// Runs the example of bytes in a package of its own, as a user of the engine of bytes alone builds
/// it. In the workspace, what tests need turns all features on. A database that the example of
/// documents has written is refused.
fn run_with_bytes_alone(root: &Path, documents: &Path) -> bool {
    println!("---- the example bytes, without default features");
    let package = root.join("target/bytes");
    let quoted = |path: &str| format!("{:?}", root.join(path));
    let manifest = MANIFEST
        .replace("PROGRAM", &quoted(&format!("{FOLDER}/bytes.rs")))
        .replace("FLAGSTONE", &quoted("crates/flagstone"));
    let written = std::fs::create_dir_all(&package)
        .and_then(|()| std::fs::write(package.join("Cargo.toml"), manifest))
        .and_then(|()| std::fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")));
    if let Err(error) = written {
        println!("cannot write {}: {error}", package.display());
        return false;
    }
    let run = |directory: Option<&Path>| {
        let mut command = cargo(&package);
        // With what is compiled already: the lock file is that of the workspace.
        command.args(["run", "--quiet", "--offline", "--target-dir"]).arg(root.join("target"));
        command.arg("--").args(directory);
        command
    };
    if !run(None).status().is_ok_and(|status| status.success()) {
        return false;
    }
    let written = package.join("written");
    // Of the last run.
    let _ = std::fs::remove_dir_all(&written);
    let made = Command::new(documents).arg(&written).output();
    let refused = run(Some(&written)).output();
    let text = refused.map(|refused| String::from_utf8_lossy(&refused.stderr).into_owned());
    let ok = made.is_ok_and(|made| made.status.success())
        && text.as_ref().is_ok_and(|text| text.contains("feature `documents`"));
    if !ok {
        println!("---- a database with collections was not refused: {text:?}");
    }
    ok
}

/// The names of the examples, in order.
fn names(root: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.join(FOLDER))? {
        let file = entry?.file_name();
        if let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".rs")) {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_run_with_the_lock_file_as_it_is() {
        let names = names(&crate::root()).unwrap();
        for name in ["batches", "bulk_load", "bytes", "counter", "documents", "typed_structs"] {
            assert!(names.iter().any(|found| found == name), "{name}");
        }
        assert_eq!(BUILD[1], "--locked");
    }
}
