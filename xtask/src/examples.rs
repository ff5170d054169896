//! `cargo xtask examples`: runs each program of `crates/flagstone/examples`, which users copy.

use crate::ci::cargo;
use std::io;
use std::path::Path;

/// The folder of the examples. Every file in it is run, so none is forgotten.
const FOLDER: &str = "crates/flagstone/examples";

/// Runs all examples without arguments, up to the first that fails. Returns whether all succeeded.
pub(crate) fn run(root: &Path) -> bool {
    let names = match names(root) {
        Ok(names) => names,
        Err(error) => {
            println!("cannot list {FOLDER}: {error}");
            return false;
        }
    };
    names.iter().all(|name| {
        println!("---- cargo {}", words(name).join(" "));
        let ok = cargo(root).args(words(name)).status().is_ok_and(|status| status.success());
        if !ok {
            println!("---- the example {name} failed");
        }
        ok
    })
}

/// Returns the arguments with which cargo runs the example `name`.
fn words(name: &str) -> [&str; 7] {
    ["run", "--locked", "-q", "-p", "flagstone", "--example", name]
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
        assert_eq!(words("bytes")[1], "--locked");
        assert_eq!(words("bytes")[5..], ["--example", "bytes"]);
    }
}
